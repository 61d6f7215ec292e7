import { fileURLToPath } from "node:url";
import { asking, type Running, startGateway } from "../support/gateway.ts";

/** A gateway with some example plugins, by name with their options. @param yaml providers and models */
export function startExamples(
  t: { teardown(act: () => unknown): unknown },
  yaml: string,
  chain: string,
  plugins: Readonly<Record<string, object>>,
): Promise<Running> {
  const entries = Object.entries(plugins).map(([name, options]) => {
    const from = fileURLToPath(new URL(`../../examples/${name}.ts`, import.meta.url));
    return `${name}: ${JSON.stringify({ from, ...options })}`;
  });
  return startGateway(t, `${yaml}plugins: { ${entries.join(", ")} }\nchains: { llm: ${chain} }\n`);
}

/** A gateway whose `llm` chain holds an example plugin behind `auth`, and one model that repeats what it is told. */
export function startExample(
  t: { teardown(act: () => unknown): unknown },
  name: string,
  options: object,
): Promise<Running> {
  const yaml = `providers: { demo: { url: "demo:" } }\nmodels: { echo: { targets: [demo:echo] } }\n`;
  return startExamples(t, yaml, `[sse, auth, ${name}, scrub, models, rewrite, usage]`, { [name]: options });
}

/** Says something to the model, through Chat Completions. */
export const say = ({ url }: Running, content: string): Promise<Response> =>
  fetch(`${url}/v1/chat/completions`, {
    method: "POST",
    headers: asking(),
    body: JSON.stringify({ model: "echo", messages: [{ role: "user", content }] }),
  });

/** Characters of a text that examples search in one turn of the event loop. */
export const STEP = 32 * 1024;

/** Returns a text around each place at which one step of a search ends. */
export function aroundSteps(text: string): string[] {
  const offsets = [-text.length - 1, -text.length, 1 - text.length, -8, -1, 0, 1];
  return offsets.map((offset) => `${" .".repeat(STEP).slice(0, STEP + offset)}${text}${" .".repeat(1000)}`);
}
