import t from "tap";
import { checkTrailers, ExpectedFields, ParsedHead } from "../../../src/upstream/http1/response-head.ts";
import { loadLines, MAX_PIECE } from "../../../src/wire/window.ts";

/** Loads a section within other bytes, as it arrives, and returns it. */
function section(text: string): string {
  const length = loadLines(Buffer.from(`:\r\n${text}\r\nx: y`, "latin1"), 3, MAX_PIECE);
  return length < 0 ? text : text.slice(0, length);
}
const parse = (...lines: string[]) => new ParsedHead(section([...lines, ""].join("\r\n")));
const head = (...lines: string[]) => parse("HTTP/1.1 200 OK", ...lines);
const headers = (...lines: string[]) => head(...lines).headers;

const code = (act: () => unknown): string => {
  try {
    act();
    return "none";
  } catch (error) {
    return (error as { code: string }).code;
  }
};

t.test("names keep their spelling and order, values lose the blanks around them, bytes above ASCII stay", (t) => {
  t.same(headers("B:1", "a: \t x y \t", "B:", "x-latin: \xa0caf\xe9\xff"), [
    ...["B", "1", "a", "x y", "B", "", "x-latin", "\xa0caf\xe9\xff"],
  ]);
  t.end();
});

t.test("a head after others on a connection is read as if it were the first", (t) => {
  const many = Array.from({ length: 200 }, (_, at) => `x-${at}: ${at}`);
  const heads = [
    ["Date: today", "x-id: 1", "content-length: 3", "Server: a"],
    ["Date: today", "x-id: 22", "content-length: 3", "Server: a"],
    ["Date: today", "x-id: 22", "Transfer-Encoding: chunked", "Server: a"],
    ["Date: today", "Connection: x-id, close", "x-id: 22", "Server: a"],
    ["date: today", "Date: today", "Date-a: today", "Server:a", "Content-Encoding: br", "content-encoding: gzip"],
    [],
    ["Dat: today", "Date: today", "keep-alive: timeout=9"],
    many,
    [...many.slice(0, 100), "x-id: 1", ...many.slice(101)],
  ];
  const expected = new ExpectedFields();
  for (const lines of [...heads, ...heads.toReversed()]) {
    const read = section(["HTTP/1.1 200 OK", ...lines, ""].join("\r\n"));
    t.same({ ...new ParsedHead(read, expected) }, { ...new ParsedHead(read) }, lines.join());
  }
  t.ok(expected.names.length <= 50, "few are remembered");
  expected.names.length = 0;
  new ParsedHead(section("HTTP/1.1 200 OK\r\nDate: today\r\n"), expected);
  for (const line of ["Date\r\n", "Date : today\r\n", "Date: today\n", "Date: today\r\n x\r\n"])
    t.equal(
      code(
        () =>
          new ParsedHead(
            section(`HTTP/1.1 200 OK\r\n${line}`),
            Object.assign(new ExpectedFields(), { names: [...expected.names] }),
          ),
      ),
      "RESPONSE_HEADER_INVALID",
      JSON.stringify(line),
    );
  t.end();
});

t.test("any number of names are told apart, and known in lower case", (t) => {
  const names = Array.from({ length: 900 }, (_, i) => `X-${(i * 7919).toString(36)}${"-long".repeat(i % 20)}`);
  for (let round = 0; round < 3; round++) {
    const { headers, names: known } = head(...names.map((name, i) => `${name}: ${i}`));
    t.same(
      headers,
      names.flatMap((name, i) => [name, String(i)]),
    );
    t.same(
      known.map(({ key }) => key),
      names.map((name) => name.toLowerCase()),
    );
  }
  t.same(
    head("Connection: a", "a: 1", "b: 2").names.map(({ key }) => key),
    ["b"],
  );
  t.end();
});

