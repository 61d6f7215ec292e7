import { readFileSync } from "node:fs";
import { dice } from "./dice.ts";
import { llhttpMessages } from "./llhttp.ts";
import { shared } from "./shared.ts";

/** A response on a connection that then ends: valid, nearly valid, or garbage. */
export interface OddResponse {
  /** The request's method. */
  method: string;
  /** latin1 */
  text: string;
  /** The same, in pieces as they arrive. */
  pieces: Buffer[];
}

const OK = "HTTP/1.1 200 OK\r\n";
const CHUNKED = `${OK}transfer-encoding: chunked\r\n\r\n`;

/** Responses with every framing, including known differences between parsers. */
const SEEDS: readonly string[] = [
  `${OK}content-length: 5\r\n\r\nhello`,
  `${OK}Content-Type: application/json\r\nContent-Length: 2\r\nKeep-Alive: timeout=5\r\n\r\n{}`,
  `${OK}content-length: 0\r\n\r\n`,
  `${CHUNKED}5\r\nhello\r\n0\r\n\r\n`,
  `${CHUNKED}5\r\nhello\r\n00a\r\n0123456789\r\n0\r\n\r\n`,
  `${CHUNKED}5;a=b\r\nhello\r\n0;z="q;\\"\r\n\r\n`,
  `${CHUNKED}5 ; a = b\r\nhello\r\n0\r\n\r\n`,
  `${CHUNKED}5 \r\nhello\r\n0\r\n\r\n`,
  `${CHUNKED}1\r\n!\r\n0\r\nx-sum: 1\r\nServer-Timing: a;dur=1\r\n\r\n`,
  `${CHUNKED}1\r\n!\r\n0\r\ncontent-length: 5\r\n\r\n`,
  `${CHUNKED}1\r\n!\r\n0\r\ntransfer-encoding: chunked\r\n\r\n`,
  `${CHUNKED}1\r\n!\r\n0\r\nconnection: close\r\n\r\n`,
  `${CHUNKED}1\r\n!\r\n0\r\n folded: 1\r\n\r\n`,
  `${CHUNKED}000000000000005\r\nhello\r\n0\r\n\r\n`,
  `${CHUNKED}fffffffffffffffff\r\nhello\r\n0\r\n\r\n`,
  `${CHUNKED}0x5\r\nhello\r\n0\r\n\r\n`,
  `${CHUNKED}5\nhello\r\n0\r\n\r\n`,
  `${OK}\r\nto the end`,
  `${OK}connection: close\r\ncontent-length: 2\r\n\r\nok`,
  `${OK}proxy-connection: close\r\ncontent-length: 2\r\n\r\nok`,
  `${OK}connection: keep-alive, x-named\r\nx-named: 1\r\ncontent-length: 2\r\n\r\nok`,
  "HTTP/1.0 200 OK\r\ncontent-length: 2\r\n\r\nok",
  "HTTP/1.0 200 OK\r\nconnection: keep-alive\r\ncontent-length: 2\r\n\r\nok",
  "HTTP/1.0 200 OK\r\nproxy-connection: keep-alive\r\ncontent-length: 2\r\n\r\nok",
  "HTTP/1.0 200 OK\r\nconnection: keep-alive, close\r\ncontent-length: 2\r\n\r\nok",
  "HTTP/1.0 200 OK\r\nconnection: keep-alive\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
  "HTTP/1.1 204 No Content\r\n\r\n",
  "HTTP/1.1 204 No Content\r\ncontent-length: 2\r\n\r\nok",
  "HTTP/1.1 204 No Content\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
  "HTTP/1.1 304 Not Modified\r\ncontent-length: 9\r\n\r\n",
  `HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n${OK}content-length: 2\r\n\r\nok`,
  `HTTP/1.1 102 x\r\ncontent-length: 2\r\n\r\n${OK}content-length: 2\r\n\r\nok`,
  `HTTP/1.1 103 x\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n${OK}content-length: 2\r\n\r\nok`,
  "HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n",
  `HTTP/1.1 101 Switching\r\n\r\n${OK}content-length: 2\r\n\r\nok`,
  `${OK}upgrade: h2c\r\nconnection: upgrade\r\ncontent-length: 2\r\n\r\nok`,
  `${OK}content-length: 2\r\ncontent-length: 2\r\n\r\nok`,
  `${OK}content-length: 2, 2\r\n\r\nok`,
  `${OK}content-length: 2\r\ncontent-length: 3\r\n\r\nok`,
  `${OK}content-length: +2\r\n\r\nok`,
  `${OK}content-length: \t2 \r\n\r\nok`,
  `${OK}content-length:\r\n\r\nok`,
  `${OK}content-length: 2\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n`,
  `${OK}transfer-encoding: gzip, chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n`,
  `${OK}transfer-encoding: gzip\r\n\r\nok`,
  `${OK}transfer-encoding: identity\r\ncontent-length: 2\r\n\r\nok`,
  `${OK}transfer-encoding: chunked\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n`,
  `${OK}transfer-encoding: chunked, identity\r\n\r\nok`,
  `${OK}transfer-encoding:\r\ncontent-length: 2\r\n\r\nok`,
  `${OK}transfer-encoding : chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n`,
  `${OK}a: b\r\n folded\r\ncontent-length: 2\r\n\r\nok`,
  `${OK}a: b\nc: d\r\ncontent-length: 2\r\n\r\nok`,
  `${OK}a: b\rc: d\r\ncontent-length: 2\r\n\r\nok`,
  `${OK}a:\x0bb\x7fc\x01\r\ncontent-length: 2\r\n\r\nok`,
  `${OK}a: \xff\x80\r\ncontent-length: 2\r\n\r\nok`,
  `${OK}: nameless\r\ncontent-length: 2\r\n\r\nok`,
  `${OK}no colon\r\ncontent-length: 2\r\n\r\nok`,
  `HTTP/1.1 200\r\ncontent-length: 2\r\n\r\nok`,
  `HTTP/1.1 200 \r\ncontent-length: 2\r\n\r\nok`,
  `HTTP/1.1 200 caf\xe9 \t\x01\r\ncontent-length: 2\r\n\r\nok`,
  `HTTP/2.0 200 OK\r\ncontent-length: 2\r\n\r\nok`,
  `HTTP/1.2 200 OK\r\ncontent-length: 2\r\n\r\nok`,
  `HTTP/0.9 200 OK\r\ncontent-length: 2\r\n\r\nok`,
  `HTTP/1.1  200 OK\r\ncontent-length: 2\r\n\r\nok`,
  `HTTP/1.1 099 OK\r\ncontent-length: 2\r\n\r\nok`,
  `HTTP/1.1 2000 OK\r\ncontent-length: 2\r\n\r\nok`,
  `\r\n${OK}content-length: 2\r\n\r\nok`,
  `${OK}content-length: 2\r\n\r\nok${OK}content-length: 0\r\n\r\n`,
  `${OK}content-length: 2\r\n\r\nok\r\n`,
  `ICY 200 OK\r\n\r\nok`,
  "RTSP/1.0 200 OK\r\ncontent-length: 2\r\n\r\nok",
  `${OK}${"a: b\r\n".repeat(1001)}content-length: 2\r\n\r\nok`,
  `${OK}content-length: 18446744073709551\r\n\r\nok`,
  `HTTP/1.1 103 Early Hints\r\nconnection: close\r\n\r\n${OK}content-length: 2\r\n\r\nok`,
  `HTTP/1.1 100 Continue\r\n\r\n\r\n${OK}content-length: 2\r\n\r\nok`,
  `${OK}transfer-encoding: chunked\t\r\n\r\n2\r\nok\r\n0\r\n\r\n`,
  `${CHUNKED}5;\r\nhello\r\n0\r\n\r\n`,
];

