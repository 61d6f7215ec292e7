import { setImmediate as nextTurn } from "node:timers/promises";
import { createContext, Script } from "node:vm";
import {
  type Attempt,
  type Body,
  type DoneExchange,
  type FailedAnswer,
  Frame,
  type Head,
  Marketplace,
  Redactor,
  type ResponseExchange,
  type Stage,
} from "model-gateway";
import type { RawAttempt, RawExchange, RawMessage } from "./messages.ts";
import { MARGIN } from "./redactor.ts";

interface FailedCapture {
  readonly answer: FailedAnswer;
  /** Resolves when no more of its body arrives. */
  readonly read: Promise<void>;
}

/** The data of an exchange that may be recorded. */
export interface CaptureState {
  /** How often its chain has this plugin. */
  instances: number;
  sampled: boolean;
  /** Undefined: it is not recorded. */
  head?: RawMessage;
  body?: Body;
  provider?: Capture;
  client?: Capture;
  /** Responses of attempts that were followed by another attempt, or by an error of the gateway's own. */
  failed?: Map<Attempt, FailedCapture>;
  /** The beginnings of the bodies that are let go before the end. */
  released?: Map<Attempt, RawBody>;
}

/** Maximum characters of a key that is found across the frames of a stream. */
const MAX_SECRET = 2048;
/** Milliseconds of searching in one turn of the event loop, and in all for one response. */
const [TURN_TIME, MAX_SEARCH] = [10, 1000];
/** Bytes of a frame from which its search may take too long at once, and the milliseconds after which that is ended. */
const [LONG_FRAME, MAX_STEP] = [4096, 50];
const END = new Frame("end", Buffer.alloc(0));
const UNREADABLE = Buffer.from("(It could not be searched for secrets, and is left out.)");

/** Captures one side of a response as it passes. */
export class Capture {
  private readonly frames: Frame[] = [];
  private readonly head: RawMessage;
  private readonly cleaners: readonly Stage[] = [];
  /** The body without keys; set by `clean`. */
  private cleaned: Buffer | undefined;
  private keptBytes = 0;
  private bytes = 0;

  /**
   * @param most maximum bytes of the body
   * @param secrets values to remove, besides everything that looks like a key
   * @param patterns of further texts to remove, each on its own: their flags, groups and backreferences differ
   */
  constructor(
    exchange: ResponseExchange,
    head: Head,
    private readonly most: number,
    secrets: readonly string[],
    patterns: readonly RegExp[],
  ) {
    this.head = rawMessage(String(head.status), head.headers.lines);
    if (!head.framing) return;
    const known = secrets.map((secret) => RegExp.escape(secret));
    const { source, flags } = Redactor.shapes;
    const keys = new RegExp([...known, source].join("|"), flags);
    // A stream may split a key over several frames. These stages run on the captured frames, never on the response.
    this.cleaners = [keys, ...patterns].flatMap(
      (pattern) => exchange.replaceResponseText({ pattern, maxLength: MAX_SECRET }, () => "***") ?? [],
    );
  }

  readonly stage: Stage = (frame) => {
    if (frame.kind === "end") return;
    this.bytes += frame.bytes.length;
    if (this.keptBytes > this.most + MARGIN) return;
    // The bytes may be a part of a larger buffer, which they would keep alive.
    this.frames.push(new Frame(frame.kind, Buffer.from(frame.bytes)));
    this.keptBytes += frame.bytes.length;
  };

  /**
   * Removes keys and what the patterns match from the text of a stream. A long search is done in many turns of the event loop; after
   * one that takes too long, like that of a pattern without bounds in a long word, the body is left out. Called before `message`.
   */
  clean(): void | Promise<void> {
    const steps = this.cleaning();
    if (!steps.next().done) return finish(steps);
  }

  private *cleaning(): Generator<undefined, void> {
    let [began, spent] = [performance.now(), 0];
    let frames: Frame[] = [...this.frames, END];
    try {
      for (const clean of this.cleaners) {
        const passed: Frame[] = [];
        for (const frame of frames) {
          const cleaned = frame.bytes.length < LONG_FRAME ? clean(frame) : runBriefly(() => clean(frame));
          passed.push(...[cleaned ?? frame].flat());
          const took = performance.now() - began;
          if (took < TURN_TIME) continue;
          spent += took;
          if (spent > MAX_SEARCH) throw new Error("The search takes too long.");
          yield;
          began = performance.now();
        }
        frames = passed;
      }
      this.cleaned = Buffer.concat(frames.map(({ bytes }) => bytes));
    } catch {
      this.cleaned = UNREADABLE;
    }
  }

