import { crc32 } from "node:zlib";
import type { Coverage } from "./coverage.ts";
import { type Cast, dice } from "./dice.ts";

/** A function under test that accepts any bytes, and throws on its own mistakes. */
export interface Target {
  /** The initial inputs. */
  seeds(): Buffer[];
  /** Tokens of its grammar, inserted at random places. */
  words: readonly string[];
  /** A mutation that knows the grammar of the bytes; undefined: not applicable. */
  change?(bytes: Buffer, cast: Cast): Buffer | undefined;
  take(bytes: Buffer): void;
  /** Seconds of CPU after which an input counts as one that hangs. */
  seconds?: number;
}

export interface Guided {
  /** Number of inputs tried. */
  runs: number;
  /** Inputs that together reach all code reached; the smallest first. */
  corpus: Buffer[];
  /** The first failing input, minimized, and its error. */
  crash: { bytes: Buffer; error: Error } | undefined;
}

export interface GuidedOptions {
  /** Ends once it is true; called for each batch, with the number of inputs so far. */
  until(runs: number): boolean;
  corpus?: readonly Buffer[];
  seed?: number;
  /** Absent: coverage is not measured, and all given inputs are mutated. */
  coverage?: Pick<Coverage, "fresh">;
  /** Receives each input before it is tried. */
  trying?(bytes: Buffer): void;
}

/** @throws Error with `what` if the condition is false */
export function holds(condition: boolean, what: () => string): asserts condition {
  if (!condition) throw new Error(what());
}

/** Splits bytes into pieces of one byte, of a few, or of more. The bytes determine the split. */
export function cut(bytes: Buffer): Buffer[] {
  const cast = dice(crc32(bytes));
  const most = [1, 4, 16, 64][cast(4)] as number;
  const pieces: Buffer[] = [];
  for (let at = 0; at < bytes.length; ) {
    const length = 1 + cast(most);
    pieces.push(bytes.subarray(at, at + length));
    at += length;
  }
  return pieces;
}

/** Maximum bytes of an input. */
const MAX_INPUT_BYTES = 4096;
/** Inputs between two measurements of coverage. */
const BATCH = 256;

/** Mutates inputs at random, and keeps those that reach new code. */
export function guided(target: Target, { until, corpus = [], seed = 1, coverage, trying }: GuidedOptions): Guided {
  const kept: Buffer[] = [];
  let runs = 0;
  let crash: Guided["crash"];
  const attempt = (bytes: Buffer): void => {
    runs++;
    trying?.(bytes);
    const error = failure(target, bytes);
    if (error) crash ??= { bytes, error };
  };
  // Measuring coverage costs as much as hundreds of small inputs, so the effective ones are found by bisection.
  const judge = (batch: readonly Buffer[]): void => {
    for (const bytes of batch) attempt(bytes);
    if (!coverage) return;
    const fresh = coverage.fresh(batch.length < 2) > 0;
    if (!fresh) return;
    if (batch.length < 2) kept.push(...batch);
    for (const half of batch.length < 2 ? [] : [batch.slice(0, batch.length >> 1), batch.slice(batch.length >> 1)])
      judge(half);
  };
  const given = [...target.seeds(), ...corpus].toSorted((a, b) => a.length - b.length);
  coverage?.fresh(false);
  judge(given);
  if (!coverage) kept.push(...given);
  for (let round = 1; !crash && !until(runs); round++) {
    const cast = dice(seed * 1_000_003 + round);
    judge(Array.from({ length: BATCH }, () => changed(target, kept, cast)));
  }
  if (crash) crash = smaller(target, crash, trying);
  return { runs, corpus: kept.toSorted((a, b) => a.length - b.length), crash };
}

/** Returns the error that a target throws; undefined: none. */
export function failure(target: Target, bytes: Buffer): Error | undefined {
  try {
    target.take(bytes);
    return undefined;
  } catch (thrown) {
    return thrown instanceof Error ? thrown : new Error(String(thrown));
  }
}

function changed(target: Target, kept: readonly Buffer[], cast: Cast): Buffer {
  // The latest inputs have been tried least.
  const pick = () =>
    kept[cast(2) === 0 ? Math.max(0, kept.length - 1 - cast(20)) : cast(kept.length)] ?? Buffer.alloc(0);
  let bytes = pick();
  for (let times = cast(4); times >= 0; times--) {
    const other = cast(8) === 0 ? pick() : undefined;
    bytes = (cast(2) === 0 ? target.change?.(bytes, cast) : undefined) ?? mutated(bytes, other, target.words, cast);
  }
  return bytes.length > MAX_INPUT_BYTES * 4 ? bytes.subarray(0, MAX_INPUT_BYTES) : bytes;
}

/** Bytes that often cause errors. */
const ODD = [0, 1, 9, 10, 13, 32, 34, 44, 58, 91, 92, 93, 123, 125, 127, 128, 0xc0, 0xe2, 0xed, 0xf4, 0xff];

function mutated(bytes: Buffer, other: Buffer | undefined, words: readonly string[], cast: Cast): Buffer {
  const at = cast(bytes.length + 1);
  const to = Math.min(bytes.length, at + 1 + cast(cast(3) === 0 ? 200 : 8));
  const join = (...parts: (Buffer | Uint8Array)[]) => Buffer.concat(parts);
  const [head, tail] = [bytes.subarray(0, at), bytes.subarray(at)];
  if (other) return join(head, other.subarray(cast(other.length + 1)));
  const one = () => Buffer.from([cast(3) === 0 ? cast(256) : (ODD[cast(ODD.length)] as number)]);
  const word = () => Buffer.from(words[cast(words.length)] ?? "", "latin1");
  const ways = [
    () => join(head, one(), tail),
    () => join(head, one(), bytes.subarray(at + 1)),
    () => join(head, word(), tail),
    () => join(head, word(), tail),
    () => join(head, word(), bytes.subarray(to)),
    () => join(head, bytes.subarray(to)),
    () => join(bytes.subarray(0, to), tail),
    () => join(head, ...Array<Buffer>(cast(40)).fill(bytes.subarray(at, to)), bytes.subarray(to)),
    () => head,
  ];
  return (ways[cast(ways.length)] as () => Buffer)();
}

/** Inputs that are tried to minimize one. */
const MAX_SMALLER = 10_000;

/** Minimizes an input that fails the same way. */
function smaller(target: Target, { bytes, error }: { bytes: Buffer; error: Error }, trying?: (bytes: Buffer) => void) {
  let least = bytes;
  let runs = 0;
  for (let step = least.length >> 1; step > 0; step >>= 1)
    for (let at = 0; at < least.length && runs++ < MAX_SMALLER; ) {
      const less = Buffer.concat([least.subarray(0, at), least.subarray(at + step)]);
      trying?.(less);
      if (place(failure(target, less)) === place(error)) least = less;
      else at += step;
    }
  return { bytes: least, error: failure(target, least) ?? error };
}

/** Returns where an error was thrown, as its message may quote the input. */
const place = (error: Error | undefined): string | undefined =>
  error?.stack?.split("\n").find((line) => /:\d+:\d+\)?$/.test(line));
