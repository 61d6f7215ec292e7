/** What is given random bytes by `npm run fuzz`, and by guided.test.ts. */
import { createParser } from "eventsource-parser";
import { Body } from "../../src/core/body.ts";
import { requestTexts } from "../../src/core/texts.ts";
import { ReferenceFinder } from "../../src/objects/reference-finder.ts";
import type { TranslatedProtocol } from "../../src/translation/codec.ts";
import { Envelopes } from "../../src/translation/envelope.ts";
import type { Event } from "../../src/translation/events.ts";
import { readRequest, writeRequest } from "../../src/translation/request.ts";
import { runAtOnce } from "../../src/translation/steps.ts";
import {
  decodeWhole,
  encodeWhole,
  type ResponseTranslation,
  StreamTranslator,
} from "../../src/translation/translator.ts";
import { removeUnreadable } from "../../src/translation/unreadable.ts";
import { ArraySplitter } from "../../src/wire/array.ts";
import { Frame } from "../../src/wire/frame.ts";
import { JsonError, type Scan, Scanner } from "../../src/wire/json.ts";
import { splice } from "../../src/wire/splice.ts";
import { SseSplitter } from "../../src/wire/sse.ts";
import type { JsonObject } from "../../src/wire/values.ts";
import { Watch } from "../../src/wire/watch.ts";
import { RICH_REQUESTS } from "../golden/rich-requests.ts";
import { CLIENT_BODIES } from "../support/client-bodies.ts";
import type { Cast } from "../support/dice.ts";
import { cut, holds, type Target } from "../support/guided.ts";
import { randomAnswer } from "../support/random-answers.ts";
import {
  contextFor,
  received,
  SPOKEN,
  sse,
  streamed,
  translationBetween,
  translationOf,
} from "../support/translations.ts";
import type { ProtocolName } from "../support/vendor-sdks.ts";
import { changedJson, checkContent, checkOrder, checkTexts, JSON_WORDS, orRefused, parsed } from "./judging.ts";
import { HTTP_TARGETS } from "./targets.http.ts";
import { OTHER_TARGETS } from "./targets.others.ts";

const PROTOCOLS = Object.keys(SPOKEN) as ProtocolName[];

const latin = (texts: readonly string[]): Buffer[] => texts.map((text) => Buffer.from(text, "latin1"));

/**
 * What a scanner makes of pieces: the members, the places of their values and the texts that it looks for, or the fault.
 * @param strings `start`: as requests are scanned, whose long texts are only searched for their end
 */
function scanned(pieces: readonly Buffer[], strings: "start" | "whole" = "whole"): Scan | JsonError {
  const scanner = new Scanner({ strings });
  try {
    for (const piece of pieces) scanner.push(piece);
    return scanner.end();
  } catch (error) {
    if (error instanceof JsonError) return error;
    throw error;
  }
}

/** The same however the text is cut. Of two faults, either may be met first. */
const shown = (scan: Scan | JsonError): string =>
  scan instanceof Error ? "refused" : JSON.stringify([scan.members, scan.seen]);

/** A name that nested objects may have, as those that lead to another model. */
const NESTED = "file_id";
const nested = new Watch([NESTED]);

/** Whether a value has a member of that name below its own members. */
function holdsNested(json: unknown, depth = 0): boolean {
  if (typeof json !== "object" || json === null) return false;
  if (depth > 0 && Object.hasOwn(json, NESTED)) return true;
  return Object.values(json).some((each) => holdsNested(each, depth + 1));
}

