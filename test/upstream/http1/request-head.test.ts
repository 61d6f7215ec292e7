import t from "tap";
import { addressingOf, checkRequest, requestHead } from "../../../src/upstream/http1/request-head.ts";

const direct = addressingOf("h:1");
const head = (fields: string[], framing?: number | "chunked", method = "GET", addressing = direct) =>
  requestHead({ method, path: "/p?q", fields }, addressing, framing);
/** The lines behind those that every request has in front. */
const lines = (fields: string[]) => head(fields).split("\r\n").slice(3, -3);

t.test("a request has its path, keeps the connection, and asks for an uncompressed response", (t) => {
  t.equal(
    head(["x", "1"]),
    "GET /p?q HTTP/1.1\r\nhost: h:1\r\nconnection: keep-alive\r\nx: 1\r\naccept-encoding: identity\r\n\r\n",
  );
  t.end();
});

t.test("a proxy that forwards the request itself gets the complete address, with its credentials", (t) => {
  const addressing = addressingOf("h:1", "http://h:1", "proxy-authorization: Basic eA==\r\n");
  t.equal(
    head([], undefined, "GET", addressing),
    "GET http://h:1/p?q HTTP/1.1\r\nhost: h:1\r\n" +
      "proxy-authorization: Basic eA==\r\nconnection: keep-alive\r\naccept-encoding: identity\r\n\r\n",
  );
  t.end();
});

t.test("a body is framed once: by its length, in chunks, or as absent", (t) => {
  for (const [framing, method, last] of [
    [3, "GET", "content-length: 3"],
    ["chunked", "POST", "transfer-encoding: chunked"],
    [0, "POST", "content-length: 0"],
    [undefined, "PATCH", "content-length: 0"],
    [0, "DELETE", "accept-encoding: identity"],
    [undefined, "GET", "accept-encoding: identity"],
  ] as const)
    t.ok(head([], framing, method).endsWith(`\r\n${last}\r\n\r\n`), `${method} ${framing}`);
  t.end();
});

t.test("order, spelling and repetition of passed fields are kept", (t) => {
  t.same(lines(["B", "1", "a", "2", "B", "3"]), ["B: 1", "a: 2", "B: 3"]);
  t.end();
});

t.test(
  "fields named by Connection or Proxy-Connection are removed, in any case and from any line; two words are no field name",
  (t) => {
    const fields = [
      "X-A",
      "1",
      "x-b",
      "2",
      "CONNECTION",
      "x-a , Close,",
      "x-c",
      "3",
      "connection",
      "X-B",
      "Close",
      "4",
    ];
    t.same(lines(fields), ["x-c: 3"]);
    t.same(lines(["Proxy-Connection", "keep-alive, x-a", "X-A", "1", "x-b", "2"]), ["x-b: 2"]);
    t.same(lines(["connection", "keep-alive", "x", "1"]), ["x: 1"]);
    t.end();
  },
);

t.test("no field that the gateway sets itself can be removed in this way", (t) => {
  const [, ...rest] = head(["connection", "content-length, accept-encoding, host"], 3).split("\r\n");
  t.same(rest, ["host: h:1", "connection: keep-alive", "accept-encoding: identity", "content-length: 3", "", ""]);
  t.end();
});

t.test("no hop-by-hop field is sent, nor one that the gateway sets itself", (t) => {
  const hop = ["connection", "keep-alive", "proxy-authenticate", "proxy-authorization", "proxy-connection", "te"];
  const own = ["accept-encoding", "content-length", "expect", "host"];
  const all = [...hop, ...own, "trailer", "transfer-encoding", "upgrade", "http2-settings"];
  t.same(lines(all.flatMap((name) => [name, "x", name.toUpperCase(), "x"])), []);
  t.end();
});

const faulty = (fields: string[]) =>
  checkRequest({ method: "GET", path: "/", fields })?.message.match(/^The header (.*) cannot/)?.[1];

t.test("the first field that cannot be written is named", (t) => {
  t.equal(faulty(["a", "\t plain \x7e\xff", "b!#$%&'*+-.^_`|~9", ""]), undefined);
  for (let code = 0; code < 32; code++) {
    const value = `a${String.fromCharCode(code)}b`;
    t.equal(faulty(["ok", "1", "x", value]), code === 9 ? undefined : '"x"', `code ${code}`);
    t.not(faulty([value, "1"]), undefined);
  }
  for (const value of ["\x7f", "\u0100"]) t.equal(faulty(["x", value]), '"x"');
  t.equal(faulty(["", "1"]), '""');
  t.end();
});

t.test("a method or a path that could break out of its line is refused", (t) => {
  for (const path of ["/", "/a//b?c#d", "/\xe9"]) t.notOk(checkRequest({ method: "GET", path, fields: [] }));
  for (const [method, path] of [
    ["GET", "/a b"],
    ["GET", "/a\r\nx: y"],
    ["GET", "a"],
    ["GET", "/\u4e2d"],
    ["GET /\r\n", "/"],
    ["", "/"],
  ] as const)
    t.match(checkRequest({ method, path, fields: [] }), { code: "REQUEST_INVALID" }, `${method} ${path}`);
  t.end();
});
