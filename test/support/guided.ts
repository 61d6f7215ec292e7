import type { Coverage } from "./coverage.ts";
import { dice } from "./random-answers.ts";

type Cast = ReturnType<typeof dice>;

/** Something that takes any bytes, and throws where it is wrong about them. */
export interface Target {
  /** What to begin with. */
  seeds(): Buffer[];
  /** What its grammar is made of, put in here and there. */
  words: readonly string[];
  /** A way to change bytes that knows their grammar; undefined: these have none. */
  change?(bytes: Buffer, cast: Cast): Buffer | undefined;
  take(bytes: Buffer): void;
}

export interface Guided {
  /** Inputs that were tried. */
  runs: number;
  /** Inputs that together reach all that was reached; the smallest first. */
  corpus: Buffer[];
  /** The first input that was taken wrongly, made small, and what was thrown. */
  crash: { bytes: Buffer; error: Error } | undefined;
}

export interface GuidedOptions {
  /** Ends once it is true; asked for each batch, with the inputs tried so far. */
  until(runs: number): boolean;
  corpus?: readonly Buffer[];
  seed?: number;
  /** Absent: nobody looks where inputs lead, and all of those given are changed. */
  coverage?: Pick<Coverage, "fresh">;
  /** Hears of each input before it is tried. */
  trying?(bytes: Buffer): void;
}

/** @throws Error with what was found, where it does not hold */
export function holds(condition: boolean, what: () => string): asserts condition {
  if (!condition) throw new Error(what());
}

/** Bytes in pieces of their first byte's length: the input chooses how it is cut. */
export function cut(bytes: Buffer): Buffer[] {
  const step = 1 + ((bytes[0] ?? 0) & 63);
  return Array.from({ length: Math.ceil(bytes.length / step) }, (_, i) => bytes.subarray(i * step, (i + 1) * step));
}

/** Bytes of one input. */
const LONGEST = 4096;
/** Inputs between two looks at the coverage. */
const BATCH = 256;

/** Changes inputs at random, and keeps those that reach what none has reached before. */
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
  // Looking at the coverage costs as much as hundreds of small inputs: those that reach something are found by halves.
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
  if (crash) crash = smaller(target, crash);
  return { runs, corpus: kept.toSorted((a, b) => a.length - b.length), crash };
}

/** What a target throws; undefined: nothing. */
export function failure(target: Target, bytes: Buffer): Error | undefined {
  try {
    target.take(bytes);
    return undefined;
  } catch (thrown) {
    return thrown instanceof Error ? thrown : new Error(String(thrown));
  }
}

function changed(target: Target, kept: readonly Buffer[], cast: Cast): Buffer {
  // What was found last has been tried least.
  const pick = () =>
    kept[cast(2) === 0 ? Math.max(0, kept.length - 1 - cast(20)) : cast(kept.length)] ?? Buffer.alloc(0);
  let bytes = pick();
  for (let times = cast(4); times >= 0; times--) {
    const other = cast(8) === 0 ? pick() : undefined;
    bytes = (cast(2) === 0 ? target.change?.(bytes, cast) : undefined) ?? mutated(bytes, other, target.words, cast);
  }
  return bytes.length > LONGEST * 4 ? bytes.subarray(0, LONGEST) : bytes;
}

/** Bytes that computers are known to take badly. */
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

/** The same failure with fewer bytes. */
function smaller(target: Target, { bytes, error }: { bytes: Buffer; error: Error }) {
  let least = bytes;
  for (let step = least.length >> 1; step > 0; step >>= 1)
    for (let at = 0; at < least.length; ) {
      const less = Buffer.concat([least.subarray(0, at), least.subarray(at + step)]);
      if (place(failure(target, less)) === place(error)) least = less;
      else at += step;
    }
  return { bytes: least, error: failure(target, least) ?? error };
}

/** Where something was thrown: its message may quote what it read. */
const place = (error: Error | undefined): string | undefined =>
  error?.stack?.split("\n").find((line) => /:\d+:\d+\)?$/.test(line));
