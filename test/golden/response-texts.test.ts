import t from "tap";
import type { Protocol } from "../../src/core/protocol.ts";
import { ResponseTextReplacer } from "../../src/core/response-text-replacer.ts";
import { runStages, type Stage } from "../../src/core/stage.ts";
import { TextPattern, TextReplacer } from "../../src/core/text-replacer.ts";
import { filterPlaces, replaceText, responseTexts, textAt, wholeResponseTexts } from "../../src/core/texts.ts";
import { loadProtocols } from "../../src/loader/discover.ts";
import type { TranslatedProtocol } from "../../src/translation/codec.ts";
import type { Event } from "../../src/translation/events.ts";
import { runAtOnce } from "../../src/translation/steps.ts";
import { ArraySplitter } from "../../src/wire/array.ts";
import { Frame } from "../../src/wire/frame.ts";
import { SseSplitter } from "../../src/wire/sse.ts";
import { type Recording, recordings } from "../support/recordings.ts";
import { EVERY_CASE, tried } from "../support/sample.ts";

const all = recordings()?.filter(({ status }) => status < 300);
const skip = !all && "recordings are absent";
const protocols = new Map((await loadProtocols()).map((protocol) => [protocol.name, protocol]));

const END = new Frame("end", Buffer.alloc(0));
/** Found in every other word, and cut by every other frame. */
const VOWELS = { pattern: /[aeiou]{2,3}n?/, maxLength: 4 };
const loud = (match: string): string => `«${match.toUpperCase()}"»`;
/** In no recording. */
const MASK = { pattern: /<address-\d+>/, maxLength: 20 };

function framesOf({ body, contentType }: Recording): Frame[] {
  const sse = contentType.startsWith("text/event-stream");
  const splitter = sse ? new SseSplitter() : new ArraySplitter();
  const frames = splitter.push(body);
  const rest = splitter.end();
  return rest ? [...frames, new Frame(sse ? "event" : "element", rest)] : frames;
}

function through(stage: Stage, frames: readonly Frame[]): Frame[] {
  const out: Frame[] = [];
  for (const frame of [...frames, END]) runStages([stage], frame, out);
  return out.filter(({ kind }) => kind !== "end");
}

/** Every text of a stream, its pieces put together; those that are whole one by one. */
function textsIn(frames: readonly Frame[], { texts }: Protocol, map?: typeof loud): Map<string, string> {
  const found = new Map<string, { text: string; json: boolean }>();
  let n = 0;
  for (const frame of frames) {
    const json = frame.json();
    if (typeof json !== "object" || json === null || !texts) continue;
    for (const place of filterPlaces(texts.response(json), undefined)) {
      const name = place.piece ?? `whole ${n++}`;
      const before = found.get(name)?.text ?? "";
      found.set(name, { text: before + textAt(json, place.path), json: place.json === true });
    }
  }
  const pattern = new TextPattern(VOWELS);
  return new Map(
    [...found].map(([name, { text, json }]) => [
      name,
      map
        ? replaceText(
            text,
            { path: [], kind: "assistant", ...(json ? { json } : {}) },
            (encode) => new TextReplacer(pattern, map, encode),
          )
        : text,
    ]),
  );
}

t.test(
  "texts of every recorded stream are replaced as in the complete answer, in the same number of frames",
  { skip },
  async (t) => {
    const wrong: string[] = [];
    let changed = 0;
    for (const recording of all ?? []) {
      const protocol = protocols.get(recording.protocol);
      if (!recording.streaming || !protocol?.texts) continue;
      const frames = framesOf(recording);
      const out = through(new ResponseTextReplacer(protocol.texts, VOWELS, loud).stage, frames);
      if (out.length !== frames.length) wrong.push(`${recording.id}: ${frames.length} frames became ${out.length}`);
      const found = textsIn(out, protocol);
      for (const [name, text] of textsIn(frames, protocol, loud)) {
        if (found.get(name) !== text) wrong.push(`${recording.id}, ${name}: ${found.get(name)}, not ${text}`);
        changed++;
      }
    }
    t.same(wrong.slice(0, 10), [], `${wrong.length} of ${changed}`);
    t.ok(changed > tried(500), `${changed} texts`);
  },
);

t.test("frames without such a text pass unchanged, each in its position", { skip }, async (t) => {
  const wrong: string[] = [];
  const comment = ({ kind, text }: Frame): boolean => kind === "event" && text === undefined;
  for (const recording of all ?? []) {
    const protocol = protocols.get(recording.protocol);
    if (!protocol?.texts) continue;
    const answers = new ResponseTextReplacer(protocol.texts, MASK, loud);
    const frames = recording.streaming ? framesOf(recording) : [new Frame("piece", recording.body)];
    const out = through(recording.streaming ? answers.stage : answers.wholeStage(), frames);
    const [before, after] = [frames, out].map((list) => list.filter((frame) => !comment(frame)));
    if (before?.length !== after?.length || before?.some((frame, i) => frame !== after?.[i])) wrong.push(recording.id);
  }
  t.same(wrong, []);
});

/** The reasoning of an answer that its translation shows; undefined for an answer that reports an error. */
function translatedReasoning(
  { translation: { response } }: TranslatedProtocol,
  { streaming, body }: Recording,
  frames: readonly Frame[],
): string | undefined {
  const source = { account: "them", model: "any" };
  const events: Event[] = streaming ? [] : runAtOnce(response.decode(body, source));
  if (streaming) {
    const decoder = response.decoder(source);
    for (const frame of frames) decoder.frame(frame, events);
    decoder.end(events);
  }
  if (events.at(-1)?.type === "error") return undefined;
  const reasoning = new Set<number>();
  for (const event of events) if (event.type === "open" && event.kind === "reasoning") reasoning.add(event.block);
  return events.map((event) => (event.type === "text" && reasoning.has(event.block) ? event.text : "")).join("");
}

t.test("a complete Chat answer has its reasoning once, as when it is translated", { skip }, async (t) => {
  const protocol = protocols.get("openai-chat") as TranslatedProtocol;
  const plain = (texts: readonly { text: string }[]) =>
    texts
      .map(({ text }) => text)
      .join("")
      .replace(/\s+/g, "");
  const wrong: string[] = [];
  let repeated = 0;
  for (const recording of all ?? []) {
    if (recording.protocol !== "openai-chat" || !recording.body.includes('"reasoning')) continue;
    const frames = recording.streaming ? framesOf(recording) : [new Frame("piece", recording.body)];
    const text = translatedReasoning(protocol, recording, frames);
    if (text === undefined) continue;
    const found = plain(wholeResponseTexts(frames, protocol, ["reasoning"]));
    if (found !== plain([{ text }])) wrong.push(`${recording.id}: ${found}`);
    const everywhere = frames.flatMap((frame) => responseTexts(frame.json() ?? {}, protocol, ["reasoning"]));
    if (plain(everywhere).length > found.length) repeated++;
  }
  t.same(wrong, []);
  if (EVERY_CASE) t.ok(repeated > 5, `${repeated} repeat it`);
});
