import { readFileSync } from "node:fs";
import { request } from "node:http";
import { connect } from "node:net";
import { asking } from "./key.ts";
import { afterHearing } from "./patience.ts";
import { shared } from "./shared.ts";

/** The bytes received on a connection until it was closed. */
export interface Talk {
  /** Final statuses, without interim ones. */
  statuses: number[];
  /** Everything, latin1. */
  text: string;
}

/** Milliseconds without a byte after a response after which a client closes. */
const QUIET = 30;
/** Milliseconds to wait for a first response; in this process only incomplete requests wait so long. */
const PATIENCE = 1500;

/** Milliseconds to wait for the response to a complete request, which another process gives when it has a core. */
export const UNTIL_ANSWERED = 60_000;

/**
 * Sends bytes unchanged (latin1) on a new connection. The client closes it after a response followed by silence, or after a
 * timeout.
 * @param patience milliseconds to wait for a first response
 */
export function send(port: number, bytes: string, patience = PATIENCE): Promise<Talk> {
  return new Promise((resolve) => {
    const talk: Talk = { statuses: [], text: "" };
    const socket = connect(port, "127.0.0.1", () => socket.write(bytes, "latin1"));
    let stay = afterHearing(patience, () => socket.destroy());
    socket.setEncoding("latin1").on("data", (text: string) => {
      talk.text += text;
      talk.statuses = [...talk.text.matchAll(/HTTP\/1\.[01] ([2-9]\d\d) /g)].map(([, status]) => Number(status));
      if (talk.statuses.length === 0) return;
      stay();
      stay = afterHearing(QUIET, () => socket.destroy());
    });
    socket.on("error", () => {});
    socket.on("close", () => {
      stay();
      resolve(talk);
    });
  });
}

/** A complete response. */
export interface Answered {
  status: number;
  body: Buffer;
}

/** Posts a body to a path, with the test's key. */
export function post(
  port: number,
  path: string,
  body: Buffer | string,
  more: Record<string, string> = {},
): Promise<Answered> {
  return new Promise((resolve, reject) => {
    const outgoing = request({ port, host: "127.0.0.1", method: "POST", path, headers: asking(more) }, (response) => {
      const pieces: Buffer[] = [];
      response
        .on("data", (piece: Buffer) => pieces.push(piece))
        .on("end", () => resolve({ status: response.statusCode ?? 0, body: Buffer.concat(pieces) }))
        .on("error", reject);
    });
    outgoing.on("error", reject).end(body);
  });
}

/** Runs a function for each, at most `width` at a time, and returns results in their order. */
export async function each<T, R>(all: readonly T[], act: (one: T) => Promise<R>, width = 16): Promise<R[]> {
  const results: R[] = [];
  let next = 0;
  const worker = async () => {
    while (next < all.length) {
      const at = next++;
      results[at] = await act(all[at] as T);
    }
  };
  await Promise.all(Array.from({ length: width }, worker));
  return results;
}

/** Returns a file of the shared vectors; undefined if they are absent. */
export function vectors<T>(name: string): T | undefined {
  const file = shared(`vectors/own/${name}`);
  return file === undefined ? undefined : (JSON.parse(readFileSync(file, "utf8")) as T);
}
