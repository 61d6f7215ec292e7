import { request as httpRequest } from "node:http";
import t, { type Test } from "tap";
import { asking, KEY, startGateway } from "../support/gateway.ts";
import { rawUpstream } from "../support/upstream.ts";

const FINE = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}";
/** How many requests of each kind. */
const COUNT = 10;

/** A provider that answers the first request of a connection, and takes every other one, works for a while and dies. */
async function dying(t: Test) {
  const seen: string[] = [];
  const upstream = await rawUpstream(async (socket, { head, body, nth }) => {
    seen.push(`${head.split(" ", 2).join(" ")} ${/tag-\d+/.exec(`${head}${await body}`)?.[0]}`);
    if (nth === 1 && !/^upgrade:/im.test(head)) socket.write(FINE);
    else setTimeout(() => socket.resetAndDestroy(), Math.random() * 45);
  });
  t.teardown(() => upstream.close());
  const running = await startGateway(
    t,
    `providers: { up: { url: "${upstream.origin.origin}/v1", credential: provider-secret-0123, speaks: [openai-chat, openai-responses], websocket: true } }
models: { m: { targets: [up:m] } }
share: all
paths:
  /v1/chat/completions: { protocol: openai-chat }
  /v1/responses/*: { protocol: openai-responses }
  /v1/realtime: { protocol: openai-realtime }
  /v1/files/*: { pass: up }
`,
  );
  return { seen, running };
}

/** Asks, and answers the status; what was asked carries the tag. */
function ask(port: number, method: string, path: string, tag: string, more: Record<string, string> = {}) {
  const body = method === "POST" ? `{"model":"m","user":"${tag}"}` : undefined;
  return new Promise<number>((resolve, reject) => {
    const asked = httpRequest({ port, host: "127.0.0.1", method, path, headers: asking(more) }, (answer) => {
      answer.resume().once("end", () => resolve(answer.statusCode ?? 0));
    });
    asked.on("error", reject).end(body);
  });
}

for (const [what, method, path, status] of [
  ["a prompt", "POST", "/v1/chat/completions", 502],
  ["a body that passes unread", "POST", "/v1/files/x", 502],
  ["a call that deletes", "DELETE", "/v1/files/TAG", 502],
  ["a call that only reads", "GET", "/v1/files/TAG", 200],
] as const)
  t.test(`${what} that a failing provider may have processed: ${status}`, async (t) => {
    const { seen, running } = await dying(t);
    for (let i = 0; i < COUNT; i++) {
      const at = (tag: string) => path.replace("TAG", tag);
      t.equal(await ask(running.port, method, at(`tag-${2 * i}0`), `tag-${2 * i}0`), 200, "on a new connection");
      const tag = `tag-${2 * i + 1}0`;
      t.equal(await ask(running.port, method, at(tag), tag), status, "on a kept connection");
      t.equal(seen.filter((each) => each.endsWith(tag)).length, status === 200 ? 2 : 1, "received by the provider");
      // What was repeated left a kept connection behind.
      if (status === 200) await ask(running.port, method, at("tag-9"), "tag-9");
    }
  });

t.test("a WebSocket's handshake is sent once, and never on a reused connection", async (t) => {
  const { seen, running } = await dying(t);
  for (let i = 0; i < COUNT; i++) {
    t.equal(await ask(running.port, "GET", "/v1/files/x", ""), 200);
    const headers = {
      ...{ connection: "Upgrade", upgrade: "websocket", "sec-websocket-version": "13" },
      ...{ "sec-websocket-key": "dGhlIHNhbXBsZSBub25jZQ==", authorization: `Bearer ${KEY}` },
    };
    const before = seen.length;
    t.equal(await ask(running.port, "GET", "/v1/realtime?model=m", "", headers), 502);
    t.equal(seen.length - before, 1, "handshakes");
  }
});
