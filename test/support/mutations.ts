import { gzipSync } from "node:zlib";
import type { Cast } from "./dice.ts";
import { wronged } from "./wrong-values.ts";

/** What a provider sends, and what becomes of its connection behind it. */
export interface Sent {
  bytes: Buffer;
  end?: "FIN" | "RST";
  /** How much of the body has been sent where HTTP says that there is more; undefined: it is whole. */
  brokenAt?: number;
  /** What it carries, where that is changed. */
  body?: Buffer;
}

/** An answer as it should be. */
export interface Intact {
  body: Buffer;
  streamed: boolean;
  contentType: string;
}

const STATUS = "HTTP/1.1 200 OK";
const STATUSES = [400, 404, 422, 500, 502, 529];
const JUNK_FRAMES = [
  ...["null", "[]", "1", '{"a":', '{"type":5}', '{"choices":{}}', '{"candidates":[null]}', "[DONE]", "x".repeat(5000)],
  ...['{"error":{"message":"broken","type":"server_error"}}', '{"type":"error","error":{"type":"overloaded_error"}}'],
];

const head = (contentType: string, status = STATUS, ...more: string[]) =>
  Buffer.from([status, `content-type: ${contentType}`, ...more, "", ""].join("\r\n"));
const sized = (body: Buffer, contentType: string, ...more: string[]): Buffer =>
  Buffer.concat([head(contentType, STATUS, `content-length: ${body.length}`, ...more), body]);
const chunk = (bytes: Buffer): Buffer[] => [
  Buffer.from(`${bytes.length.toString(16)}\r\n`),
  bytes,
  Buffer.from("\r\n"),
];

/** A body in chunks of any size, or with its length. */
function framed(body: Buffer, contentType: string, cast: Cast): Buffer {
  if (cast(2) === 0) return sized(body, contentType);
  const pieces: Buffer[] = [];
  for (let at = 0; at < body.length; ) {
    const length = 1 + cast(2 * body.length);
    pieces.push(...chunk(body.subarray(at, at + length)));
    at += length;
  }
  return Buffer.concat([head(contentType, STATUS, "transfer-encoding: chunked"), ...pieces, Buffer.from("0\r\n\r\n")]);
}

/** Where something is cut out or put in. */
function span(body: Buffer, cast: Cast): [from: number, to: number] {
  const from = cast(body.length + 1);
  return [from, Math.min(body.length, from + cast(200))];
}
const joined = (...parts: (Buffer | string)[]): Buffer => Buffer.concat(parts.map((part) => Buffer.from(part)));
const junk = (cast: Cast): Buffer => Buffer.from(Array.from({ length: cast(40) }, () => cast(256)));

/** Changes the events of a stream, or what stands for one in a whole answer. */
function withFrames(body: Buffer, change: (frames: string[]) => string[]): Buffer {
  return Buffer.from(change(body.toString("latin1").split(/(?<=\n\n)/)).join(""), "latin1");
}

function withWrongValue(body: Buffer, streamed: boolean, cast: Cast): Buffer {
  const wrong = (json: string) => {
    try {
      return JSON.stringify(wronged(JSON.parse(json), cast));
    } catch {
      return json;
    }
  };
  if (!streamed) return Buffer.from(wrong(body.toString()));
  const frames = body.toString().split(/(?<=\n\n)/);
  const at = cast(frames.length);
  return Buffer.from(frames.with(at, (frames[at] as string).replace(/(?<=data: ).*/, wrong)).join(""));
}

/** Changes of a body that HTTP does not notice. */
const BODIES: Record<string, (of: Intact, cast: Cast, other: Intact) => Buffer> = {
  "no change": ({ body }) => body,
  "a prefix": ({ body }, cast) => body.subarray(0, cast(body.length + 1)),
  "a hole": ({ body }, cast) => {
    const [from, to] = span(body, cast);
    return joined(body.subarray(0, from), body.subarray(to));
  },
  "a piece twice": ({ body }, cast) => {
    const [from, to] = span(body, cast);
    return joined(body.subarray(0, to), body.subarray(from));
  },
  "junk inside": ({ body }, cast) => {
    const [from, to] = span(body, cast);
    return joined(body.subarray(0, from), junk(cast), body.subarray(to));
  },
  "nothing but junk": (_, cast) => junk(cast),
  "an event put in": ({ body }, cast) => {
    const [from] = span(body, cast);
    return joined(
      body.subarray(0, from),
      `\n\ndata: ${JUNK_FRAMES[cast(JUNK_FRAMES.length)]}\n\n`,
      body.subarray(from),
    );
  },
  "a wrong value": ({ body, streamed }, cast) => withWrongValue(body, streamed, cast),
  "an event less": ({ body }, cast) => withFrames(body, (frames) => frames.toSpliced(cast(frames.length), 1)),
  "two events swapped": ({ body }, cast) =>
    withFrames(body, (frames) => {
      const [one, two] = [cast(frames.length), cast(frames.length)];
      return frames.with(one, frames[two] as string).with(two, frames[one] as string);
    }),
  "an event twice": ({ body }, cast) =>
    withFrames(body, (frames) => {
      const at = cast(frames.length);
      return frames.toSpliced(at, 0, frames[at] as string);
    }),
  "another byte": ({ body }, cast) => {
    const changed = Buffer.from(body);
    if (body.length > 0) changed[cast(body.length)] = cast(256);
    return changed;
  },
  "other line ends": ({ body }, cast) =>
    Buffer.from(body.toString("latin1").replaceAll("\n", ["\r\n", "\r", "\n: comment\n"][cast(3)] as string), "latin1"),
  "a byte order mark": ({ body }) => joined("\ufeff", body),
  "no body": () => Buffer.alloc(0),
  "the answer to another protocol": (_of, _cast, other) => other.body,
};

