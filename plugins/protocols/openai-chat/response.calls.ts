import { asObject, asText, type Event, type JsonObject } from "model-gateway/protocol";
import { type Path, type Reading, stateFrom } from "./response.reading.ts";

/** Types of calls; some vendors leave the type out, or empty. */
const KINDS: ReadonlySet<unknown> = new Set(["function", "custom", "", null, undefined]);

interface Call {
  block: number;
  id: string;
  /** Whether it opened with state of its vendor's. */
  stated: boolean;
}

/** An entry of `tool_calls`, and where its pieces stand in the frame. */
interface Entry {
  entry: JsonObject;
  inner: JsonObject;
  custom: boolean;
  at: Path;
  innerAt: Path;
}

/** The tool calls of one choice. They may grow in turn, so all stay open until the choice ends. */
export class Calls {
  /** By the vendor's index. */
  private readonly byIndex = new Map<number, Call>();
  /** By the vendor's id; of several with one id the first. */
  private readonly byId = new Map<string, Call>();
  private readonly all: Call[] = [];
  private last = -1;

  constructor(
    private readonly reading: Reading,
    private readonly choice: number,
  ) {}

  get any(): boolean {
    return this.all.length > 0;
  }

  /** Entries of `tool_calls`, of a delta or of a whole message. */
  read(list: readonly unknown[], at: Path): void {
    for (const [n, value] of list.entries()) {
      const entry = asObject(value);
      if (!entry) {
        this.reading.lose("tool_calls");
        continue;
      }
      // Recorded from Snowflake: a function's call with an empty `custom` beside it.
      const custom =
        entry["type"] === "custom" || (!asObject(entry["function"]) && asObject(entry["custom"]) !== undefined);
      const kind = custom ? "custom" : "function";
      const inner = asObject(entry[kind]) ?? {};
      if (!KINDS.has(entry["type"]) && !entry[kind]) {
        const type = asText(entry["type"]);
        this.reading.lose(type === undefined ? "tool_calls" : `tool_calls.${type}`);
        continue;
      }
      const path = [...at, "tool_calls", n];
      const piece: Entry = { entry, inner, custom, at: path, innerAt: [...path, kind] };
      const known = this.known(entry, inner);
      if (known && !known.stated && entry["extra_content"]) this.reading.lose("tool_calls.extra_content");
      this.grow(known ?? this.open(piece), piece);
    }
  }

  /** The call of the older `function_call`. An empty one is none: Snowflake sends it with every answer. */
  legacy(value: unknown, at: Path): void {
    const path = [...at, "function_call"];
    const inner = asObject(value) ?? {};
    if (this.all.length === 0 && !asText(inner["name"])) return;
    const piece: Entry = { entry: {}, inner, custom: false, at: path, innerAt: path };
    this.grow(this.all[0] ?? this.open(piece), piece);
  }

  close(): void {
    for (const { block } of this.all) this.reading.out.push({ type: "close", block });
  }

  /**
   * The call that an entry continues. Mistral gives no index; others repeat the id, or send an empty one, with each piece;
   * Google's compatible API has given every call the index 0.
   */
  private known(entry: JsonObject, inner: JsonObject): Call | undefined {
    const id = asText(entry["id"]) ?? "";
    const name = asText(inner["name"]) ?? "";
    const index = entry["index"];
    if (typeof index === "number") {
      const call = this.byIndex.get(index);
      const another = call !== undefined && id !== "" && call.id !== "" && call.id !== id && name !== "";
      return another ? undefined : call;
    }
    if (id !== "") return this.byId.get(id);
    return name === "" ? this.all.at(-1) : undefined;
  }

  private open({ entry, inner, custom, at, innerAt }: Entry): Call {
    const { out, record, source } = this.reading;
    const id = asText(entry["id"]) ?? "";
    const index = typeof entry["index"] === "number" ? entry["index"] : this.last + 1;
    this.last = Math.max(this.last, index);
    const extra = asObject(entry["extra_content"]);
    const block = this.reading.next();
    const event: Event = {
      type: "open",
      block,
      choice: this.choice,
      kind: "tool_call",
      name: asText(inner["name"]) ?? "",
      ...(id === "" ? {} : { id }),
      ...(custom ? { custom: true } : {}),
      ...(extra ? { opaque: stateFrom(source, "extra_content", JSON.stringify(extra)) } : {}),
    };
    out.push(event);
    const call = { block, id, stated: extra !== undefined };
    this.byIndex.set(index, call);
    if (!this.byId.has(id)) this.byId.set(id, call);
    this.all.push(call);
    if (record) {
      record.spot(event, "name", [...innerAt, "name"]);
      if (id !== "") record.spot(event, "id", [...at, "id"]);
      if (entry["type"] === "function" || entry["type"] === "custom") record.spot(event, "type", [...at, "type"]);
      if (extra) record.spot(event, "opaque", [...at, "extra_content"]);
    }
    return call;
  }

  private grow({ block }: Call, { inner, custom, innerAt }: Entry): void {
    const member = custom ? "input" : "arguments";
    const value = inner[member];
    // Some vendors send the object itself.
    const json = typeof value === "object" && value !== null;
    const text = json ? JSON.stringify(value) : value;
    if (typeof text !== "string") {
      if (text !== undefined && text !== null) this.reading.lose(`tool_calls.${member}`);
      return;
    }
    if (text === "") return;
    const event: Event = { type: "arguments", block, text };
    this.reading.out.push(event);
    if (!json) this.reading.record?.spot(event, "text", [...innerAt, member]);
  }
}
