import { readdirSync } from "node:fs";
import { Agent, type IncomingMessage, request } from "node:http";
import { join } from "node:path";
import { setTimeout as after } from "node:timers/promises";
import t from "tap";
import { asking } from "../support/gateway.ts";
import { eventually, type GatewayProcess, startProcess } from "../support/process.ts";
import { httpUpstream } from "../support/upstream.ts";

/** How often the gateway is killed, and requests in a second. */
const KILLS = Number(process.env["GATEWAY_TEST_KILLS"] ?? 3);
const RATE = Number(process.env["GATEWAY_TEST_KILL_RATE"] ?? 100);

const USAGE = { prompt_tokens: 7, completion_tokens: 3, total_tokens: 10 };
const chunk = (more: object) => `data: ${JSON.stringify({ id: "c", object: "chat.completion.chunk", ...more })}\n\n`;

/** A provider of which every fifth answer takes long. */
const provider = () =>
  httpUpstream(async ({ body }, reply) => {
    const { stream, messages } = JSON.parse(body.toString()) as { stream: boolean; messages: { content: string }[] };
    if (Number(messages[0]?.content) % 5 === 0) await after(80);
    if (!stream) {
      const choices = [{ index: 0, message: { role: "assistant", content: "Hi" }, finish_reason: "stop" }];
      reply.setHeader("content-type", "application/json").end(JSON.stringify({ id: "c", choices, usage: USAGE }));
      return;
    }
    reply.setHeader("content-type", "text/event-stream");
    reply.write(chunk({ choices: [{ index: 0, delta: { content: "H" } }] }));
    await after(20);
    reply.write(chunk({ choices: [{ index: 0, delta: { content: "i" }, finish_reason: "stop" }] }));
    reply.end(`${chunk({ choices: [], usage: USAGE })}data: [DONE]\n\n`);
  });

/** Requests until it is stopped: the ids of those that were answered to their end, and how many were not. */
function traffic(port: number) {
  const agent = new Agent({ keepAlive: true, maxSockets: 64 });
  const whole: string[] = [];
  let asked = 0;
  let going = true;
  const ask = (nth: number) => {
    const options = { port, host: "127.0.0.1", path: "/v1/chat/completions", method: "POST", headers: asking(), agent };
    const { promise, resolve } = Promise.withResolvers<void>();
    const sent = request(options, (answer: IncomingMessage) => {
      let text = "";
      answer.setEncoding("utf8").on("data", (more: string) => (text += more));
      answer.on("end", () => {
        if (answer.complete && text.includes('"usage"')) whole.push(String(answer.headers["x-request-id"]));
        resolve();
      });
      answer.on("error", () => resolve());
    });
    const body = { model: "m", stream: nth % 2 === 0, stream_options: { include_usage: true } };
    sent
      .on("error", () => resolve())
      .end(JSON.stringify({ ...body, messages: [{ role: "user", content: String(nth) }] }));
    return promise;
  };
  const running: Promise<void>[] = [];
  const loop = (async () => {
    while (going) {
      running.push(ask(asked++));
      await after(1000 / RATE);
    }
  })();
  return async () => {
    going = false;
    await loop;
    await Promise.all(running);
    agent.destroy();
    return whole;
  };
}

t.test("a gateway that is killed at any moment loses no row and doubles none", async (t) => {
  const upstream = await provider();
  t.teardown(() => upstream.close());
  const yaml = `providers: { up: { url: "${upstream.origin.origin}/v1", speaks: [openai-chat] } }
models: { m: { targets: [up:m], price: { input: 1, output: 1 } } }
`;
  let gateway: GatewayProcess | undefined;
  const answered: string[] = [];
  for (let life = 0; life <= KILLS; life++) {
    gateway = await startProcess(t, yaml, gateway ? { folder: gateway.folder } : {});
    const stop = traffic(gateway.port);
    if (life < KILLS) {
      await after(300 + Math.random() * 700);
      await gateway.end("SIGKILL");
    } else await after(500);
    answered.push(...(await stop()));
  }
  if (!gateway) return;
  const { folder } = gateway;
  // What the killed ones left is taken over while the last one serves.
  const left = () =>
    readdirSync(join(folder, "gateway.db.journal")).filter((name) => !name.startsWith(`${gateway.child.pid}-`));
  await eventually(() => left().length === 0, "the journals of the killed to be in the ledger");
  t.equal(await gateway.end("SIGINT"), 0);
  t.same(readdirSync(join(folder, "gateway.db.journal")), [], "and nothing waits behind a stop");
  const { outcomes, twice } = gateway.ledger();
  const ids = gateway.rows();
  t.equal(twice, 0, "no row stands there twice");
  t.same(
    answered.filter((id) => ids[id] !== "completed"),
    [],
    "who was answered has a row that says so",
  );
  const rows = Object.keys(ids).length;
  t.ok(rows >= upstream.seen.length, `${rows} rows for ${upstream.seen.length} requests that a provider got`);
  t.same(
    Object.keys(outcomes).filter((name) => !["completed", "interrupted", "aborted"].includes(name)),
    [],
  );
  t.comment(`${KILLS} kills: ${answered.length} whole answers, ${rows} rows, ${JSON.stringify(outcomes)}`);
});
