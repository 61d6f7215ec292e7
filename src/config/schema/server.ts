import { z } from "zod";
import { limitOrOff, milliseconds, period, quantity, size, tokens } from "../quantities.ts";
import { parsePercent, parseSize } from "../units.ts";

/** The highest limits: those of a body that the gateway writes, which contains what it has received. */
const [MAX_DEPTH, MAX_NAMES] = [256, 200_000];
/** Bytes of a head, and of the targets that fit into the largest. */
const [MIN_HEAD, MAX_HEAD, MAX_TARGET] = [2 * 1024, 64 * 1024, 63 * 1024];
/** Bytes of an event: a smaller limit would end ordinary streams, a larger one is never reached by a whole answer. */
const [MIN_EVENT, MAX_EVENT] = [64 * 1024, 64 * 1024 * 1024];
/** Milliseconds for running exchanges after a crash. */
const MAX_CRASH_DRAIN = 600_000;

/** Limits of requests' bodies. */
export const BodySchema = z.strictObject({
  limit: size.describe("Maximum size of a request's body, like 32MiB.").prefault("32MiB"),
  idle: milliseconds.describe("Maximum time between two chunks of a request's body, like 30s.").prefault("30s"),
  slowest: size
    .describe(
      "Minimum average rate of a request's body in bytes per second as they are sent, like 1KiB; a slower request is refused. What came faster counts for as long as silence may last, the longer of `idle` and `patience`. 0B: no minimum.",
    )
    .prefault("1KiB"),
  patience: milliseconds
    .refine((time) => time > 0, { error: "must be more than 0; slowest: 0B removes the minimum rate" })
    .describe("Time before `slowest` applies, like 10s.")
    .prefault("10s"),
  depth: tokens
    .refine((levels) => levels > 0 && levels <= MAX_DEPTH, { error: `must be 1 to ${MAX_DEPTH}` })
    .describe(`Maximum levels of a JSON body, up to ${MAX_DEPTH}; not on pass-through paths.`)
    .prefault(128),
  names: tokens
    .refine((most) => most > 0 && most <= MAX_NAMES, { error: `must be 1 to ${MAX_NAMES}` })
    .describe(
      `Maximum names in a JSON body, up to ${MAX_NAMES}; not on pass-through paths. Very many take long to parse.`,
    )
    .prefault(50_000),
  ratio: tokens
    .refine((ratio) => ratio > 0, { error: "must be more than 0" })
    .describe("Maximum size of a decoded body compared with its compressed size, from 1 MiB on.")
    .prefault(100),
  memory: size
    .describe(
      "Maximum memory for bodies that have not arrived completely or whose requests wait for limits, plugins or the beginning of a provider's answer, like 384MiB: what exceeds 64 KiB of each, decompressed. When it is used up, the key that has most gives way to one that has less than the average. While a request is answered, what exceeds 1 MiB of its body goes on counting, and never gives way: for all keys up to half of `memory`, for one key up to as much as stays free of that half; the first such request of a key may have all that is free. A request that does not fit is a 503 before a provider gets it. Each of several `workers` has its share, but at least `memory_per_key`.",
    )
    .prefault("384MiB"),
  memory_per_key: size
    .describe(
      "The same for the bodies of one key, or of one client network without a key, in each of several `workers`, until its limits have admitted the request, like 128MiB; at least one of `limit` fits. What exceeds 1 MiB of each body that is being answered may take as much again.",
    )
    .prefault("128MiB"),
  spool: size
    .describe(
      "Maximum room for temporary files (in `TMPDIR`) with what precedes the field `model` of forms, until their requests have been answered, like 1GiB. When it is used up, the key that has most gives way to one that has less than the average, while the model is awaited. Each of several `workers` has its share, but at least `spool_per_key`.",
    )
    .prefault("1GiB"),
  spool_per_key: size
    .describe(
      "The same for the forms of one key, or of one client network without a key, in each of several `workers`, like 256MiB; at least one of `limit` fits.",
    )
    .prefault("256MiB"),
});

