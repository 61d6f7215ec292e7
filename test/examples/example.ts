import { fileURLToPath } from "node:url";
import { asking, type Running, startGateway } from "../support/gateway.ts";

/** A gateway whose `llm` chain holds an example plugin behind `auth`, and one model that repeats what it is told. */
export function startExample(
  t: { teardown(act: () => unknown): unknown },
  name: string,
  options: object,
): Promise<Running> {
  const from = fileURLToPath(new URL(`../../examples/${name}.ts`, import.meta.url));
  return startGateway(
    t,
    `providers: { demo: { url: "demo:" } }
models: { echo: { targets: [demo:echo] } }
plugins: { ${name}: ${JSON.stringify({ from, ...options })} }
chains: { llm: [sse, auth, ${name}, scrub, models, rewrite, usage] }
`,
  );
}

/** Says something to the model, through Chat Completions. */
export const say = ({ url }: Running, content: string): Promise<Response> =>
  fetch(`${url}/v1/chat/completions`, {
    method: "POST",
    headers: asking(),
    body: JSON.stringify({ model: "echo", messages: [{ role: "user", content }] }),
  });
