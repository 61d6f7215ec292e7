import t from "tap";
import type { Http1Error } from "../../../src/upstream/http1/errors.ts";
import { ResponseParser } from "../../../src/upstream/http1/response-parser.ts";

interface Seen {
  heads: { status: number; headers: string[]; encoding: string | undefined }[];
  body: string;
  ends: number;
  /** Bytes that belong to no response. */
  left: number;
  closed: boolean;
  reusable: boolean;
  keptFor: number | undefined;
  error?: string;
}

/** What is read from some bytes that come in pieces of a size, and then the end of the connection. */
function read(text: string, size = Number.POSITIVE_INFINITY, method = "POST"): Seen {
  const seen: Seen = {
    ...{ heads: [], body: "", ends: 0, left: 0, closed: false, reusable: false, keptFor: undefined },
  };
  const parser = new ResponseParser({
    onHead: ({ status, headers, encoding }) => seen.heads.push({ status, headers, encoding }),
    onBody: (bytes) => {
      seen.body += bytes.toString("latin1");
    },
    onEnd: () => seen.ends++,
  });
  parser.expect(method);
  const bytes = Buffer.from(text, "latin1");
  try {
    for (let at = 0; at < bytes.length && seen.left === 0; ) {
      const piece = bytes.subarray(at, at + size);
      at += piece.length;
      seen.left = seen.ends > 0 ? piece.length : piece.length - parser.push(piece);
    }
    seen.closed = parser.close();
  } catch (error) {
    seen.error = (error as Http1Error).code;
  }
  seen.reusable = parser.reusable;
  seen.keptFor = parser.keepAliveTimeout;
  return seen;
}

const OK = "HTTP/1.1 200 OK\r\n";

t.test("responses are read alike, wherever their bytes are split", (t) => {
  const long = "x".repeat(9000);
  const responses: [text: string, expected: Partial<Omit<Seen, "heads">> & { heads?: { status: number }[] }][] = [
    [`${OK}content-length: 5\r\n\r\nhello`, { body: "hello", ends: 1, reusable: true }],
    [`${OK}content-length: 0\r\n\r\n`, { body: "", ends: 1, reusable: true }],
    [`${OK}Transfer-Encoding: Chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n`, { body: "hello", ends: 1, reusable: true }],
    [
      `${OK}transfer-encoding: chunked\r\n\r\n5;a="b"\r\nhello\r\n00A\r\n0123456789\r\n0;z\r\nx: y\r\nz: \r\n\r\n`,
      { body: "hello0123456789", ends: 1 },
    ],
    [`${OK}x-long: ${long}\r\ncontent-length: 2\r\n\r\nok`, { body: "ok", ends: 1 }],
    [`HTTP/1.1 103 Early\r\nlink: x\r\n\r\n${OK}content-length: 2\r\n\r\nok`, { body: "ok", ends: 1 }],
    [
      `HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 102 x\r\ncontent-length: 0\r\n\r\n${OK}content-length: 2\r\n\r\nok`,
      { body: "ok", ends: 1, reusable: true, heads: [{ status: 200 }] },
    ],
    [`${"HTTP/1.1 100 Continue\r\n\r\n".repeat(32)}${OK}content-length: 2\r\n\r\nok`, { body: "ok", ends: 1 }],
    [
      `${OK}transfer-encoding: chunked\r\n\r\n5 ;ext=1\r\nhello\r\n1\t \t; a = "b"\r\n!\r\n0 ;\r\n\r\n`,
      { body: "hello!", ends: 1, reusable: true },
    ],
    ["HTTP/1.1 204 \r\n\r\n", { ends: 1, reusable: true }],
    ["HTTP/1.1 304\r\netag: x\r\n\r\n", { ends: 1, reusable: true }],
    [`${OK}\r\nto the end`, { body: "to the end", ends: 1, closed: true, reusable: false }],
    [`${OK}content-length: 2\r\nconnection: x, close\r\n\r\nok`, { ends: 1, reusable: false }],
    ["HTTP/1.0 200 OK\r\ncontent-length: 2\r\n\r\nok", { ends: 1, reusable: false }],
    ["HTTP/1.0 200 OK\r\nconnection: Keep-Alive\r\ncontent-length: 2\r\n\r\nok", { ends: 1, reusable: true }],
    [`${OK}keep-alive: max=9, timeout=5\r\ncontent-length: 2\r\n\r\nok`, { ends: 1, keptFor: 5000 }],
    ["HTTP/1.1 204 \r\ncontent-length: 3\r\n\r\n", { ends: 1, reusable: false }],
    [`HTTP/1.1 103 x\r\nconnection: close\r\n\r\n${OK}content-length: 2\r\n\r\nok`, { ends: 1, reusable: false }],
    [`${OK}content-length: 2\r\n\r\nok${OK}`, { body: "ok", ends: 1 }],
  ];
  for (const [text, expected] of responses) {
    const whole = read(text);
    t.match(whole, { ...expected, error: undefined }, JSON.stringify(text.slice(0, 80)));
    for (const size of [1, 2, 3, 7, 64]) {
      const { left: _, ...cut } = read(text, size);
      t.match(cut, { ...whole, left: undefined }, `in pieces of ${size}`);
    }
  }
  t.ok(read(`${OK}content-length: 2\r\n\r\nok${OK}`).left > 0, "the following bytes are reported");
  t.end();
});