/** Changes of the HTTP message. */
const MESSAGES: Record<string, (of: Intact, cast: Cast) => Sent> = {
  "another content type": ({ body, streamed }, cast) => {
    const types = [
      "text/html",
      "text/plain",
      "application/octet-stream",
      streamed ? "application/json" : "text/event-stream",
    ];
    return { bytes: framed(body, types[cast(types.length)] as string, cast) };
  },
  "an error": ({ body }, cast) => {
    const bodies = [
      "",
      "{}",
      "<html>no</html>",
      '{"error":{"message":"No.","type":"x","code":"x"}}',
      body.toString("latin1"),
    ];
    const text = Buffer.from(bodies[cast(bodies.length)] as string, "latin1");
    const [status, type] = [STATUSES[cast(STATUSES.length)], cast(2) ? "application/json" : "text/html"];
    return { bytes: joined(head(type, `HTTP/1.1 ${status} No`, `content-length: ${text.length}`), text) };
  },
  "a length cut short": ({ body, contentType }, cast) => {
    const brokenAt = cast(body.length);
    const whole = sized(body, contentType);
    const end = cast(2) ? "FIN" : "RST";
    return { bytes: whole.subarray(0, whole.length - body.length + brokenAt), end, brokenAt };
  },
  "chunks cut short": ({ body, contentType }, cast) => {
    const brokenAt = cast(body.length + 1);
    const sent = brokenAt === 0 ? [] : chunk(body.subarray(0, brokenAt));
    const end = cast(2) ? "FIN" : "RST";
    return { bytes: joined(head(contentType, STATUS, "transfer-encoding: chunked"), ...sent), end, brokenAt };
  },
  "a length that is too small": ({ body, contentType }, cast) => {
    const length = cast(body.length);
    return { bytes: joined(head(contentType, STATUS, `content-length: ${length}`), body) };
  },
  "a chunk's size that is wrong": ({ body, contentType }, cast) => {
    const bytes = Buffer.from(
      joined(head(contentType, STATUS, "transfer-encoding: chunked"), ...chunk(body), "0\r\n\r\n"),
    );
    bytes[bytes.indexOf("\r\n\r\n") + 4] = cast(256);
    return { bytes, end: "FIN" };
  },
  "a head with a wrong byte": ({ body, contentType }, cast) => {
    const bytes = sized(body, contentType);
    bytes[cast(bytes.length - body.length)] = cast(256);
    return { bytes, end: "FIN" };
  },
  gzip: ({ body, contentType }) => ({
    bytes: sized(gzipSync(body, { level: 1 }), contentType, "content-encoding: gzip"),
  }),
  "gzip cut short": ({ body, contentType }, cast) => {
    const packed = gzipSync(body, { level: 1 });
    const bytes = sized(packed.subarray(0, cast(packed.length)), contentType, "content-encoding: gzip");
    // The events may all be there.
    return { bytes, brokenAt: body.length };
  },
  "gzip with a wrong byte": ({ body, contentType }, cast) => {
    const packed = gzipSync(body, { level: 1 });
    packed[cast(packed.length)] = cast(256);
    return { bytes: sized(packed, contentType, "content-encoding: gzip") };
  },
  "no length": ({ body, contentType }) => ({
    bytes: joined(head(contentType, STATUS, "connection: close"), body),
    end: "FIN",
  }),
  "no length, reset": ({ body, contentType }, cast) => {
    const brokenAt = cast(body.length + 1);
    const bytes = joined(head(contentType, STATUS, "connection: close"), body.subarray(0, brokenAt));
    return { bytes, end: "RST", brokenAt };
  },
  "interim answers": ({ body, contentType }, cast) => ({
    bytes: joined("HTTP/1.1 103 Early Hints\r\nlink: <x>\r\n\r\n".repeat(1 + cast(3)), framed(body, contentType, cast)),
  }),
  "no answer": (_, cast) => ({ bytes: Buffer.alloc(0), end: cast(2) ? "FIN" : "RST" }),
};

/** Changes after which nothing is missing. */
export const HARMLESS: ReadonlySet<string> = new Set(["no change", "gzip", "no length", "interim answers"]);

const NAMES = [...Object.keys(BODIES), ...Object.keys(MESSAGES)];

/** Returns an answer with one random change, and its name. @param other the answer of another protocol */
export function mutated(of: Intact, other: Intact, cast: Cast): Sent & { mutation: string } {
  const mutation = NAMES[cast(NAMES.length)] as string;
  const change = BODIES[mutation];
  if (!change) return { ...(MESSAGES[mutation]?.(of, cast) as Sent), mutation };
  const body = change(of, cast, other);
  return { bytes: framed(body, of.contentType, cast), body, mutation };
}