/** Limits of answers. */
export const AnswersSchema = z.strictObject({
  memory: size
    .describe(
      "Maximum memory for answers of providers that are buffered, like 256MiB: incomplete events, whole answers that are translated or read by plugins, and what translated streams keep: reasoning, arguments of calls, and all text where a protocol repeats it at the end; what exceeds 64 KiB of each. Those of one key, or of one client network without a key, may have half of it. Each of several `workers` has its share, but at least 128MiB of it.",
    )
    .prefault("256MiB"),
  event: quantity(parseSize, "16MiB, 1MB or 512KiB")
    .refine((bytes) => bytes >= MIN_EVENT && bytes <= MAX_EVENT, { error: "must be 64KiB to 64MiB" })
    .describe(
      "Maximum size of one event of a provider's stream, like 16MiB, up to 64MiB; a larger one ends the stream with an error. Large ones take long to parse.",
    )
    .prefault("16MiB"),
});

/** Limits of clients' connections. */
export const ConnectionsSchema = z.strictObject({
  per_address: tokens
    .refine((most) => most > 0, { error: "must be more than 0" })
    .describe(
      "Maximum connections of one client address (of IPv6, of one /64). Not counted: the proxies in `trust`, and this machine if `trust` is empty.",
    )
    .prefault(256),
  headers: tokens
    .refine((lines) => lines > 0, { error: "must be more than 0" })
    .describe("Maximum header lines of a request.")
    .prefault(100),
  head_size: quantity(parseSize, "16KiB or 32KiB")
    .refine((bytes) => bytes >= MIN_HEAD && bytes <= MAX_HEAD, { error: "must be 2KiB to 64KiB" })
    .describe("Maximum size of a request's head, which is its first line and its headers, like 16KiB.")
    .prefault("16KiB"),
  target: quantity(parseSize, "8KiB or 2KiB")
    .refine((bytes) => bytes >= 128 && bytes <= MAX_TARGET, { error: "must be 128B to 63KiB" })
    .describe("Maximum size of a request's path and query, like 8KiB.")
    .prefault("8KiB"),
  head: milliseconds.describe("Maximum time to receive a request's head, like 10s.").prefault("10s"),
  idle: milliseconds
    .describe(
      "How long an idle connection is kept open, like 75s; must be longer than the proxy in front keeps idle connections.",
    )
    .prefault("75s"),
  stalled: period
    .describe("How long a client may read nothing of its answer before its connection is closed, like 60s.")
    .prefault("60s"),
});

/** How long running exchanges may go on after a crash. */
export const CrashDrainSchema = period
  .refine((time) => time <= MAX_CRASH_DRAIN, { error: "must be at most 10m: the process may be in an unknown state" })
  .describe(
    "How long running exchanges may go on after an exception that belongs to no request, like 10s; the process then ends, and nothing new is accepted meanwhile. At most `drain`.",
  )
  .prefault("10s");

/** Overload protection. */
export const OverloadSchema = z.strictObject({
  concurrency: limitOrOff.describe("Requests at the same time, of all keys, like 4000 or off.").prefault(4000),
  per_key: limitOrOff.describe("Requests at the same time, of one key, like 2000 or off.").prefault(2000),
  queue: tokens
    .describe("Requests that may wait for others to end; further ones get a 503 with retry-after.")
    .prefault(1000),
  wait: milliseconds.describe("How long a request may wait in that queue, like 2s; off: none waits.").prefault("2s"),
  delay: milliseconds
    .describe(
      "How long new requests may wait for the event loop, in successive turns, before some are refused, like 200ms or off.",
    )
    .prefault("200ms"),
  heap: quantity(parsePercent, "85% or off")
    .describe("Share of V8's heap limit in use from which new requests are refused, like 85% or off.")
    .prefault("85%"),
});

/** Limits of WebSockets. */
export const SocketsSchema = z.strictObject({
  idle: milliseconds.describe("How long a WebSocket may be idle in both directions, like 10m.").prefault("10m"),
  message: size.describe("Maximum size of a message, like 16MiB.").prefault("16MiB"),
});

/** The form that browsers send: no path, no trailing slash. */
const ORIGIN = /^(?:\*|[a-z][a-z0-9+.-]*:\/\/(?:\*\.)?[a-z0-9.-]+(?::(?:\d{1,5}|\*))?)$/;

/** Cross-origin requests. */
export const CorsSchema = z.strictObject({
  origins: z
    .array(
      z.string().regex(ORIGIN, {
        error:
          'an origin is written like https://app.example.com, https://*.example.com or http://localhost:*, in small letters and without a path; "*" is any',
      }),
    )
    .min(1, { error: "at least one origin" })
    .describe(
      'Origins whose scripts may send requests: https://app.example.com, https://*.example.com, http://localhost:*, or "*" for all.',
    ),
  max_age: period.describe("How long a browser may cache the answer to a preflight, like 10m.").prefault("10m"),
});