  /** Returns the captured message; of a stream without keys in its text. */
  message(): RawMessage {
    return { ...this.head, body: this.cleaned ?? UNREADABLE, bytes: this.bytes };
  }
}

let brief: { readonly script: Script; readonly context: { run?: () => unknown } } | undefined;

/** Runs something that an expression may keep busy without end. @throws Error where it takes longer than MAX_STEP */
function runBriefly<Result>(run: () => Result): Result {
  brief ??= { script: new Script("run()"), context: createContext({}) };
  const { script, context } = brief;
  context.run = run;
  try {
    return script.runInContext(context, { timeout: MAX_STEP }) as Result;
  } finally {
    delete context.run;
  }
}

/** Runs the remaining steps, each in a turn of its own. */
async function finish(steps: Iterator<undefined, void>): Promise<void> {
  do await nextTurn();
  while (!steps.next().done);
}

/** Returns a copy of the headers; they may be changed later. */
export function rawMessage(first: string, lines: readonly string[]): RawMessage {
  const headers: [string, string][] = [];
  for (let i = 0; i < lines.length; i += 2) headers.push([lines[i] as string, lines[i + 1] as string]);
  return { first, headers, body: new Uint8Array(), bytes: 0 };
}

/** Returns a failed attempt's response, as far as it has arrived. */
function failedMessage({ head, body, bytes, isComplete }: FailedAnswer): RawMessage {
  return {
    ...rawMessage(String(head.status), head.headers.lines),
    body,
    bytes,
    ...(!isComplete && { part: true as const }),
  };
}

type RawBody = Pick<RawMessage, "body" | "bytes">;

/** Returns the beginnings of the bodies that are let go before the end. @param most maximum bytes of each */
export const releasedBodies = ({ attempts }: ResponseExchange, most: number): Map<Attempt, RawBody> =>
  new Map(attempts.filter((each) => each.releasesBody).map((each) => [each, rawBody(each.body, most)]));

/** Adds a body's beginning, and its length. */
const withBody = (message: RawMessage, body: Body | undefined, most: number): RawMessage =>
  body ? { ...message, ...rawBody(body, most) } : message;

function rawBody(body: Body, most: number): RawBody {
  const pieces: Buffer[] = [];
  let length = 0;
  for (const piece of body.pieces) {
    if (length > most + MARGIN) break;
    pieces.push(piece.subarray(0, most + MARGIN - length + 1));
    length += piece.length;
  }
  return { body: Buffer.concat(pieces), bytes: body.length };
}

/** Returns the whole recording of an exchange, secrets included. @param most maximum bytes of each body */
export function rawExchange(
  exchange: DoneExchange,
  { head, body, provider, client, failed, released }: CaptureState & { head: RawMessage },
  most: number,
): RawExchange {
  const { id, time, outcome, status, error, answerer, attempts } = exchange;
  const last = attempts.length - 1;
  return {
    ...{ id, time, outcome, status },
    ...(error && { error: { code: error.code, message: error.message } }),
    ...(answerer && { answerer: answerer.name }),
    request: withBody(head, body, most),
    ...(client && { answer: client.message() }),
    attempts: attempts.map((attempt, at): RawAttempt => {
      const { target, protocol, method, headers, status, error } = attempt;
      const unserved = failed?.get(attempt);
      const name = Marketplace.nameOf(target);
      return {
        ...{ target: name, protocol: protocol.name },
        ...(status !== undefined && { status }),
        ...(error && { error: error.code }),
        request: {
          ...withBody(rawMessage(`${method} ${name}`, headers.lines), attempt.body, most),
          ...released?.get(attempt),
        },
        ...(at === last && provider && { answer: provider.message() }),
        ...(unserved && { answer: failedMessage(unserved.answer) }),
      };
    }),
  };
}
