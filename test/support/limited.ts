import { setTimeout as sleep } from "node:timers/promises";
import type { Test } from "tap";
import { asking } from "./key.ts";
import type { GatewayProcess } from "./process.ts";
import { httpUpstream } from "./upstream.ts";

/** Each request costs a cent: ten output tokens. */
export const BODY = '{"model":"m","max_tokens":10,"messages":[]}';
const WHOLE = JSON.stringify({
  id: "c",
  object: "chat.completion",
  choices: [{ index: 0, message: { role: "assistant", content: "Hi" }, finish_reason: "stop" }],
  usage: { prompt_tokens: 5, completion_tokens: 10, total_tokens: 15 },
});

/** Starts a provider that never responds to requests containing "hang", and to those containing "held" not before `release`. */
export async function provider(t: Test, release?: Promise<void>) {
  const upstream = await httpUpstream(async ({ body }, reply) => {
    if (body.includes("hang")) return;
    if (body.includes("held")) await release;
    await sleep(5);
    reply.writeHead(200, { "content-type": "application/json" }).end(WHOLE);
  });
  t.teardown(() => upstream.close());
  return upstream;
}

export const yaml = (origin: URL, budget: string, more = "") => `${more}
providers: { p: { url: "${origin.origin}/v1", speaks: [openai-chat] } }
models: { m: { targets: [p:x], price: { input: 0, output: 1000 }, output: 100 } }
limits: { default: { budget: ${budget}, concurrency: 900 }, all: { budget: ${budget}/month } }
`;

export const ask = (url: string, body = BODY): Promise<number> =>
  fetch(`${url}/v1/chat/completions`, { method: "POST", headers: asking({ connection: "close" }), body }).then(
    async (answer) => {
      await answer.text();
      return answer.status;
    },
    () => 0,
  );
export const passed = (statuses: readonly number[]): number => statuses.filter((status) => status === 200).length;

interface Room {
  remaining: number;
}

export const page = async ({ url }: GatewayProcess) => {
  const answer = await fetch(`${url}/v1/key`, { headers: asking({ connection: "close" }) });
  const { data } = (await answer.json()) as {
    data: {
      limits: { requests_per_minute?: Room; concurrency?: Room; budgets: { spent: number; reserved: number }[] }[];
    };
  };
  return data.limits;
};
