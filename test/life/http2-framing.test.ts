/** Requests by HTTP/2 that nginx, which makes HTTP/1 of them, or the gateway behind it could take for others. */
import { connect } from "node:net";
import t from "tap";
import { KEY, startGateway } from "../support/gateway.ts";
import { KEPT, startNginx } from "../support/nginx.ts";
import { afterHearing } from "../support/patience.ts";
import { each } from "../support/raw.ts";
import { httpUpstream } from "../support/upstream.ts";

/** Milliseconds without a byte after which a client leaves. */
const PATIENCE = 200;

type Field = readonly [name: string, value: string];
interface Vector {
  /** In the place of those that every request has; none takes away. */
  fields?: Record<string, string>;
  /** Behind them. */
  more?: readonly Field[];
  /** Behind the body, in the same stream. */
  behind?: string;
  trailers?: readonly Field[];
}

const HIDDEN = `POST /v1/chat/completions HTTP/1.1\r\nHost: a\r\nX-Api-Key: ${KEY}\r\nContent-Length: 33\r\n\r\n{"model":"any","user":"smuggled"}`;
const VECTORS: Record<string, Vector> = {
  "nothing odd": {},
  "chunked, and a request behind the last chunk": {
    more: [["transfer-encoding", "chunked"]],
    behind: `\r\n0\r\n\r\n${HIDDEN}`,
  },
  "chunked with a space": { more: [["transfer-encoding", " chunked"]], behind: `\r\n0\r\n\r\n${HIDDEN}` },
  "a length of none": { fields: { "content-length": "0" }, behind: HIDDEN },
  "a length that leaves a request out": { behind: HIDDEN },
  "a length that is too long": { fields: { "content-length": "500" } },
  "two lengths": { more: [["content-length", "0"]], behind: HIDDEN },
  "no length, and a request behind the body": { fields: { "content-length": "" }, behind: HIDDEN },
  "a line end in a value": { more: [["x-a", "b\r\ntransfer-encoding: chunked"]], behind: `\r\n0\r\n\r\n${HIDDEN}` },
  "a request in a value": { more: [["x-a", `b\r\n\r\n${HIDDEN}`]] },
  "a line feed in a value": { more: [["x-a", "b\ntransfer-encoding: chunked"]], behind: `\r\n0\r\n\r\n${HIDDEN}` },
  "NUL in a value": { more: [["x-a", "b\0c"]] },
  "a line end in a name": { more: [["x-a: b\r\ntransfer-encoding: chunked\r\nx-b", "c"]] },
  "a colon in a name": { more: [["transfer-encoding: chunked\r\nx", "y"]] },
  "a space in a name": { more: [["transfer-encoding ", "chunked"]], behind: `\r\n0\r\n\r\n${HIDDEN}` },
  "capital letters": { more: [["Transfer-Encoding", "chunked"]], behind: `\r\n0\r\n\r\n${HIDDEN}` },
  "a request in the method": { fields: { ":method": `${HIDDEN}\r\n\r\nPOST` } },
  "a space in the path": { fields: { ":path": "/v1/models HTTP/1.1\r\nhost: a\r\n\r\nGET /v1/chat/completions" } },
  "an absolute path": { fields: { ":path": "http://evil/v1/chat/completions" } },
  "no path": { fields: { ":path": "" } },
  "an authority with a line end": { fields: { ":authority": "a\r\ntransfer-encoding: chunked" } },
  "an authority with a path": { fields: { ":authority": "a/#@evil" } },
  "another host": { more: [["host", "evil"]] },
  "a second path": { more: [[":path", "/v1/models"]] },
  "a connection that names the key": { more: [["connection", "x-api-key, content-length"]] },
  "an upgrade": { more: [["upgrade", "h2c"]] },
  "trailers that frame": {
    trailers: [
      ["transfer-encoding", "chunked"],
      ["content-length", "5"],
    ],
  },
};

/** HPACK (RFC 7541) without a table and without Huffman: a length in 7 bits and more, and the bytes. */
function text(value: string): Buffer {
  const bytes = Buffer.from(value, "latin1");
  const length = [Math.min(127, bytes.length)];
  if (bytes.length >= 127) {
    let rest = bytes.length - 127;
    for (; rest >= 128; rest = Math.floor(rest / 128)) length.push(128 + (rest % 128));
    length.push(rest);
  }
  return Buffer.concat([Buffer.from(length), bytes]);
}

