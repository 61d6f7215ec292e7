import { hash } from "node:crypto";
import type { RouteExchange } from "model-gateway";

/** Headers in which agents name a session or thread of theirs. Seen on the wire. */
const HEADERS = [
  "x-claude-code-session-id",
  "session-id",
  "session_id",
  "thread-id",
  "x-session-affinity",
  "x-session-id",
];

/** What a client calls the conversation that a request belongs to; undefined where it says nothing of one. */
export function sessionOf({ headers, body }: RouteExchange): string | undefined {
  for (const name of HEADERS) {
    const value = headers.get(name);
    if (value) return value;
  }
  const key = body.value("prompt_cache_key");
  if (typeof key === "string" && key !== "") return key;
  const user = (body.value("metadata") as { user_id?: unknown } | null | undefined)?.user_id;
  return typeof user === "string" && user !== "" ? user : undefined;
}

/**
 * A number from 0 to below 1: the same for all requests of one session, so that they meet the same provider's prompt
 * cache, and by chance where there is no session. Sessions are spread as evenly as chance spreads.
 */
export function chanceOf(exchange: RouteExchange): number {
  const session = sessionOf(exchange);
  if (session === undefined) return Math.random();
  const digest = hash("sha256", `${exchange.caller?.id ?? ""} ${session}`, "buffer");
  return digest.readUInt32BE() / 2 ** 32;
}
