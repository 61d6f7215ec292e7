import { readFileSync, writeFileSync } from "node:fs";
import { createServer, request } from "node:http";
import { connect } from "node:net";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import t from "tap";
import { KEY, startGateway } from "../support/gateway.ts";
import { listen } from "../support/listen.ts";
import { until } from "../support/until.ts";

const yaml = (settings: string) => `
providers: { demo: { url: "demo:" } }
models: { echo: { targets: [demo:echo] }, long: { targets: [demo:echo] } }
${settings}
`;

const LIMITED = yaml(`
connections: { headers: 8, target: 200B }
body: { depth: 5, names: 12, ratio: 2 }
`);

t.test("the sizes of heads and of JSON are those of the file, and follow a reload", async (t) => {
  const { port, gateway, folder } = await startGateway(t, LIMITED);
  const ask = (
    more: Record<string, unknown>,
    { headers = 0, query = "", gzip = false } = {},
  ): Promise<{ status: number | undefined; text: string }> =>
    new Promise((resolve, reject) => {
      const json = Buffer.from(JSON.stringify({ model: "echo", messages: [{ role: "user", content: "Hi" }], ...more }));
      const body = gzip ? gzipSync(json) : json;
      const sent = request({
        ...{ port, host: "127.0.0.1", method: "POST", path: `/v1/chat/completions${query}` },
        headers: {
          ...{ authorization: `Bearer ${KEY}`, "content-type": "application/json", "content-length": body.length },
          ...(gzip && { "content-encoding": "gzip" }),
          ...Object.fromEntries(Array.from({ length: headers }, (_, i) => [`x-more-${i}`, "1"])),
        },
      });
      sent.on("error", reject).on("response", async (response) => {
        let text = "";
        for await (const piece of response) text += piece;
        resolve({ status: response.statusCode, text });
      });
      sent.end(body);
    });
  const deep = { metadata: { a: { b: { c: { d: { e: "f" } } } } } };
  const names = { metadata: Object.fromEntries(Array.from({ length: 12 }, (_, i) => [`n${i}`, "v"])) };
  const large = { messages: [{ role: "user", content: "a".repeat(1_200_000) }] };
  const cases = [
    [{}, { headers: 6 }, 431, /At most 8 header lines/],
    [{}, { query: `?x=${"a".repeat(200)}` }, 414, /At most 200 bytes/],
    [deep, {}, 400, /deeper than 5 levels/],
    [names, {}, 400, /More than 12 names/],
    [large, { gzip: true }, 413, /more than 2 times its size/],
  ] as const;
  t.equal((await ask({})).status, 200);
  for (const [more, options, status, told] of cases) t.match(await ask(more, options), { status, text: told });
  const file = join(folder, "gateway.yaml");
  const text = readFileSync(file, "utf8");
  const wider = text.replace("headers: 8, target: 200B", "target: 1KiB").replace(/body: .*/, "body: { ratio: 5000 }");
  writeFileSync(file, wider);
  await gateway.reload();
  for (const [more, options] of cases) {
    const { status, text } = await ask(more, options);
    t.ok(status === 200 || /metadata/.test(text), `${status} ${text.slice(0, 200)}`);
  }
});

t.test("the size of a head is that of the file, and follows a reload for new connections", async (t) => {
  const { port, gateway, folder } = await startGateway(t, yaml("connections: { head_size: 4KiB }"));
  const answered = (bytes: number, more = ""): Promise<string> =>
    new Promise((resolve, reject) => {
      const socket = connect(port, "127.0.0.1").on("error", reject);
      let text = "";
      socket.on("data", (piece) => (text += piece)).on("end", () => resolve(text));
      socket.write(
        `GET /v1/models HTTP/1.1\r\nhost: a\r\nauthorization: Bearer ${KEY}\r\nconnection: close\r\n${more}x: ${"a".repeat(bytes)}\r\n\r\n`,
      );
    });
  t.match(await answered(3500), /^HTTP\/1\.1 200 /);
  t.match(await answered(4096), /^HTTP\/1\.1 431 .*header lines and 4096 bytes/s);
  const file = join(folder, "gateway.yaml");
  writeFileSync(file, readFileSync(file, "utf8").replace("head_size: 4KiB", "head_size: 40KiB"));
  const { restart } = await gateway.reload();
  t.same(restart, [], "no restart is needed");
  t.match(await answered(39_000), /^HTTP\/1\.1 200 /);
  t.match(await answered(41_000), /^HTTP\/1\.1 431 .*and 40960 bytes/s);
});

t.test("an event larger than the file's limit ends the stream with an error, and follows a reload", async (t) => {
  const large = JSON.stringify({ choices: [{ index: 0, delta: { content: "a".repeat(200_000) } }] });
  const vendor = createServer((_request, response) => {
    response.writeHead(200, { "content-type": "text/event-stream" });
    response.write(`data: ${large}\n\n`);
    response.end('data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n');
  });
  const port = await listen(t, vendor);
  const { url, gateway, folder, log } = await startGateway(
    t,
    `providers: { up: { url: "http://127.0.0.1:${port}/v1", speaks: [openai-chat] } }
models: { m: { targets: ["up:m"] } }
answers: { event: 128KiB }
`,
  );
  const ask = async (path: string, more = {}) => {
    const body = JSON.stringify({ model: "m", stream: true, messages: [{ role: "user", content: "Hi" }], ...more });
    const response = await fetch(url + path, {
      method: "POST",
      headers: { authorization: `Bearer ${KEY}`, "content-type": "application/json" },
      body,
    });
    let text = "";
    // The connection of a stream that failed is cut.
    try {
      for await (const piece of response.body ?? []) text += Buffer.from(piece).toString();
    } catch {}
    return text;
  };
  // Forwarded unchanged, translated, and translated for a client that waits for all of it.
  const ways = [
    ["/v1/chat/completions", {}],
    ["/v1/messages", { max_tokens: 9 }],
    ["/v1/messages", { max_tokens: 9, stream: false }],
  ] as const;
  for (const [path, more] of ways) {
    const text = await ask(path, more);
    t.notMatch(text, /a{1000}/, path);
    t.match(text, /error/, path);
  }
  t.equal(log.lines.filter(({ fields }) => JSON.stringify(fields).includes("upstream_invalid")).length, ways.length);
  const file = join(folder, "gateway.yaml");
  writeFileSync(file, readFileSync(file, "utf8").replace("event: 128KiB", "event: 256KiB"));
  await gateway.reload();
  for (const [path, more] of ways) t.match(await ask(path, more), /a{1000}/, path);
});

t.test("a client that reads nothing of its answer for the file's time is disconnected", async (t) => {
  const { port, log } = await startGateway(t, yaml("connections: { stalled: 300ms }"));
  const content = "a".repeat(12_000_000);
  const body = JSON.stringify({ model: "long", stream: true, messages: [{ role: "user", content }] });
  const socket = connect(port, "127.0.0.1").on("error", () => {});
  t.teardown(() => socket.destroy());
  socket.pause();
  socket.write(
    `POST /v1/chat/completions HTTP/1.1\r\nhost: a\r\nauthorization: Bearer ${KEY}\r\ncontent-type: application/json\r\ncontent-length: ${body.length}\r\n\r\n`,
  );
  socket.write(body);
  const ended = () => log.lines.find(({ message }) => message === "exchange");
  await until(() => ended() !== undefined);
  t.match(ended(), { fields: { outcome: "aborted" } });
  t.match(JSON.stringify(ended()?.fields), /took no byte for 0.3 s/);
});
