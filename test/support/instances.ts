import { setTimeout as after } from "node:timers/promises";
import type { Test } from "tap";
import { freePort } from "./free-port.ts";
import { asking, KEY } from "./key.ts";
import { type PostgresServer, startPostgres } from "./postgres.ts";
import { type GatewayProcess, startProcess } from "./process.ts";
import { type RedisProcess, startRedis } from "./redis.ts";
import { httpUpstream } from "./upstream.ts";

/**
 * Starts gateways that serve together, in separate processes and folders.
 * @param yaml of each of them
 * @param store the value in gateway.yaml
 */
export function startInstances(t: Test, yaml: string, store: string, count = 3): Promise<GatewayProcess[]> {
  const own = `store: ${store}\ninstances: ${count}\n`;
  // Ports that one which has been killed can have again.
  const start = async () => startProcess(t, `listen: 127.0.0.1:${await freePort()}\n${own}${yaml}`);
  return Promise.all(Array.from({ length: count }, start));
}

/** Their shared servers. */
export interface SharedStores {
  readonly postgres: PostgresServer;
  readonly redis: RedisProcess;
  /** A database's address. */
  readonly database: string;
  /** The value in gateway.yaml. */
  readonly store: string;
}

/** Starts servers for a whole file; undefined if one is not installed. */
export async function sharedServers(t: Test): Promise<Pick<SharedStores, "postgres" | "redis"> | undefined> {
  const postgres = await startPostgres(t);
  const redis = await startRedis(t);
  return postgres && redis && { postgres, redis };
}

/** Creates a new database and empty counts for a test. */
export async function freshStores({
  postgres,
  redis,
}: Pick<SharedStores, "postgres" | "redis">): Promise<SharedStores> {
  await redis.ask("FLUSHALL");
  const database = await postgres.database();
  return { postgres, redis, database, store: `{ ledger: "${database}", limits: "${redis.url}" }` };
}

/** Returns a function that adds a test with stores of its own on servers that a file shares; without servers it passes. */
export async function testsOnStores(t: Test) {
  const servers = await sharedServers(t);
  return (name: string, body: (t: Test, stores: SharedStores) => Promise<void>) =>
    t.test(name, async (t) => {
      if (servers) await body(t, await freshStores(servers));
    });
}

/** Starts a provider of Responses that stores its responses, and of chats; each response costs a cent. */
export async function vendor(t: Test, name: string) {
  let count = 0;
  const upstream = await httpUpstream(async ({ url, body }, reply) => {
    reply.setHeader("content-type", "application/json");
    if (/\/responses\/resp_/.test(url)) return reply.end(JSON.stringify(answer(url.split("/").at(-1) as string)));
    if (url.endsWith("/responses")) return reply.end(JSON.stringify(answer(`resp_${name}${++count}`)));
    const { stream } = JSON.parse(body.toString()) as { stream?: boolean };
    if (!stream) return reply.end(JSON.stringify(CHAT));
    reply.setHeader("content-type", "text/event-stream");
    reply.write(chunk({ choices: [{ index: 0, delta: { content: "H" } }] }));
    if (body.includes("hang")) return undefined;
    await after(20);
    reply.write(chunk({ choices: [{ index: 0, delta: { content: "i" }, finish_reason: "stop" }] }));
    return reply.end(`${chunk({ choices: [], usage: USAGE })}data: [DONE]\n\n`);
  });
  t.teardown(() => upstream.close());
  return upstream;
}

const USAGE = { prompt_tokens: 7, completion_tokens: 10, total_tokens: 17 };
const CHAT = {
  ...{ id: "c", object: "chat.completion", usage: USAGE },
  choices: [{ index: 0, message: { role: "assistant", content: "Hi" }, finish_reason: "stop" }],
};
const chunk = (more: object) => `data: ${JSON.stringify({ id: "c", object: "chat.completion.chunk", ...more })}\n\n`;
const answer = (id: string) => ({
  ...{ id, object: "response", status: "completed", model: "x", store: true },
  output: [
    {
      type: "message",
      id: `msg_${id}`,
      role: "assistant",
      status: "completed",
      content: [{ type: "output_text", text: "Hi", annotations: [] }],
    },
  ],
  usage: { input_tokens: 7, output_tokens: 10, total_tokens: 17 },
});

/** Returns the yaml of gateways with a model `m` at these providers, at a cent per request. */
export const yaml = (providers: Record<string, { origin: URL }>, more = "") => `linger: off
providers:
${Object.entries(providers)
  .map(([name, { origin }]) => `  ${name}: { url: "${origin.origin}/v1", speaks: [openai-chat, openai-responses] }\n`)
  .join(
    "",
  )}models: { m: { targets: [${Object.keys(providers).map((name) => `${name}:x`)}], price: { input: 0, output: 1000 }, output: 100 } }
${more}`;

/** Each request uses a new connection. */
export const post = (url: string, path: string, body: object, key = KEY) =>
  fetch(`${url}/v1/${path}`, {
    method: "POST",
    headers: { ...asking({ connection: "close" }), authorization: `Bearer ${key}` },
    body: JSON.stringify({ model: "m", ...body }),
  });
export const chat = (url: string, more: object = {}, key = KEY) =>
  post(url, "chat/completions", { max_tokens: 10, messages: [{ role: "user", content: "hi" }], ...more }, key);
