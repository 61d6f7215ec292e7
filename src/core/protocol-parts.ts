/** Small parts shared by several wire formats. None is specific to a vendor. */
import type { Operation, Protocol } from "./protocol.ts";

/** Returns name and value of the header that sends a credential as a bearer token (RFC 6750). */
export const bearer = (secret: string): readonly [name: string, value: string] => ["authorization", `Bearer ${secret}`];

/** Returns one server-sent event: its name, if any, and a value as JSON. */
export function eventBytes(value: unknown, name?: string): Buffer {
  const line = name === undefined ? "" : `event: ${name}\n`;
  return Buffer.from(`${line}data: ${JSON.stringify(value)}\n\n`);
}

/** Returns a POST operation with a JSON body that streams events when the body says so; `more` overrides fields. */
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

/** Returns `paths` and `locate` for a protocol where each path stands for one operation. */
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
