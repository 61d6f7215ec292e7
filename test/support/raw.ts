import { readFileSync } from "node:fs";
import { request } from "node:http";
import { connect } from "node:net";
import { asking } from "./gateway.ts";
import { afterHearing } from "./patience.ts";
import { shared } from "./shared.ts";

/** What a connection brought until it was closed. */
export interface Talk {
  /** Of the answers, interim ones left out. */
  statuses: number[];
  /** Everything, latin1. */
  text: string;
}

/** Milliseconds without a byte behind an answer after which a client has heard enough. */
const QUIET = 30;
/** Milliseconds for a first answer; only unfinished requests wait as long. */
const PATIENCE = 1500;

/**
 * Sends bytes as they are, latin1, on a connection of their own. The client closes its side once it has had an answer
 * and nothing more comes, or when it has lost patience.
 */
export function send(port: number, bytes: string): Promise<Talk> {
  return new Promise((resolve) => {
    const talk: Talk = { statuses: [], text: "" };
    const socket = connect(port, "127.0.0.1", () => socket.write(bytes, "latin1"));
    let stay = afterHearing(PATIENCE, () => socket.destroy());
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

/** An answer that has ended. */
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

/** Does the same with each, at most `width` at a time, and answers in their order. */
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

/** A file of the shared vectors; undefined where they are absent. */
export function vectors<T>(name: string): T | undefined {
  const file = shared(`vectors/own/${name}`);
  return file === undefined ? undefined : (JSON.parse(readFileSync(file, "utf8")) as T);
}
