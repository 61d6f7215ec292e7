import { asObject, asText, type Event, type JsonObject, type ResponseSource } from "model-gateway/protocol";
import { ObjectText } from "./response.decode.object-text.ts";
import { createOpaque } from "./wire.ts";

/** Types of tool calls; some vendors omit the type or leave it empty. */
const KINDS: ReadonlySet<unknown> = new Set(["function", "custom", "", null, undefined]);

interface OpenCall {
  /** Undefined until its name is known, which some servers send behind its id. */
  block: number | undefined;
  id: string;
  name: string;
  custom: boolean;
  /** Its arguments, as far as they tell where it ends: where it or the next one has no id, only they do. */
  extent: ObjectText | undefined;
  /** Whether it repeats the name of the call before it: without arguments it is only that call's last piece. */
  repeats: boolean;
  /** Its vendor's opaque state, as text, with which it opens. */
  state: string | undefined;
  /** Arguments before its name. */
  pending: string;
}

/** An entry of `tool_calls`, or the older `function_call`. */
interface CallEntry {
  entry: JsonObject;
  /** Its member `function` or `custom`. */
  inner: JsonObject;
  custom: boolean;
}

/** The response whose calls are read. */
interface CallOutput {
  readonly out: Event[];
  readonly source: ResponseSource;
  /** Bytes of state and of what waits for its name. */
  stateSize: number;
  nextBlock(): number;
  reportUnmapped(path: string): void;
}

/** Decodes the tool calls of one choice. Their pieces may alternate, so that all stay open until the choice ends. */
export class CallReader {
  /** By the vendor's index. */
  private readonly byIndex = new Map<number, OpenCall>();
  /** By the vendor's id; the first of several with one id. */
  private readonly byId = new Map<string, OpenCall>();
  private readonly all: OpenCall[] = [];
  private lastIndex = -1;

  constructor(
    private readonly completion: CallOutput,
    private readonly choice: number,
  ) {}

  get hasCalls(): boolean {
    return this.all.length > 0;
  }

  /** Decodes the entries of `tool_calls` in a delta or a complete message, where each is a call, also with another's id. */
  read(list: readonly unknown[], isComplete: boolean): void {
    for (const value of list) {
      const entry = asObject(value);
      if (!entry) {
        this.completion.reportUnmapped("tool_calls");
        continue;
      }
      // Recorded from Snowflake: a function call with an empty `custom` beside it.
      const custom =
        entry["type"] === "custom" || (!asObject(entry["function"]) && asObject(entry["custom"]) !== undefined);
      const kind = custom ? "custom" : "function";
      const inner = asObject(entry[kind]) ?? {};
      if (!KINDS.has(entry["type"]) && !entry[kind]) {
        const type = asText(entry["type"]);
        this.completion.reportUnmapped(type === undefined ? "tool_calls" : `tool_calls.${type}`);
        continue;
      }
      const call = isComplete ? undefined : this.findCall(entry, inner);
      if (call?.block !== undefined && call.state === undefined && entry["extra_content"])
        this.completion.reportUnmapped("tool_calls.extra_content");
      const piece: CallEntry = { entry, inner, custom };
      const continued = call ?? this.addCall(piece, isComplete);
      this.append(continued, piece);
      // Its name cannot come later, and it stays in front of the next call.
      if (isComplete && continued.block === undefined) this.open(continued);
    }
  }

  /** Decodes the older `function_call`. Snowflake sends an empty one with every response, which is ignored. */
  legacy(value: unknown): void {
    const inner = asObject(value) ?? {};
    if (this.all.length === 0 && !asText(inner["name"])) return;
    const piece: CallEntry = { entry: {}, inner, custom: false };
    this.append(this.all[0] ?? this.addCall(piece, false), piece);
  }

  close(): void {
    for (const call of this.all)
      if (call.block !== undefined || !call.repeats)
        this.completion.out.push({ type: "close", block: call.block ?? this.open(call) });
  }

  /**
   * Returns the call that an entry continues. Mistral sends no index; others repeat the id with each piece, or send an empty
   * one; Google's compatible API has sent the index 0 for every call, also without ids.
   */
  private findCall(entry: JsonObject, inner: JsonObject): OpenCall | undefined {
    const id = asText(entry["id"]) ?? "";
    const name = asText(inner["name"]) ?? "";
    const index = entry["index"];
    if (typeof index === "number") {
      const call = this.byIndex.get(index);
      return call && name !== "" && isAnotherCall(call, id, name) ? undefined : call;
    }
    if (id !== "") return this.byId.get(id);
    return name === "" ? this.all.at(-1) : undefined;
  }

  private addCall({ entry, inner, custom }: CallEntry, isComplete: boolean): OpenCall {
    const id = asText(entry["id"]) ?? "";
    const index = typeof entry["index"] === "number" ? entry["index"] : this.lastIndex + 1;
    this.lastIndex = Math.max(this.lastIndex, index);
    const extent = custom ? undefined : new ObjectText();
    const before = isComplete || custom ? undefined : this.byIndex.get(index);
    const repeats = before !== undefined && (id === "" || before.id === "") && before.name === (inner["name"] ?? "");
    const call: OpenCall = { block: undefined, id, name: "", custom, extent, repeats, state: undefined, pending: "" };
    this.byIndex.set(index, call);
    if (!this.byId.has(id)) this.byId.set(id, call);
    this.all.push(call);
    return call;
  }

  /** Opens a call's block, and returns its number. */
  private open(call: OpenCall): number {
    const { out, source } = this.completion;
    const { id, name, custom, state, pending } = call;
    const block = this.completion.nextBlock();
    call.block = block;
    out.push({
      type: "open",
      block,
      choice: this.choice,
      kind: "tool_call",
      name,
      ...(id === "" ? {} : { id }),
      ...(custom ? { custom: true } : {}),
      ...(state === undefined ? {} : { opaque: createOpaque("extra_content", state, source) }),
    });
    if (pending !== "") out.push({ type: "arguments", block, text: pending });
    call.pending = "";
    return block;
  }

  private append(call: OpenCall, { entry, inner, custom }: CallEntry): void {
    if (call.block === undefined) {
      const extra = asObject(entry["extra_content"]);
      if (extra) call.state = JSON.stringify(extra);
    }
    call.id ||= asText(entry["id"]) ?? "";
    call.name ||= asText(inner["name"]) ?? "";
    const member = custom ? "input" : "arguments";
    const value = inner[member];
    if (call.block === undefined && call.name !== "" && !(call.repeats && isBlank(value))) this.open(call);
    // Some vendors send an object instead of its text.
    const isJson = typeof value === "object" && value !== null;
    const text = isJson ? JSON.stringify(value) : value;
    if (typeof text !== "string") {
      if (text !== undefined && text !== null) this.completion.reportUnmapped(`tool_calls.${member}`);
      return;
    }
    if (text === "") return;
    call.extent?.add(text);
    if (call.block === undefined) {
      call.pending += text;
      this.completion.stateSize += text.length;
    } else this.completion.out.push({ type: "arguments", block: call.block, text });
  }
}

const isBlank = (value: unknown): boolean => !value || (typeof value === "string" && value.trim() === "");

/** Reports whether a named entry with the index of a call is another one: some servers repeat a call's name with each piece. */
function isAnotherCall(call: OpenCall, id: string, name: string): boolean {
  if (id !== "" && call.id !== "") return call.id !== id;
  return call.name !== "" && (call.name !== name || call.extent?.complete === true);
}