/** Lines that change a response's meaning. */
const LINES: readonly string[] = [
  ...["content-length: 2", "Content-Length: 0", "content-length: 00002", "content-length: 2 2", "content-length: -1"],
  ...["transfer-encoding: chunked", "Transfer-Encoding: xchunked", "transfer-encoding: chunked;q=1"],
  ...[
    "transfer-encoding: Chunked ",
    "transfer-encoding:\tchunked",
    "transfer-encoding: ,chunked",
    "transfer-encoding: x",
  ],
  ...["connection: close", "Connection: keep-alive", "connection: upgrade", "connection: x-a,close", "connection:"],
  ...["proxy-connection: close", "Proxy-Connection: keep-alive", "proxy-connection: x-a", "keep-alive: timeout=9"],
  ...["upgrade: websocket", "trailer: x-a", "x-a: 1", "X-A:\t 2 \t", "x-b:", "set-cookie: a=1; b", "te: trailers"],
  ...["content-length : 2", " content-length: 2", "content-length\t: 2", "x\0: 1", "x: \0", "\x80: 1", "x: \x85"],
];

/** Bytes with a meaning for parsers. */
const BYTES = '\r\n\r\n\t :;,="0123456789aAfFxg-+_\0\x01\x0b\x7f\x80\xff';
const METHODS = ["GET", "POST", "HEAD"];

type Dice = ReturnType<typeof dice>;

