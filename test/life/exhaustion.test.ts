import { connect, type Socket } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import t, { type Test } from "tap";
import { KEY } from "../support/key.ts";
import { startProcess } from "../support/process.ts";
import { each, post, send } from "../support/raw.ts";
import { until } from "../support/until.ts";
import { httpUpstream } from "../support/upstream.ts";

/** How often everything is used up. */
const ROUNDS = Number(process.env["GATEWAY_TEST_ROUNDS"] ?? 1);
/** As operators have it: with protection against overload. */
const OWN = "log: { level: error }\noverload: {}\n";
const YAML = 'providers: { demo: { url: "demo:" } }\nmodels: { any: { targets: [demo:echo] } }\n';
const BODY = '{"model":"any","max_tokens":20,"messages":[{"role":"user","content":"hi"}]}';
const LIST = `GET /v1/models HTTP/1.1\r\nhost: a\r\nx-api-key: ${KEY}\r\n\r\n`;

/** Connections that stay until they are let go. */
function hold(t: Test, port: number, count: number): Socket[] {
  const sockets = Array.from({ length: count }, () => {
    const socket = connect(port, "127.0.0.1").on("error", () => {});
    return socket.resume();
  });
  t.teardown(() => {
    for (const socket of sockets) socket.destroy();
  });
  return sockets;
}

/** The status of a question; 0 where the connection is broken off, or nobody takes it in two seconds. */
const status = (port: number, body: string): Promise<number> =>
  Promise.race([
    post(port, "/v1/chat/completions", body).then(
      (answer) => answer.status,
      () => 0,
    ),
    sleep(2000, 0),
  ]);

/** Asks until there is an answer. */
const recovers = (port: number): Promise<void> =>
  until(async () => (await send(port, LIST)).statuses[0] === 200, "it to answer again");

t.test(
  "more connections than file descriptors: some are refused, the gateway keeps running, and it recovers",
  async (t) => {
    const upstream = await httpUpstream();
    t.teardown(() => upstream.close());
    const gateway = await startProcess(
      t,
      `${OWN}providers: { up: { url: "${upstream.origin.origin}/v1", speaks: [openai-chat] } }\nmodels: { any: { targets: [up:any] } }\n`,
      { ulimit: "-n 256" },
    );
    const { port } = gateway;
    for (let round = 0; round < ROUNDS; round++) {
      const first = hold(t, port, 190);
      await sleep(300);
      // With few descriptors left, some of these find none for the way to the provider.
      const statuses = await each(
        Array(60).fill(0),
        () =>
          post(port, "/v1/chat/completions", BODY).then(
            ({ status }) => status,
            () => 0,
          ),
        60,
      );
      t.same(
        statuses.filter((status) => ![0, 200, 502, 503].includes(status)),
        [],
        "answered, or refused with a status",
      );
      const flood = hold(t, port, 400);
      await sleep(500);
      t.notOk(gateway.hasEnded, gateway.text.slice(-2000));
      for (const socket of [...first, ...flood]) socket.destroy();
      await recovers(port);
    }
    t.equal((await post(port, "/v1/chat/completions", BODY)).status, 200);
  },
);

t.test("with little memory large bodies are answered or refused, and the gateway keeps running", async (t) => {
  const gateway = await startProcess(t, `${OWN}body: { limit: 8MiB }\n${YAML}`, {
    node: ["--max-old-space-size=128"],
  });
  const { port } = gateway;
  const large = JSON.stringify({
    model: "any",
    max_tokens: 5,
    messages: Array.from({ length: 2000 * ROUNDS }, (_, i) => ({
      role: i % 2 ? "assistant" : "user",
      content: "x".repeat(50),
    })),
  });
  const outcomes = await each(Array(20 * ROUNDS).fill(0), () => status(port, large), 20);
  t.same(
    outcomes.filter((status) => ![0, 200, 413, 503].includes(status)),
    [],
    "answered or refused",
  );
  t.notOk(gateway.hasEnded, gateway.text.slice(-2000));
  await recovers(port);
});