const block = (fields: readonly Field[]): Buffer =>
  Buffer.concat(fields.flatMap(([name, value]) => [Buffer.from([0]), text(name), text(value)]));

function frame(type: number, flags: number, stream: number, payload: Buffer): Buffer {
  const head = Buffer.alloc(9);
  head.writeUIntBE(payload.length, 0, 3);
  head[3] = type;
  head[4] = flags;
  head.writeUInt32BE(stream, 5);
  return Buffer.concat([head, payload]);
}

const [DATA, HEADERS, SETTINGS] = [0, 1, 4];
const [END_STREAM, END_HEADERS] = [1, 4];
const bodyOf = (name: string): string => `{"model":"any","user":"${name}"}`;

function written(name: string, { fields = {}, more = [], behind = "", trailers }: Vector): Buffer {
  const body = bodyOf(name);
  const usual = {
    ...{ ":method": "POST", ":scheme": "http", ":path": "/v1/chat/completions", ":authority": "gw.test" },
    ...{ "x-api-key": KEY, "content-type": "application/json", "content-length": String(body.length) },
    ...fields,
  };
  const all = Object.entries(usual).filter(([, value]) => value !== "");
  const end = trailers ? 0 : END_STREAM;
  return Buffer.concat([
    Buffer.from("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
    frame(SETTINGS as number, 0, 0, Buffer.alloc(0)),
    frame(HEADERS as number, END_HEADERS as number, 1, block([...all, ...more])),
    frame(DATA as number, end as number, 1, Buffer.from(body + behind, "latin1")),
    ...(trailers ? [frame(HEADERS as number, 5, 1, block(trailers))] : []),
  ]);
}

/** Sends them, and waits until nothing more comes. */
const send = (port: number, bytes: Buffer): Promise<void> =>
  new Promise((resolve) => {
    const socket = connect(port, "127.0.0.1", () => socket.write(bytes));
    let forget = afterHearing(PATIENCE, () => socket.destroy());
    socket.on("data", () => {
      forget();
      forget = afterHearing(PATIENCE, () => socket.destroy());
    });
    socket
      .on("error", () => {})
      .on("close", () => {
        forget();
        resolve();
      });
  });

t.test("a request by HTTP/2 becomes one request at the provider, unchanged, or none", async (t) => {
  const upstream = await httpUpstream();
  t.teardown(() => upstream.close());
  const running = await startGateway(
    t,
    `providers: { up: { url: "${upstream.origin.origin}/v1", credential: provider-secret, speaks: [openai-chat] } }\nmodels: { any: { targets: [up:any] } }\n`,
  );
  const nginx = await startNginx(t, running.port, KEPT, " http2");
  if (!nginx) return;
  // Several times, so that they follow each other on nginx's connections to the gateway.
  const all = [1, 2, 3].flatMap(() => Object.entries(VECTORS));
  await each(all, ([name, vector]) => send(nginx.port, written(name, vector)), 8);
  const seen: Record<string, number> = {};
  for (const { method, url, body, rawHeaders } of upstream.seen) {
    const name = /"user":"([^"]*)/.exec(String(body))?.[1] ?? "?";
    seen[name] = (seen[name] ?? 0) + 1;
    t.equal(`${method} ${url}`, "POST /v1/chat/completions", name);
    t.equal(String(body), bodyOf(name), `${name}: the body`);
    t.notMatch(rawHeaders.join("\n"), /smuggled|evil|test-key|chunked|x-a/i, `${name}: the headers`);
  }
  t.equal(seen["smuggled"], undefined);
  t.equal(seen["nothing odd"], 3);
  for (const [name, count] of Object.entries(seen)) t.ok(count <= 3 && name in VECTORS, `${name}: ${count}`);
  t.comment(
    `${Object.keys(seen).length} of ${Object.keys(VECTORS).length} are passed on: ${Object.keys(seen).join("; ")}`,
  );
});
