import {
  asCount,
  asList,
  asObject,
  asText,
  type Citation,
  defined,
  type Event,
  GatewayError,
  type JsonObject,
  type Opening,
  RawJson,
  type ResponseSource,
} from "model-gateway/protocol";

type TextKind = "text" | "refusal" | "summary" | "thought";

/** A block, and how much of it has been told. */
interface Piece {
  readonly block: number;
  readonly kind: BlockOf;
  /** Parts that have text already. */
  readonly told: Set<number>;
  /** Annotations seen. */
  cited: number;
  open: boolean;
}
type BlockOf = TextKind | "call" | "server" | "picture";

/** An output item while it comes. A message has a piece for each content part, reasoning for its summary and its text. */
interface Item {
  readonly type: string;
  readonly index: number;
  readonly pieces: Map<number, Piece>;
  done: boolean;
}

/** Items of an answer; one can be added without anything being told of it. */
const MOST_ITEMS = 10_000;

/** Keys of a reasoning item's two pieces. */
const SUMMARY = 0;
const THOUGHT = 1;

const OPENINGS: Readonly<Record<TextKind, Opening>> = {
  text: { kind: "text" },
  refusal: { kind: "refusal" },
  summary: { kind: "reasoning", summary: true },
  thought: { kind: "reasoning" },
};

/** Reads output items, whole or piece by piece, into blocks. Every item may be told twice: what is known is not repeated. */
export class Items {
  /** Whether there was a call that the client has to answer. */
  called = false;
  refused = false;
  private readonly items = new Map<number, Item>();
  private blocks = 0;

  constructor(private readonly source: ResponseSource) {}

  /** An item begins. */
  added(index: number, json: JsonObject, out: Event[]): void {
    if (this.items.has(index)) return;
    const item = this.make(index, asText(json["type"]) ?? "");
    if (isCall(item.type)) this.call(item, json, out);
  }

  /** A text, refusal or reasoning begins, or goes on. `place`: the number of its part in the item. */
  text(index: number, kind: TextKind, place: number, text: string, out: Event[], logprobs?: unknown): void {
    const piece = this.piece(this.items.get(index) ?? this.make(index, typeOf(kind)), kind, place, out);
    if (piece?.open) this.tell(piece, place, text, out, logprobs);
  }

  /** The whole text, for vendors that sent none of it before. */
  wholeText(index: number, kind: TextKind, place: number, text: string, out: Event[], logprobs?: unknown): void {
    const item = this.items.get(index) ?? this.make(index, typeOf(kind));
    const piece = this.piece(item, kind, place, out);
    if (piece?.open && !piece.told.has(partOf(kind, place))) this.tell(piece, place, text, out, logprobs);
  }

  /** A part of a message or of raw reasoning begins or is whole. */
  part(index: number, place: number, json: JsonObject, whole: boolean, out: Event[]): void {
    const kind = KINDS.get(asText(json["type"]));
    if (kind === undefined) {
      if (whole) out.push({ type: "unsaid", path: `output.${index}.content.${place}` });
      return;
    }
    this.wholeText(index, kind, place, asText(json["text"] ?? json["refusal"]) ?? "", out, json["logprobs"]);
    if (kind === "thought") return;
    const piece = this.items.get(index)?.pieces.get(place);
    if (piece === undefined) return;
    for (const each of asList(json["annotations"]).slice(piece.cited)) this.annotation(index, place, each, out);
    if (whole) close(piece, out);
  }

  annotation(index: number, place: number, json: unknown, out: Event[]): void {
    const piece = this.items.get(index)?.pieces.get(place);
    if (piece?.kind !== "text") return;
    const citation = citationOf(asObject(json) ?? {});
    if (citation && piece.open) out.push({ type: "citation", block: piece.block, citation });
    else out.push({ type: "unsaid", path: `output.${index}.content.${place}.annotations.${piece.cited}` });
    piece.cited++;
  }

  /** More of a call's arguments or input. Of a call that was not added they come with its end. */
  arguments(index: number, text: string, out: Event[]): void {
    const piece = this.items.get(index)?.pieces.get(0);
    if (piece?.kind === "call" && piece.open) tellArguments(piece, text, out);
  }

