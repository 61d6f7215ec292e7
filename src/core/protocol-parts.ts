/** Small parts that several wire formats are made of. None of them is any vendor's own. */
import type { Operation, Protocol } from "./protocol.ts";

/** Name and value of the header that shows a credential as a bearer token (RFC 6750). */
export const bearer = (secret: string): readonly [name: string, value: string] => ["authorization", `Bearer ${secret}`];

/** A comment that keeps a silent event stream alive; parsers skip it. */
export const PING: Buffer = Buffer.from(": ping\n\n");

/** One server-sent event: its name, where it has one, and a value as JSON. */
export function eventBytes(value: unknown, name?: string): Buffer {
  const line = name === undefined ? "" : `event: ${name}\n`;
  return Buffer.from(`${line}data: ${JSON.stringify(value)}\n\n`);
}

/** An operation asked by a POST with a JSON body, streaming events when the body says so; `more` tells what differs. */
export function post(name: string, upstream: string, more: Partial<Operation> = {}): Operation {
  return {
    name,
    method: "POST",
    body: "json",
    streams: "asked",
    framing: "sse",
    generates: true,
    upstream: () => upstream,
    ...more,
  };
}

/** `paths` and `locate` of a protocol where each path stands for one operation. */
export function fixedPaths(operations: Readonly<Record<string, Operation>>): Pick<Protocol, "paths" | "locate"> {
  const byPath = new Map(Object.entries(operations));
  return {
    paths: [...byPath.keys()],
    locate(path) {
      const operation = byPath.get(path);
      return operation && { operation };
    },
  };
}
