import {
  type Attempt,
  type Body,
  type DoneExchange,
  Frame,
  type Head,
  type Plugin,
  Redactor,
  type ResponseExchange,
  type Stage,
} from "model-gateway";
import { MARGIN } from "./cleaner.ts";
import type { RawAttempt, RawExchange, RawMessage } from "./messages.ts";

/** What a provider answered to an attempt that failed. */
export type LostAnswer = Parameters<NonNullable<Plugin["failed"]>>[2];

interface Failed {
  readonly answer: LostAnswer;
  /** Settles when no more of its body comes. */
  readonly read: Promise<void>;
}

/** What is known of an exchange that may be kept. */
export interface Watched {
  /** How often its chain has this plugin. */
  places: number;
  sampled: boolean;
  /** Undefined: nothing is kept of it. */
  head?: RawMessage;
  body?: Body;
  provider?: Capture;
  client?: Capture;
  /** Answers of attempts behind which another one followed, or an error of the gateway's own. */
  failed?: Map<Attempt, Failed>;
}

/** Characters of the longest key that is looked for across the frames of a stream. */
const LONGEST = 2048;
const UNREADABLE = Buffer.from("(It could not be searched for secrets, and is left out.)");

/** One side of an answer, as it passes. */
export class Capture {
  private readonly frames: Frame[] = [];
  private readonly first: RawMessage;
  private readonly clean: Stage | undefined;
  private kept = 0;
  private bytes = 0;

  /**
   * @param most bytes of the body that are kept
   * @param secrets besides all that looks like a key
   */
  constructor(
    exchange: ResponseExchange,
    head: Head,
    private readonly most: number,
    secrets: readonly string[],
    patterns: RegExp | undefined,
  ) {
    this.first = messageOf(String(head.status), head.headers.lines);
    if (!head.framing) return;
    // A stream says a key in pieces, each in a frame of its own. This stage is run on what was kept, never on the answer.
    const known = secrets.map((secret) => RegExp.escape(secret));
    const sources = [...known, Redactor.shapes.source, ...(patterns ? [patterns.source] : [])];
    const pattern = new RegExp(sources.join("|"), patterns ? "giu" : "gi");
    this.clean = exchange.mapAnswerText({ pattern, longest: LONGEST }, () => "***");
  }

  readonly stage: Stage = (frame) => {
    if (frame.kind === "end") return;
    this.bytes += frame.bytes.length;
    if (this.kept > this.most + MARGIN) return;
    // The bytes may be a part of a larger buffer, which would be kept as long.
    this.frames.push(new Frame(frame.kind, Buffer.from(frame.bytes)));
    this.kept += frame.bytes.length;
  };

  /** What was kept; of a stream without what it says of keys. */
  message(): RawMessage {
    return { ...this.first, body: this.body(), bytes: this.bytes };
  }

  private body(): Buffer {
    const { clean, frames } = this;
    if (!clean) return Buffer.concat(frames.map(({ bytes }) => bytes));
    try {
      const cleaned = [...frames, new Frame("end", Buffer.alloc(0))].flatMap((frame) => clean(frame) ?? frame);
      return Buffer.concat(cleaned.map(({ bytes }) => bytes));
    } catch {
      return UNREADABLE;
    }
  }
}

/** Headers as they are now; they may be changed later. */
export function messageOf(first: string, lines: readonly string[]): RawMessage {
  const headers: [string, string][] = [];
  for (let i = 0; i < lines.length; i += 2) headers.push([lines[i] as string, lines[i + 1] as string]);
  return { first, headers, body: new Uint8Array(), bytes: 0 };
}

/** A failed attempt's answer, as far as it has come. */
function failedMessage({ head, body, bytes, whole }: LostAnswer): RawMessage {
  return { ...messageOf(String(head.status), head.headers.lines), body, bytes, ...(!whole && { part: true as const }) };
}

/** A body's beginning, and how long it is. */
function withBody(message: RawMessage, body: Body | undefined, most: number): RawMessage {
  if (!body) return message;
  const pieces: Buffer[] = [];
  let length = 0;
  for (const piece of body.pieces) {
    if (length > most + MARGIN) break;
    pieces.push(piece.subarray(0, most + MARGIN - length + 1));
    length += piece.length;
  }
  return { ...message, body: Buffer.concat(pieces), bytes: body.length };
}

/** All of an exchange that is kept, secrets included. @param most bytes of each body */
export function rawExchange(
  exchange: DoneExchange,
  { head, body, provider, client, failed }: Watched & { head: RawMessage },
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
      const name = `${target.provider.name}:${target.model}`;
      return {
        ...{ target: name, protocol: protocol.name },
        ...(status !== undefined && { status }),
        ...(error && { error: error.code }),
        request: withBody(messageOf(`${method} ${name}`, headers.lines), attempt.body, most),
        ...(at === last && provider && { answer: provider.message() }),
        ...(unserved && { answer: failedMessage(unserved.answer) }),
      };
    }),
  };
}