t.test("a response to HEAD has no body, whatever its fields", (t) => {
  const text = `${OK}content-length: 5\r\n\r\n`;
  t.match(read(text, 99, "HEAD"), { ends: 1, left: 0, body: "", reusable: true });
  t.match(read(`${OK}transfer-encoding: chunked\r\n\r\n`, 99, "HEAD"), { ends: 1, left: 0 });
  t.end();
});

t.test("values come without the spaces and tabs around them, names in their spelling, hop-by-hop fields not", (t) => {
  const { heads } = read(
    `${OK}X-A: \t a b \t\r\nx-a:\r\nX-Latin:\xa0caf\xe9\xa0\r\nconnection: keep-alive, X-Named\r\nx-named: 1\r\n` +
      "Keep-Alive: timeout=1\r\nContent-Encoding: gzip\r\ncontent-encoding: br\r\ntrailer: x\r\ncontent-length: 0\r\n\r\n",
  );
  t.same(heads[0]?.headers, [
    ...["X-A", "a b", "x-a", "", "X-Latin", "\xa0caf\xe9\xa0"],
    ...["Content-Encoding", "gzip", "content-encoding", "br", "content-length", "0"],
  ]);
  t.equal(heads[0]?.encoding, "gzip, br");
  t.end();
});

t.test("ambiguous or unreadable responses are refused", (t) => {
  const bad: [text: string, code: string][] = [
    ["SSH-2.0-OpenSSH\r\n\r\n", "NOT_HTTP"],
    ["HTTP/2.0 200 OK\r\n\r\n", "NOT_HTTP"],
    ["HTTP/1.1 20 OK\r\n\r\n", "NOT_HTTP"],
    // No status of HTTP (RFC 9110 §15).
    ["HTTP/1.1 600 OK\r\n\r\n", "NOT_HTTP"],
    ["HTTP/1.1 999 OK\r\n\r\n", "NOT_HTTP"],
    ["HTTP/1.1  200 OK\r\n\r\n", "NOT_HTTP"],
    [`${OK}a: b\0c\r\n\r\n`, "NOT_HTTP"],
    [`${OK}a: b\rc: d\r\n\r\n`, "HEADER_INVALID"],
    [`${OK}a: b\nc: d\r\n\r\n`, "HEADER_INVALID"],
    [`${OK}a : b\r\n\r\n`, "HEADER_INVALID"],
    [`${OK} a: b\r\n\r\n`, "HEADER_INVALID"],
    [`${OK}a: b\r\n c\r\n\r\n`, "HEADER_INVALID"],
    [`${OK}a: b\r\n folded: c\r\n\r\n`, "HEADER_INVALID"],
    [`${OK}no colon\r\n\r\n`, "HEADER_INVALID"],
    [`${OK}no colon\r\nx: y\r\n\r\n`, "HEADER_INVALID"],
    [`${OK}: nameless\r\n\r\n`, "HEADER_INVALID"],
    [`${OK}content-length: 2\r\ncontent-length: 2\r\n\r\nok`, "LENGTH_INVALID"],
    [`${OK}content-length: 2, 2\r\n\r\nok`, "LENGTH_INVALID"],
    [`${OK}content-length: +2\r\n\r\nok`, "LENGTH_INVALID"],
    [`${OK}content-length: 0x2\r\n\r\nok`, "LENGTH_INVALID"],
    [`${OK}content-length:\r\n\r\nok`, "LENGTH_INVALID"],
    [`${OK}content-length: 2\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n`, "FRAMED_TWICE"],
    [`${OK}transfer-encoding: gzip, chunked\r\n\r\n`, "CODING_UNKNOWN"],
    [`${OK}transfer-encoding: chunked\r\ntransfer-encoding: chunked\r\n\r\n`, "CODING_UNKNOWN"],
    [`${OK}transfer-encoding: identity\r\n\r\n`, "CODING_UNKNOWN"],
    [`${"HTTP/1.1 100 Continue\r\n\r\n".repeat(33)}${OK}content-length: 2\r\n\r\nok`, "INTERIM"],
    ["HTTP/1.1 100 Continue\r\ncontent-length: 9\r\n\r\n", "INTERIM"],
    ["HTTP/1.1 103 Early\r\ntransfer-encoding: chunked\r\n\r\n", "INTERIM"],
    ["HTTP/1.1 101 Switching Protocols\r\n\r\n", "UPGRADED"],
    [`${OK}x: ${"x".repeat(70_000)}\r\n\r\n`, "HEAD_TOO_LARGE"],
    [`${OK}x: ${"x".repeat(70_000)}`, "HEAD_TOO_LARGE"],
  ];
  const chunked = [
    ...["\r\n", "g\r\n", "-1\r\n", "+1\r\n", "0x1\r\n", " 1\r\nx\r\n", "1 \r\nx\r\n", "1\nx\r\n", "1\r\nxy\r\n"],
    ...["1\r\nx\n", "1\rx", "1000000000000\r\n", `1;${"x".repeat(5000)}\r\n`, "1;\nx\r\n"],
    ...[" ;a\r\n", "\t1;a\r\n", "1 \n", "1 ;\n", "1 2\r\n", "1 a\r\n", "1 \r;a\r\n", `1${" ".repeat(5000)};\r\n`],
  ];
  for (const text of chunked) bad.push([`${OK}transfer-encoding: chunked\r\n\r\n${text}`, "CHUNK_INVALID"]);
  for (const text of [
    "0\r\n\n",
    "0\r\na: b\n\r\n",
    `0\r\na: ${"x".repeat(70_000)}\r\n\r\n`,
    `0\r\n${"a\r\n".repeat(70_000)}`,
  ])
    bad.push([`${OK}transfer-encoding: chunked\r\n\r\n${text}`, "TRAILER_INVALID"]);
  for (const [text, code] of bad) {
    // In pieces a fault may be noticed earlier, in other words; it is noticed.
    t.equal(read(text, 4096).error, `RESPONSE_${code}`, JSON.stringify(text.slice(0, 80)));
    t.match(read(text, 5).error, /^RESPONSE_/);
  }
  t.end();
});