  /** All of a call's arguments or input: nothing follows but the item itself. */
  wholeArguments(index: number, text: string, out: Event[]): void {
    const piece = this.items.get(index)?.pieces.get(0);
    if (piece?.kind !== "call" || !piece.open) return;
    if (!piece.told.has(0)) tellArguments(piece, text, out);
    close(piece, out);
  }

  /** An item is whole. */
  done(index: number, json: JsonObject, out: Event[]): void {
    const item = this.items.get(index) ?? this.make(index, asText(json["type"]) ?? "");
    if (item.done) return;
    if (item.type === "message") this.message(item, json, out);
    else if (item.type === "reasoning") this.reasoning(item, json, out);
    else if (isCall(item.type)) {
      this.call(item, json, out);
      this.wholeArguments(index, argumentsOf(json), out);
    } else if (!this.picture(item, json, out)) {
      const result = item.type.endsWith("_output");
      const { block } = this.open(item, 0, "server", { kind: "server", name: item.type, result }, out);
      out.push({ type: "server", block, json: new RawJson(JSON.stringify(json)) });
    }
    for (const piece of item.pieces.values()) close(piece, out);
    item.done = true;
  }

  /**
   * The answer is whole: tells the items that only the last event holds, and ends those whose end is missing. Ids are
   * no guide, as vendors change them in mid-stream [F: OpenRouter, Copilot]; order and type are.
   */
  rest(output: readonly unknown[], out: Event[]): void {
    const waiting = [...this.items.values()].sort((a, b) => a.index - b.index);
    let free = (waiting.at(-1)?.index ?? -1) + 1;
    let at = 0;
    for (const each of output) {
      const json = asObject(each) ?? {};
      const item = waiting[at]?.type === json["type"] ? waiting[at++] : undefined;
      if (!item?.done) this.done(item?.index ?? free++, json, out);
    }
    for (const item of waiting) if (!item.done) this.done(item.index, { type: item.type }, out);
  }

  /** The blocks of an item, in order; for a part those of that part alone. */
  blocksOf(index: number, place?: number): number[] {
    const pieces = this.items.get(index)?.pieces;
    if (!pieces) return [];
    if (place === undefined) return [...pieces.entries()].sort(([a], [b]) => a - b).map(([, { block }]) => block);
    const piece = pieces.get(place);
    return piece ? [piece.block] : [];
  }

  /** The blocks of each item, in order. */
  all(): number[][] {
    return [...this.items.keys()].sort((a, b) => a - b).map((index) => this.blocksOf(index));
  }

  /** @throws GatewayError when there are too many */
  private make(index: number, type: string): Item {
    if (this.items.size >= MOST_ITEMS)
      throw new GatewayError("upstream_invalid", {
        message: `The provider's answer has more than ${MOST_ITEMS} items.`,
      });
    const item: Item = { type, index, pieces: new Map(), done: false };
    this.items.set(index, item);
    return item;
  }

  private open(item: Item, key: number, kind: BlockOf, opening: Opening, out: Event[]): Piece {
    const piece: Piece = { block: this.blocks++, kind, told: new Set(), cited: 0, open: true };
    item.pieces.set(key, piece);
    out.push({ type: "open", block: piece.block, choice: 0, ...opening });
    return piece;
  }

  private piece(item: Item, kind: TextKind, place: number, out: Event[]): Piece | undefined {
    if (item.done || item.type !== typeOf(kind)) return undefined;
    const key = kind === "summary" ? SUMMARY : kind === "thought" ? THOUGHT : place;
    const known = item.pieces.get(key);
    if (known) return known.kind === kind ? known : undefined;
    if (kind === "refusal") this.refused = true;
    return this.open(item, key, kind, OPENINGS[kind], out);
  }

  private tell(piece: Piece, place: number, text: string, out: Event[], logprobs: unknown): void {
    const likely = asList(logprobs).length > 0;
    if (text === "" && !likely) return;
    const part = partOf(piece.kind, place);
    piece.told.add(part);
    const numbered = piece.kind === "summary" || part > 0 ? { part } : undefined;
    out.push({ type: "text", block: piece.block, text, ...numbered, ...(likely ? { logprobs } : undefined) });
  }