/** Returns the seeds of odd responses: ours, llhttp's, and our requests with odd framing under a status line. */
export function oddSeeds(): string[] {
  const file = shared("vectors/own/http-framing-vectors.json");
  const requests = file === undefined ? [] : (JSON.parse(readFileSync(file, "utf8")) as { raw_b64: string }[]);
  const framed = requests.map(({ raw_b64 }) =>
    Buffer.from(raw_b64, "base64")
      .toString("latin1")
      .replace(/^[^\r\n]*\r?\n/, OK),
  );
  return [...SEEDS, ...(llhttpMessages("response") ?? []).map(({ bytes }) => bytes), ...framed];
}

/** Returns a response made from the seeds; the same for the same number. */
export function oddResponse(seeds: readonly string[], number: number): OddResponse {
  const cast = dice(number);
  // The first ones are the seeds themselves, for each method.
  if (number < METHODS.length * seeds.length) {
    const text = seeds[number % seeds.length] as string;
    const method = METHODS[Math.floor(number / seeds.length)] as string;
    return { method, text, pieces: cut(cast, Buffer.from(text, "latin1")) };
  }
  let text = cast(2) > 0 ? generated(cast) : pick(cast, cast(2) > 0 ? SEEDS : seeds);
  for (let i = pick(cast, [0, 1, 1, 1, 2, 4]); i > 0; i--) text = changed(cast, text, seeds);
  return { method: pick(cast, METHODS), text, pieces: cut(cast, Buffer.from(text, "latin1")) };
}

const pick = <Item>(cast: Dice, items: readonly Item[]): Item => items[cast(items.length)] as Item;

/** Returns a valid response, with some of the lines above. */
function generated(cast: Dice): string {
  const status = pick(cast, ["200 OK", "200", "404 Not Found", "204 None", "304 x", "103 Early", "500 \xe9"]);
  let head = `HTTP/1.${cast(5) > 0 ? 1 : 0} ${status}\r\n`;
  for (let i = cast(5); i > 0; i--)
    head += `${cast(3) > 0 ? `x-${cast(9)}: ${"v".repeat(cast(30))}` : pick(cast, LINES)}\r\n`;
  const body = "b".repeat(cast(40));
  if (cast(3) === 0) return `${head}content-length: ${body.length}\r\n\r\n${body}`;
  if (cast(5) === 0) return `${head}\r\n${body}`;
  let chunks = "";
  for (let i = cast(4); i > 0; i--) {
    const size = 1 + cast(30);
    chunks += `${size.toString(16)}${cast(4) === 0 ? `;${pick(cast, ["a", "a=b", 'a="b c"', "a;b", " a=b"])}` : ""}\r\n`;
    chunks += `${"c".repeat(size)}\r\n`;
  }
  let trailers = "";
  for (let i = cast(3); i > 0; i--) trailers += `${pick(cast, LINES)}\r\n`;
  return `${head}Transfer-Encoding: chunked\r\n\r\n${chunks}0\r\n${cast(3) === 0 ? trailers : ""}\r\n`;
}

/** Returns the text with one mutation. */
function changed(cast: Dice, text: string, seeds: readonly string[]): string {
  const at = cast(text.length + 1);
  const insert = (what: string, where = at) => text.slice(0, where) + what + text.slice(where);
  switch (cast(8)) {
    case 0:
      return insert(BYTES[cast(BYTES.length)] as string);
    case 1:
      return text.slice(0, at) + text.slice(at + 1 + cast(3));
    case 2:
      return text.slice(0, at) + (BYTES[cast(BYTES.length)] as string) + text.slice(at + 1);
    case 3:
    case 4: {
      // A line between others, or in the trailers.
      const ends = [...text.matchAll(/\r\n/g)].map(({ index }) => index + 2);
      return ends.length === 0 ? text : insert(`${pick(cast, LINES)}\r\n`, pick(cast, ends));
    }
    case 5: {
      const lines = text.split("\r\n");
      const line = cast(lines.length);
      return cast(2) === 0
        ? lines.toSpliced(line, 1).join("\r\n")
        : lines.toSpliced(cast(lines.length), 0, lines[line] as string).join("\r\n");
    }
    case 6:
      return text.slice(0, at) + pick(cast, seeds).slice(cast(80));
    default:
      return cast(3) === 0 ? text.slice(0, at) : insert(text.slice(at, at + cast(12)));
  }
}

/** Returns the bytes in one to four pieces. */
function cut(cast: Dice, bytes: Buffer): Buffer[] {
  const places = Array.from({ length: cast(4) }, () => cast(bytes.length + 1)).toSorted((a, b) => a - b);
  return [...places, bytes.length]
    .map((end, i) => bytes.subarray(places[i - 1] ?? 0, end))
    .filter(({ length }) => length > 0);
}
