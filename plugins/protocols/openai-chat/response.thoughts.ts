import { asList, asObject, asText, type Event, entryOf, type JsonObject } from "model-gateway/protocol";
import { saidIn } from "./reasoning.ts";
import { type Growing, type Path, type Reading, stateFrom } from "./response.reading.ts";
import type { Spot } from "./response.record.ts";

/** What a block of thoughts is, by the type of its entries. */
const OPENINGS: Readonly<Record<string, { summary?: boolean; redacted?: boolean }>> = {
  "reasoning.summary": { summary: true },
  "reasoning.encrypted": { redacted: true },
};

/** The thoughts of one choice, in the dialect of whoever sends them. */
export class Thoughts {
  /** What the open block grows from: a field, or an entry of `reasoning_details` of one type and index. */
  private from: string | undefined;
  /** What the open block's entry says besides its text. */
  private entry: JsonObject | undefined;
  /** What the open block says, in pieces. */
  private texts: string[] = [];
  private spots: Spot[] = [];

  constructor(
    private readonly reading: Reading,
    private readonly choice: Growing,
  ) {}

  /**
   * Reads OpenRouter's `reasoning_details` (`reasoning` repeats its text), or else DeepSeek's `reasoning_content`, or else
   * Groq's `reasoning`; and the state that Google's compatible API puts on a message.
   */
  read(delta: JsonObject, at: Path): void {
    const details = delta["reasoning_details"] ? asList(delta["reasoning_details"]) : [];
    const uses = details.length > 0 && this.details(details, delta, at);
    if (!uses)
      for (const name of ["reasoning_content", "reasoning"] as const) {
        const text = asText(delta[name]);
        if (!text) continue;
        this.turnTo(name);
        this.add(text, [[...at, name]]);
        break;
      }
    if (delta["extra_content"] || delta["thought_signature"]) this.onMessage(delta, at);
  }

  /** Mistral's thinking, a part of the content; among its texts are sources, which nobody else can tell. */
  parts(pieces: readonly unknown[], at: Path): void {
    for (const [n, piece] of pieces.entries()) {
      const text = asText(piece) ?? asText(asObject(piece)?.["text"]);
      if (text === undefined) this.reading.lose("content.thinking");
      if (!text) continue;
      this.turnTo("thinking");
      this.add(text, [typeof piece === "string" ? [...at, n] : [...at, n, "text"]]);
    }
  }

  /**
   * The open block closes: what must come back with it. Its text is in the state, for not every client is shown thoughts,
   * and vendors that think between calls of tools want theirs back whole (DeepSeek, Moonshot).
   */
  close(block: number): void {
    const { from, entry, spots } = this;
    const text = this.texts.join("");
    this.from = this.entry = undefined;
    this.texts = [];
    this.spots = [];
    if (from === undefined) return;
    const { source, out } = this.reading;
    const uses = entry && saidIn(entry);
    const opaque = entry
      ? stateFrom(source, "reasoning_details", JSON.stringify(uses && text ? { ...entry, [uses]: text } : entry))
      : stateFrom(source, from, text);
    const event: Event = { type: "opaque", block, opaque };
    if (spots.length > 0) event.native = { spots };
    out.push(event);
  }

  /** The next text is of this field or entry; another one that is open closes. */
  private turnTo(from: string, opening?: { summary?: boolean; redacted?: boolean }): void {
    if (this.from !== from && this.choice.growing === "reasoning") this.choice.shut();
    this.choice.block("reasoning", opening);
    this.from = from;
  }

  /** @param paths where the text stands in the frame */
  private add(text: string, paths: readonly Path[]): void {
    const event: Event = { type: "text", block: this.choice.block("reasoning"), text };
    this.reading.out.push(event);
    this.texts.push(text);
    for (const path of paths) this.reading.record?.spot(event, "text", path);
  }

  /** Whether the entries say a text. */
  private details(details: readonly unknown[], delta: JsonObject, at: Path): boolean {
    let uses = false;
    for (const [n, value] of details.entries()) {
      const entry = asObject(value);
      if (!entry) {
        this.reading.lose("reasoning_details");
        continue;
      }
      const { text: plain, summary: _summary, ...rest } = entry;
      const { type, index } = entry;
      const path = [...at, "reasoning_details", n];
      this.turnTo(JSON.stringify([type, index]), entryOf(OPENINGS, asText(type)));
      this.keep(rest, path);
      const from = asText(plain) ? "text" : "summary";
      const text = asText(entry[from]);
      if (!text) continue;
      uses = true;
      const repeats = ["reasoning", "reasoning_content"].filter((name) => details.length === 1 && delta[name] === text);
      this.add(text, [[...path, from], ...repeats.map((name) => [...at, name])]);
    }
    return uses;
  }

  /** Later pieces of an entry add to it; a null or an empty text adds nothing. */
  private keep(rest: JsonObject, path: Path): void {
    this.entry ??= {};
    const { record } = this.reading;
    for (const [name, value] of Object.entries(rest)) {
      const before = this.entry[name];
      if (value === before || ((value === null || value === "") && before !== undefined)) continue;
      this.entry[name] = value;
      this.reading.kept += name.length + (typeof value === "string" ? value : JSON.stringify(value)).length;
      if (!record || !value || (name !== "signature" && name !== "data")) continue;
      record.putBack(this.spots, before);
      this.spots = record.later(name, [...path, name]);
    }
  }

  private onMessage(delta: JsonObject, at: Path): void {
    const { extra_content, thought_signature } = delta;
    const google = asObject(asObject(extra_content)?.["google"]);
    if (!asText(google?.["thought_signature"]) && !asText(thought_signature)) {
      if (asObject(extra_content)) this.reading.lose("extra_content");
      return;
    }
    this.choice.shut();
    const { out, source, record } = this.reading;
    const block = this.reading.next();
    const opaque = stateFrom(source, "message", JSON.stringify({ extra_content, thought_signature }));
    const event: Event = { type: "opaque", block, opaque };
    out.push({ type: "open", block, choice: this.choice.index, kind: "reasoning", redacted: true }, event, {
      type: "close",
      block,
    });
    for (const name of ["extra_content", "thought_signature"])
      if (delta[name] !== undefined) record?.spot(event, name, [...at, name]);
  }
}
