import {
  asCount,
  asList,
  asObject,
  asText,
  type Event,
  type Fault,
  GatewayError,
  type JsonObject,
  type ResponseSource,
  type Usage,
} from "model-gateway/protocol";
import { faultIn } from "../openai/errors.ts";
import { writeUsage } from "../openai/usage.ts";
import { Choice } from "./response.choice.ts";
import type { Reading } from "./response.reading.ts";
import type { Recording } from "./response.record.ts";
import { readUsage } from "./usage.ts";

/** Members of the whole, some vendors', that hold something of the answer. */
const OUTER = ["citations", "search_results", "moderation"] as const;
/** As many choices as can be asked for; the SDKs take no higher number either. [S] */
const MOST_CHOICES = 128;
/** Characters of state that may be kept before an event tells it. */
const MOST_KEPT = 8 * 1024 * 1024;

/**
 * Reads chunks, or one whole completion, into events. How a choice ended and what was used is told at the end: vendors
 * write both twice, and the last one counts.
 */
export class Answer implements Reading {
  out: Event[] = [];
  /** It has ended, well or badly. */
  over = false;
  kept = 0;
  private start: (Event & { type: "start" }) | undefined;
  private readonly choices = new Map<number, Choice>();
  private used: Usage | undefined;
  private blocks = 0;
  private readonly lost = new Set<string>();

  constructor(
    readonly source: ResponseSource,
    readonly record: Recording | undefined,
  ) {}

  next(): number {
    return this.blocks++;
  }

  lose(path: string): void {
    if (this.lost.has(path)) return;
    this.lost.add(path);
    this.out.push({ type: "unsaid", path });
  }

  get started(): boolean {
    return this.start !== undefined;
  }

  /** Whether every choice has said why it ended: then the answer is whole even where no `[DONE]` follows. */
  get finished(): boolean {
    for (const choice of this.choices.values()) if (!choice.finished) return false;
    return this.choices.size > 0;
  }

  /** A chunk, or a whole completion. */
  read(json: JsonObject, whole: boolean): void {
    const choices = asList(json["choices"]);
    // Azure's first chunk has no choices, no id and no model.
    if (choices.length > 0) this.begin(json);
    for (let i = 0; i < choices.length; i++) {
      const choice = asObject(choices[i]);
      if (choice) this.choice(choice, i, whole);
      if (this.kept > MOST_KEPT) this.invalid("The provider's thoughts carry more than 8 MiB of state.");
      if (this.over) return;
    }
    if (json["usage"] || json["x_groq"]) this.usage(json);
    for (const name of OUTER) if (json[name]) this.lose(name);
  }

  /** The answer is whole: how each choice ended, what was used, and the end. */
  end(): void {
    this.over = true;
    for (const choice of this.choices.values()) choice.close();
    if (this.used) this.out.push({ type: "usage", usage: this.used });
    this.out.push({ type: "end" });
  }

  /** It ends badly. */
  fail(fault: Fault): void {
    this.over = true;
    this.out.push({ type: "error", fault });
  }

  private invalid(message: string): void {
    this.fail(new GatewayError("upstream_invalid", { message }));
  }

  private begin(json: JsonObject): void {
    if (!this.start) {
      const { id, model } = json;
      const created = asCount(json["created"]);
      this.start = {
        type: "start",
        id: asText(id) ?? "",
        model: asText(model) ?? this.source.model,
        ...(created === undefined ? {} : { created }),
      };
      this.out.push(this.start);
    }
    const { record, start } = this;
    if (!record) return;
    for (const name of ["id", "model", "created"] as const)
      if (start[name] === json[name]) record.spot(start, name, [name]);
  }

  private choice(json: JsonObject, i: number, whole: boolean): void {
    const index = asCount(json["index"]) ?? i;
    if (index >= MOST_CHOICES) {
      this.invalid(`The provider's answer has more than ${MOST_CHOICES} choices.`);
      return;
    }
    let choice = this.choices.get(index);
    if (!choice) {
      choice = new Choice(this, index);
      this.choices.set(index, choice);
    }
    // Some vendors' chunks hold a message, and some bodies a delta beside the message.
    const name = asObject(json[whole ? "message" : "delta"])
      ? whole
        ? "message"
        : "delta"
      : whole
        ? "delta"
        : "message";
    const delta = asObject(json[name]);
    if (delta) choice.read(delta, asObject(json["logprobs"]), ["choices", i, name]);
    const reason = json["finish_reason"];
    if (typeof reason !== "string" || reason === "") return;
    if (reason === "error") this.fail(faultIn(json["error"] ?? "The provider's model failed."));
    else {
      const sequence = reason === "stop" ? asText(json["stop_reason"]) : undefined;
      choice.finish(reason, ["choices", i, "finish_reason"], sequence);
    }
  }

  private usage(json: JsonObject): void {
    this.used = readUsage(json, this.used);
    const raw = asObject(json["usage"]);
    if (!this.record || !this.used || !raw) return;
    const event: Event = { type: "usage", usage: this.used };
    this.out.push(event);
    // Where a vendor's numbers contradict each other the normal form has corrected them: those stay the frame's.
    for (const [name, value] of Object.entries(writeUsage(this.used))) {
      if (raw[name] === value) this.record.spot(event, name, ["usage", name]);
      for (const [part, count] of Object.entries(asObject(value) ?? {}))
        if (asObject(raw[name])?.[part] === count) this.record.spot(event, part, ["usage", name, part]);
    }
  }
}