const json: Target = {
  seeds: () =>
    latin([
      ...Object.values(CLIENT_BODIES).map(({ body }) => body),
      '{"a":[1,-0.5e+3,true,null,"\\ud83d\\ude00"]}',
      JSON.stringify({ a: `${"long".repeat(80)}\\`, b: [`${'\\"'.repeat(160)}`, 2] }),
      `{"a":{"${NESTED}":1,"b":[{"${NESTED}":2}]}}`,
      "1",
      '"x"',
    ]),
  words: [...JSON_WORDS, `{"${NESTED}":1}`, `"${NESTED}":`],
  take(bytes) {
    const whole = scanned([bytes]);
    const fast = scanned([bytes], "start");
    for (const [one, strings] of [[whole, "whole"] as const, [fast, "start"] as const]) {
      const pieces = scanned(cut(bytes), strings);
      holds(shown(one) === shown(pieces), () => `whole: ${shown(one)}; in pieces: ${shown(pieces)}`);
    }
    const judged = parsed(bytes);
    if (whole instanceof Error) {
      const own = ["depth", "keys", "duplicate"].includes(whole.fault) || /surrogate/.test(whole.message);
      return holds(!judged || own, () => `JSON.parse takes what is refused: ${whole.message}`);
    }
    holds(judged !== undefined, () => "JSON.parse refuses what is taken");
    const isObject = typeof judged.json === "object" && judged.json !== null && !Array.isArray(judged.json);
    const at = (start: number, end: number) => JSON.parse(bytes.toString("utf8", start, end)) as unknown;
    holds(
      !(fast instanceof Error) && shown(fast) === shown(whole),
      () => `fast: ${shown(fast)}; it is ${shown(whole)}`,
    );
    holds(!holdsNested(judged.json) || nested.mayMatch(whole), () => "a name is overlooked");
    const { members } = whole;
    const read = members.map(({ name, start, end }) => [name, at(start, end)] as const);
    for (const { name, keyStart, start } of members)
      holds(Object.hasOwn(JSON.parse(`{${bytes.toString("utf8", keyStart, start)}0}`), name), () => `name: ${name}`);
    // Built as JSON.parse does, which makes a member of `__proto__` and has numbers as names first.
    const built = Object.fromEntries(read);
    holds(JSON.stringify(built) === JSON.stringify(isObject ? judged.json : {}), () => `members: ${shown(whole)}`);
  },
};

const SSE_WORDS = [
  "data: ",
  "data:",
  "event: ",
  "id: 1",
  "retry: 5",
  ": ",
  "\n\n",
  "\r\n\r\n",
  "\r\r",
  "\r",
  "\n",
  "\xef\xbb\xbf",
  "[DONE]",
  "{}",
  "\0",
];

/** What a splitter reads; no byte may be lost. */
function frames(splitter: SseSplitter | ArraySplitter, pieces: readonly Buffer[]): Frame[] {
  const read = pieces.flatMap((piece) => splitter.push(piece));
  const rest = splitter.end();
  const kept = Buffer.concat([...read.map(({ bytes }) => bytes), ...(rest instanceof Buffer ? [rest] : [])]);
  holds(kept.equals(Buffer.concat(pieces)), () => "bytes are lost");
  return read;
}

const told = (read: readonly Frame[]): string =>
  JSON.stringify(read.flatMap(({ event, text }) => (text === undefined ? [] : [[event || "message", text]])));

const eventStream: Target = {
  seeds: () =>
    latin([
      "data: a\n\ndata: b\ndata\n\n",
      "event: x\r\nid: 1\r\ndata:{}\r\n\r\n: c\r\rdata: [DONE]\r\r",
      "\xef\xbb\xbfdata: 1\n\n",
    ]),
  words: SSE_WORDS,
  take(bytes) {
    // Behind it nothing is in doubt: whether a CR is all of a line end, and whether an event has ended.
    const stream = Buffer.concat([bytes, Buffer.from("\n\n\ndata: end\n\n")]);
    const whole = told(frames(new SseSplitter(), [stream]));
    const pieces = told(frames(new SseSplitter(), cut(stream)));
    holds(whole === pieces, () => `whole: ${whole}; in pieces: ${pieces}`);
    const text = new TextDecoder("utf-8", { ignoreBOM: true }).decode(stream);
    const events: string[][] = [];
    createParser({ onEvent: ({ event, data }) => events.push([event || "message", data]) }).feed(text);
    holds(whole === JSON.stringify(events), () => `read: ${whole}; by the standard: ${JSON.stringify(events)}`);
  },
};

