import { connect } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import t, { type Test } from "tap";
import { KEY, startGateway } from "../support/gateway.ts";
import { until } from "../support/until.ts";
import { type RawRequest, rawUpstream } from "../support/upstream.ts";

/** Fast enough for a test: what a real gateway gives up in seconds. */
const LIMITS = "body: { idle: 400ms, slowest: 1KiB, patience: 300ms }\n";
const BOUNDARY = "multipart/form-data; boundary=xx";
const MODEL = '--xx\r\ncontent-disposition: form-data; name="model"\r\n\r\nany\r\n';
const FILE = '--xx\r\ncontent-disposition: form-data; name="image"; filename="a.png"\r\n\r\n';

/** Every way in which a body is read: where it goes, its type, how it begins. */
const WAYS: Record<string, [path: string, type: string, begin: string]> = {
  JSON: ["/v1/chat/completions", "application/json", '{"model":"any","messages":"'],
  "a form before its model": ["/v1/images/edits", BOUNDARY, FILE],
  "a form behind its model": ["/v1/images/edits", BOUNDARY, MODEL + FILE],
  "a path that passes": ["/v1/files", "application/octet-stream", "x"],
};

/** A provider that answers once it has everything, and what it was sent. */
async function behind(t: Test, more = LIMITS, reads = true) {
  const seen: RawRequest[] = [];
  const upstream = await rawUpstream(async (socket, request) => {
    seen.push(request);
    if (!reads) socket.pause();
    await request.body;
    socket.write("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}");
  });
  t.teardown(() => upstream.close());
  const running = await startGateway(
    t,
    `${more}providers: { up: { url: "${upstream.origin.origin}/v1", speaks: [openai-chat, openai-images] } }
models: { any: { targets: [up:any] } }
paths: { "/v1/files": { pass: up } }
`,
  );
  return { running, seen, upstream };
}

function begin(t: Test, port: number, [path, type, start]: [string, string, string]) {
  const socket = connect(port, "127.0.0.1").setNoDelay(true);
  const client = { socket, text: "", closed: false };
  socket.setEncoding("latin1").on("data", (text: string) => (client.text += text));
  socket.on("error", () => {}).on("close", () => (client.closed = true));
  t.teardown(() => socket.destroy());
  socket.write(
    `POST ${path} HTTP/1.1\r\nhost: a\r\nauthorization: Bearer ${KEY}\r\ncontent-type: ${type}\r\ncontent-length: 10000000\r\n\r\n${start}`,
  );
  return client;
}

for (const [name, way] of Object.entries(WAYS)) {
  t.test(`${name}: bodies that arrive one byte at a time are aborted, one that is only long is not`, async (t) => {
    const { running, upstream } = await behind(t);
    const slow = Array.from({ length: 20 }, () => begin(t, running.port, way));
    const drip = setInterval(() => {
      for (const { socket } of slow) socket.write("x");
    }, 50);
    t.teardown(() => clearInterval(drip));
    const steady = begin(t, running.port, way);
    const flow = setInterval(() => steady.socket.write("x".repeat(400)), 50);
    t.teardown(() => clearInterval(flow));
    await until(() => slow.every(({ closed }) => closed), "every slow connection to be closed");
    for (const { text } of slow) if (text !== "") t.match(text, /^HTTP\/1\.1 408 /);
    t.notOk(steady.closed, "the steady one stays open");
    t.equal(steady.text, "");
    clearInterval(flow);
    await until(() => steady.closed, "which falls silent, and is closed");
    await until(() => upstream.open === 0 || upstream.connections === 0, "nothing to be left at the provider");
  });

  t.test(`${name}: a client that disconnects is gone at once, for the provider too`, async (t) => {
    const { running, upstream } = await behind(t, "");
    const leaving = {
      half: (socket: ReturnType<typeof connect>) => socket.end(),
      whole: (socket: ReturnType<typeof connect>) => socket.destroy(),
      reset: (socket: ReturnType<typeof connect>) => socket.resetAndDestroy(),
    };
    for (const [how, leave] of Object.entries(leaving)) {
      const clients = Array.from({ length: 10 }, () => begin(t, running.port, way));
      await sleep(200);
      for (const { socket } of clients) leave(socket);
      await until(() => clients.every(({ closed }) => closed), `${how}: our side to close`);
      await until(
        () => running.log.lines.filter(({ message }) => message === "exchange").length % 10 === 0,
        `${how}: exchanges to end`,
      );
      await until(() => upstream.open === 0, `${how}: nothing to be left at the provider`);
    }
  });
}

t.test("a slow provider is not counted as a slow client", async (t) => {
  for (const name of ["a form behind its model", "a path that passes"]) {
    const { running } = await behind(t, LIMITS, false);
    const client = begin(t, running.port, WAYS[name] as [string, string, string]);
    const piece = Buffer.alloc(1 << 16, "x");
    const more = () => {
      while (!client.socket.destroyed && client.socket.write(piece));
    };
    client.socket.on("drain", more);
    more();
    await sleep(1500);
    t.notOk(client.closed, name);
    t.equal(client.text, "", name);
    client.socket.destroy();
  }
});