t.test("a response has begun from its first byte to its last", (t) => {
  const parser = new ResponseParser({ onHead: () => {}, onBody: () => {}, onEnd: () => {} });
  parser.expect("POST");
  t.notOk(parser.hasStarted);
  parser.push(Buffer.from("H"));
  t.ok(parser.hasStarted);
  parser.push(Buffer.from("TTP/1.1 100 Continue\r\n\r\n"));
  t.ok(parser.hasStarted, "an interim one is its beginning");
  parser.push(Buffer.from(`${OK}content-length: 0\r\n\r\n`));
  t.notOk(parser.hasStarted);
  t.end();
});

t.test("each response of a connection may have interim ones, as many as another", (t) => {
  let heads = 0;
  const parser = new ResponseParser({ onHead: () => heads++, onBody: () => {}, onEnd: () => {} });
  for (let i = 0; i < 3; i++) {
    parser.expect("POST");
    parser.push(Buffer.from(`${"HTTP/1.1 103 Early Hints\r\n\r\n".repeat(20)}${OK}content-length: 0\r\n\r\n`));
  }
  t.equal(heads, 3);
  t.end();
});

t.test("an interrupted response does not end", (t) => {
  for (const text of [
    ...["", "HTTP/1.1 2", OK, `${OK}a: b`, `${OK}content-length: 5\r\n\r\nhell`],
    ...["", "5", "5\r\n", "5\r\nhel", "5\r\nhello", "5\r\nhello\r\n", "5\r\nhello\r\n0\r\n"].map(
      (rest) => `${OK}transfer-encoding: chunked\r\n\r\n${rest}`,
    ),
  ])
    t.match(read(text), { ends: 0, closed: false, error: undefined }, JSON.stringify(text));
  t.end();
});

t.test("HTTP/1.0 with chunks is read, and its connection not reused", (t) => {
  const head = "HTTP/1.0 200 OK\r\nconnection: keep-alive\r\n";
  t.match(read(`${head}transfer-encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n`), {
    body: "ok",
    ends: 1,
    reusable: false,
  });
  t.match(read(`${head}content-length: 2\r\n\r\nok`), { body: "ok", ends: 1, reusable: true });
  t.end();
});