const arrayStream: Target = {
  seeds: () => latin(['[{"a":1},\r\n{"b":"]"}]', '[1,"\\"",[2]] ', '{"error":{}}', "[]"]),
  words: JSON_WORDS,
  take(bytes) {
    const whole = frames(new ArraySplitter(), [bytes]);
    const pieces = frames(new ArraySplitter(), cut(bytes));
    const judged = parsed(bytes)?.json;
    if (typeof judged !== "object" || judged === null) return;
    const texts = (read: readonly Frame[]) => JSON.stringify(read.flatMap(({ text }) => text ?? []));
    holds(texts(whole) === texts(pieces), () => `whole: ${texts(whole)}; in pieces: ${texts(pieces)}`);
    const read = whole.flatMap(({ text }) => (text === undefined ? [] : [JSON.parse(text) as unknown]));
    // An error is an object without the array around it.
    const elements = Array.isArray(judged) ? judged : [judged];
    holds(JSON.stringify(read) === JSON.stringify(elements), () => `${JSON.stringify(read)}`);
  },
};

/** The same with one event of a stream. */
function changedEvent(bytes: Buffer, cast: Cast): Buffer | undefined {
  const events = bytes.toString().split("\n\n");
  const at = cast(events.length);
  const [, head = "", data = ""] = /^([^{]*)(\{.*)$/s.exec(events[at] ?? "") ?? [];
  const changed = changedJson(Buffer.from(data), cast);
  return changed && Buffer.from(events.with(at, head + changed.toString()).join("\n\n"));
}

const envelopes = new Envelopes("secret");
const sealed = envelopes.seal({
  protocol: "gemini",
  kind: "signature",
  data: "c2ln",
  account: "them",
  model: "theirs",
});

const request = (protocol: ProtocolName): Target => ({
  seeds: () =>
    [...RICH_REQUESTS[protocol].map((each) => JSON.stringify(each)), CLIENT_BODIES[protocol].body].map((text) =>
      Buffer.from(text),
    ),
  words: [
    ...JSON_WORDS,
    sealed,
    `"${sealed}"`,
    ...PROTOCOLS.flatMap((name) => `${JSON.stringify(RICH_REQUESTS[name])}`.match(/"\w+":?/g) ?? []),
  ],
  change: changedJson,
  take(bytes) {
    const judged = parsed(bytes)?.json;
    if (typeof judged !== "object" || judged === null || Array.isArray(judged)) return;
    // The server lets nothing else in.
    const scanner = new Scanner();
    if (scanned([bytes]) instanceof Error) return;
    scanner.push(bytes);
    const body = new Body([bytes], scanner.end());
    const spoken = SPOKEN[protocol] as TranslatedProtocol;
    orRefused(() => requestTexts(body, spoken), 400);
    const { objects } = spoken;
    if (objects) orRefused(() => new ReferenceFinder(objects).findInBody(body), 400);
    const to = { protocol: spoken, account: "them", model: "theirs", facts: {} };
    orRefused(() => {
      const { edits } = removeUnreadable(bytes, judged as JsonObject, envelopes, to, false);
      JSON.parse(Buffer.concat(splice([bytes], edits)).toString());
      if (JSON.stringify(judged).includes("gw1state")) return;
      const strict = removeUnreadable(bytes, judged as JsonObject, envelopes, to, true).edits;
      holds(strict.length === 0, () => `what is the client's own is changed: ${JSON.stringify(strict)}`);
    }, 400);
    for (const target of PROTOCOLS.filter((each) => each !== protocol))
      orRefused(() => {
        const asked = readRequest(received(protocol, bytes.toString()), envelopes);
        const written = writeRequest(asked, { ...to, protocol: SPOKEN[target] as TranslatedProtocol }, false).encoded
          .body;
        JSON.parse(written);
        holds(
          !/\[object \w+\]|\bundefined\b|\bNaN\b/.test(written) || /\[object|undefined|NaN/.test(bytes.toString()),
          () => written,
        );
        checkTexts(asked, readRequest(received(target, written), envelopes));
      }, 400);
  },
});

const END = new Frame("end", Buffer.alloc(0));

/** Answers to begin with: small ones of every kind of block. Those of the first seeds have none. */
const ANSWERS = Array.from({ length: 400 }, (_, i) => randomAnswer(i + 1))
  .filter(({ length }) => length >= 12 && length <= 40)
  .slice(0, 6);

/** A whole answer where it begins as one, else a stream. */
const answer = (protocol: ProtocolName): Target => ({
  seeds: () =>
    ANSWERS.flatMap((events) => {
      return [
        sse(streamed(protocol, events)),
        runAtOnce(translationOf(protocol).response.encode(events, contextFor(protocol))),
      ].map((text) => Buffer.from(text));
    }),
  words: [
    ...JSON_WORDS,
    ...SSE_WORDS,
    ...ANSWERS.flatMap((events) => sse(streamed(protocol, events)).match(/"\w+":?/g) ?? []),
  ],
  change: (bytes, cast) => (bytes[0] === 123 ? changedJson(bytes, cast) : changedEvent(bytes, cast)),
  take(bytes) {
    const spoken = SPOKEN[protocol];
    const usage = (json: unknown) => [spoken.usage(json), [...spoken.texts.response(json)].length];
    if (bytes[0] === 123) usage(parsed(bytes)?.json);
    for (const target of PROTOCOLS.filter((each) => each !== protocol)) {
      const way = translationBetween(protocol, target);
      const whole = bytes[0] === 123;
      const [sent, events] = whole ? writtenWhole(way, bytes) : writtenStream(way, bytes);
      if (!sent || !events) continue;
      checkContent(events, decoded(target, Buffer.from(sent), whole));
    }
    if (bytes[0] === 123) return;
    for (const frame of new SseSplitter().push(bytes)) {
      spoken.ending(frame);
      spoken.objects?.mayHoldIds(frame);
      const text = parsed(Buffer.from(frame.text ?? ""));
      if (text) usage(text.json);
    }
  },
});

/** What a protocol's decoder reads of an answer. */
function decoded(protocol: ProtocolName, bytes: Buffer, whole: boolean): Event[] {
  const { decoder, decode } = translationOf(protocol).response;
  const source = { account: "them", model: "theirs" };
  const events: Event[] = [];
  if (whole) events.push(...runAtOnce(decode(bytes, source)));
  else {
    const reader = decoder(source);
    for (const frame of new SseSplitter().push(bytes)) reader.frame(frame, events);
    reader.end(events);
  }
  return events;
}

/** A whole answer for another client, and the events that it was written of. */
function writtenWhole(way: ResponseTranslation, bytes: Buffer): [sent?: string | undefined, events?: Event[]] {
  const events = orRefused(() => runAtOnce(decodeWhole(way, bytes, undefined)));
  if (!events) return [];
  checkOrder(events);
  const sent = orRefused(() => runAtOnce(encodeWhole(way, events)));
  if (sent !== undefined) JSON.parse(sent);
  return [sent, events];
}

/** The same with a stream, which is the same however it is cut. */
function writtenStream(way: ResponseTranslation, bytes: Buffer): [sent?: string | undefined, events?: Event[]] {
  const [sent, other] = [[bytes], cut(bytes)].map((pieces) =>
    orRefused(() => {
      const translator = new StreamTranslator(way);
      const read = frames(new SseSplitter(), pieces);
      const out = [...read, END].flatMap((frame) => translator.stage(frame) ?? frame);
      for (const { text } of out) if (text !== undefined && text !== "[DONE]") JSON.parse(text);
      return Buffer.concat(out.map((frame) => frame.bytes)).toString();
    }),
  );
  holds(sent === other, () => `whole: ${sent}; in pieces: ${other}`);
  const events = decoded(way.from.name as ProtocolName, bytes, false);
  checkOrder(events);
  return sent === undefined ? [] : [sent, events];
}

/** By name. */
export const TARGETS: Readonly<Record<string, Target>> = {
  json,
  sse: eventStream,
  array: arrayStream,
  ...HTTP_TARGETS,
  ...OTHER_TARGETS,
  ...Object.fromEntries(PROTOCOLS.map((name) => [`request-${name}`, request(name)])),
  ...Object.fromEntries(PROTOCOLS.map((name) => [`answer-${name}`, answer(name)])),
};