  private message(item: Item, json: JsonObject, out: Event[]): void {
    asList(json["content"]).forEach((each, place) => {
      this.part(item.index, place, asObject(each) ?? {}, true, out);
    });
    // An answer goes on as if it were plain text; that a text only comments on the way has no other word.
    if (json["phase"] === "commentary") out.push({ type: "unsaid", path: `output.${item.index}.phase` });
  }

  private reasoning(item: Item, json: JsonObject, out: Event[]): void {
    const summary = asList(json["summary"]);
    const content = asList(json["content"]);
    const texts = (list: readonly unknown[]) => list.map((each) => asText(asObject(each)?.["text"]) ?? "");
    texts(summary).forEach((text, n) => {
      this.wholeText(item.index, "summary", n, text, out);
    });
    texts(content).forEach((text, n) => {
      this.wholeText(item.index, "thought", n, text, out);
    });
    const encrypted = asText(json["encrypted_content"]);
    if (!encrypted) return;
    const [first] = [...item.pieces.values()].filter(({ open }) => open);
    const opening: Opening = { kind: "reasoning", redacted: true };
    const { block } = first ?? this.open(item, SUMMARY, "summary", opening, out);
    const { account, model } = this.source;
    const extra = defined({
      summary: summary.length > 0 ? texts(summary) : undefined,
      content: content.length > 0 ? texts(content) : undefined,
    });
    const whole = Object.keys(extra).length > 0 ? { extra } : undefined;
    const opaque = { protocol: "openai-responses", account, model, kind: "encrypted", data: encrypted, ...whole };
    out.push({ type: "opaque", block, opaque });
  }

  /** An image that the model made is an answer in every protocol that has images. */
  private picture(item: Item, json: JsonObject, out: Event[]): boolean {
    const base64 = asText(json["result"]);
    if (item.type !== "image_generation_call" || !base64) return false;
    const mime = `image/${asText(json["output_format"]) ?? "png"}`;
    const { block } = this.open(item, 0, "picture", { kind: "media", media: "image", mime }, out);
    out.push({ type: "media", block, base64 });
    return true;
  }

  private call(item: Item, json: JsonObject, out: Event[]): void {
    if (item.pieces.size > 0) return;
    this.called = true;
    const id = asText(json["call_id"]) || asText(json["id"]) || undefined;
    const namespace = asText(json["namespace"]) || undefined;
    const custom = item.type === "custom_tool_call" ? true : undefined;
    const name = asText(json["name"]) ?? "";
    const piece = this.open(item, 0, "call", { kind: "tool_call", name, ...defined({ id, namespace, custom }) }, out);
    tellArguments(piece, argumentsOf(json), out);
  }
}

const KINDS: ReadonlyMap<string | undefined, TextKind> = new Map([
  ["output_text", "text"],
  ["text", "text"],
  ["refusal", "refusal"],
  ["reasoning_text", "thought"],
]);

const isCall = (type: string): boolean => type === "function_call" || type === "custom_tool_call";
const typeOf = (kind: TextKind): string => (kind === "text" || kind === "refusal" ? "message" : "reasoning");
const argumentsOf = (json: JsonObject): string => asText(json["arguments"] ?? json["input"]) ?? "";
/** Parts are counted where one block has several. */
const partOf = (kind: BlockOf, place: number): number => (kind === "summary" || kind === "thought" ? place : 0);

function tellArguments(piece: Piece, text: string, out: Event[]): void {
  if (text === "") return;
  piece.told.add(0);
  out.push({ type: "arguments", block: piece.block, text });
}

function close(piece: Piece, out: Event[]): void {
  if (!piece.open) return;
  piece.open = false;
  out.push({ type: "close", block: piece.block });
}

/** What an annotation names; undefined for a file that has no name. */
function citationOf(json: JsonObject): Citation | undefined {
  const url = asText(json["url"]);
  const title = asText(json["title"]) ?? asText(json["filename"]);
  if (url === undefined && title === undefined) return undefined;
  const start = asCount(json["start_index"] ?? json["index"]);
  const end = asCount(json["end_index"] ?? json["index"]);
  return defined({ url, title, start, end });
}