t.test("no hop-by-hop field passes, nor one named by Connection or Proxy-Connection", (t) => {
  const hop = [
    "keep-alive",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "upgrade",
  ];
  t.same(headers(...hop.flatMap((name) => [`${name}: x`, `${name.toUpperCase()}: x`])), []);
  t.same(headers("X-A: 1", "Connection: x-a , close", "x-b: 2", "PROXY-CONNECTION: x-b", "x-c: 3"), ["x-c", "3"]);
  t.same(headers("Connection: close", "Close: 1"), ["Close", "1"], "well-known options name no field");
  t.end();
});

t.test("Proxy-Connection controls the connection as Connection does; close takes precedence", (t) => {
  const old = (...lines: string[]) => parse("HTTP/1.0 200 OK", ...lines).reusable;
  t.same(
    [
      head().reusable,
      head("connection: close").reusable,
      head("proxy-connection: Close").reusable,
      head("connection: keep-alive", "proxy-connection: close").reusable,
      head("proxy-connection: keep-alive", "connection: close").reusable,
      old(),
      old("connection: keep-alive"),
      old("proxy-connection: keep-alive"),
      old("proxy-connection: keep-alive", "connection: close"),
    ],
    [true, false, false, false, false, false, true, true, false],
  );
  t.end();
});

t.test("length, chunks, codings and the keep-alive time are read", (t) => {
  t.match(head("content-length: 12"), { length: 12, chunked: false });
  t.match(head("Transfer-Encoding: Chunked"), { length: undefined, chunked: true });
  t.match(head("content-encoding: gzip", "Content-Encoding: br"), { encoding: "gzip, br" });
  t.match(head("keep-alive: max=9, timeout=5"), { keepAliveTimeout: 5000 });
  t.end();
});

t.test("a value may contain no control character except a tab", (t) => {
  for (let byte = 0; byte < 256; byte++) {
    const value = `a${String.fromCharCode(byte)}b`;
    const isForbidden = byte !== 9 && (byte < 32 || byte === 127);
    t.equal(code(() => headers(`x: ${value}`)) === "none", !isForbidden, String(byte));
    t.equal(code(() => parse(`HTTP/1.1 200 ${value}`)) === "none", !isForbidden, `${byte} in the status line`);
  }
  t.end();
});

t.test("a head has a thousand fields at most", (t) => {
  const fields = Array.from({ length: 1000 }, (_, i) => `x-${i}: 1`);
  t.equal(headers(...fields).length, 2000);
  t.equal(
    code(() => headers(...fields, "one: more")),
    "RESPONSE_HEADER_INVALID",
  );
  t.end();
});

t.test("trailers are read as strictly as a head, and may contain no framing or hop-by-hop fields", (t) => {
  for (const fine of ["", "x: y\r\n", "x:\r\nX-Sum: caf\xe9\r\nserver-timing: a;dur=1\r\n"])
    t.equal(
      code(() => checkTrailers(section(fine))),
      "none",
      JSON.stringify(fine),
    );
  const many = "a: b\r\n".repeat(1001);
  const bad = [
    ...["no colon\r\n", ": nameless\r\n", "a b: c\r\n", "a : b\r\n", " a: b\r\n", "a: b\r\n folded\r\n", "a: b\n"],
    ...["a: \0\r\n", "a: \x7f\r\n", "a: b\rc\r\n", "caf\xe9: 1\r\n", many],
    ...[
      "content-length: 3\r\n",
      "Transfer-Encoding: chunked\r\n",
      "connection: close\r\n",
      "Proxy-Connection: close\r\n",
    ],
    ...["keep-alive: timeout=5\r\n", "trailer: x\r\n", "te: trailers\r\n", "upgrade: h2c\r\n"],
  ];
  for (const each of bad)
    t.equal(
      code(() => checkTrailers(section(each))),
      "RESPONSE_TRAILER_INVALID",
      JSON.stringify(each.slice(0, 60)),
    );
  t.end();
});
