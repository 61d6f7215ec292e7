/** The meaning of a request, in a form that is comparable across protocols. */

import type { ToolNameMap } from "../../src/translation/codec.ts";
import type { Conversation, Media, Part, Tool, ToolResult, Turn } from "../../src/translation/conversation.ts";
import type { Feature } from "../../src/translation/features.ts";
import { safeId } from "../../src/translation/ids.ts";
import type { RawJson } from "../../src/wire/exact.ts";

/** One part of a request's meaning, and its place in the client's request. */
export interface Point {
  at: string;
  /** Its kind; texts of one kind in a turn may be split differently. */
  sort: string;
  what: string;
}

const same: Pick<ToolNameMap, "original"> = { original: (name) => ({ name }) };

/** Normalizes JSON text; other text is unchanged. */
function json(text: string): string {
  try {
    return JSON.stringify(JSON.parse(text === "" ? "{}" : text));
  } catch {
    return text;
  }
}

const named = ({ name, namespace }: { name: string; namespace?: string }): string =>
  namespace === undefined ? name : `${namespace}/${name}`;

/** A system message within a conversation: in some protocols it must be sent in the user's role. */
const REMINDER = /^<system-reminder>\n([\s\S]*)\n<\/system-reminder>$/;

/** False for parts that are empty or never sent to another vendor. */
const speaks = (part: Part): boolean =>
  part.kind !== "foreign" && part.kind !== "reasoning" && !(part.kind === "text" && part.text === "");

/** Names of the tier that every provider has unasked: not every one is told it. */
const UNASKED_TIERS: readonly string[] = ["auto", "default", "standard", "standard_only"];
/** Different vendors' values with the same meaning. */
const MIMES: Readonly<Record<string, string>> = {
  "image/jpg": "image/jpeg",
  "audio/mp3": "audio/mpeg",
  "audio/x-wav": "audio/wav",
  "audio/wave": "audio/wav",
};

/** Normalizes a schema of arguments: absent, it is an object without members, and the type "object" may be omitted. */
function schemaOf(schema: RawJson | undefined): string {
  const { $schema: _, ...members } = (schema?.value ?? {}) as Record<string, unknown>;
  const { type = "object", properties = {}, ...more } = members;
  return JSON.stringify({ type, properties, ...more });
}

/** The placeholder in a result for media that follow it. */
const ATTACHED = /(?:^|\n)\[(?:image|file|audio) \d+ attached\](?=\n|$)/g;

/** Returns the text of an error encoded as an object, because its protocol has no mark for errors. */
function failure(text: string): string {
  const told = /^\{"error":"/.test(text) ? (JSON.parse(text) as Record<string, unknown>) : {};
  return typeof told["error"] === "string" && Object.keys(told).length === 1 ? told["error"] : text;
}

class Gist {
  readonly points: Point[] = [];

  constructor(
    private readonly conversation: Conversation,
    private readonly names: Pick<ToolNameMap, "original">,
  ) {}

  say(at: string, sort: string, what: string): void {
    this.points.push({ at, sort, what });
  }

  turns(): void {
    let spoken: Turn["role"] | undefined;
    let turn = 0;
    for (const { role, parts, name, at } of this.conversation.turns) {
      if (!parts.some(speaks)) continue;
      const system = role === "system" || role === "developer";
      // After the first turn, system messages are in the user's role.
      const speaker = system && turn > 0 ? "user" : role;
      if (speaker !== spoken && !(system && turn === 0)) turn++;
      spoken = speaker;
      if (name !== undefined) this.say(at, "setting name", name);
      for (const part of parts) this.part(part, `${turn} ${system ? "system" : role}`, `${turn}`);
    }
  }

  private part(part: Part, speaker: string, turn: string): void {
    switch (part.kind) {
      case "text": {
        const reminder = REMINDER.exec(part.text)?.[1];
        if (part.text !== "")
          this.say(part.at, `text ${reminder === undefined ? speaker : `${turn} system`}`, reminder ?? part.text);
        break;
      }
      case "refusal":
        this.say(part.at, `text ${speaker}`, part.text);
        break;
      case "media":
        this.media(part, turn);
        break;
      case "tool_call": {
        const given = part.custom ? JSON.stringify({ input: part.arguments }) : json(part.arguments);
        this.say(part.at, `call ${turn}`, `${safeId(part.id)} ${named(this.original(part))} ${given}`);
        break;
      }
      case "tool_result":
        this.result(part, turn);
        break;
      // Thoughts and other vendors' blocks are checked by the declared support.
      default:
        break;
    }
    if (part.cache) this.say(part.at, "setting cache_mark", "marked");
  }

  /** Returns a tool's name at its client. Calls in a namespace that the request does not offer have the name only. */
  private original({ name, namespace }: { name: string; namespace?: string }): { name: string; namespace?: string } {
    const original = namespace === undefined ? this.names.original(name) : { name, namespace };
    const { tools } = this.conversation;
    const isListed = tools.some((tool) => "namespace" in tool && tool.namespace === original.namespace);
    return isListed || namespace === undefined ? original : { name };
  }

  private media({ at, source, mime, filename, detail }: Media, turn: string): void {
    const it =
      "base64" in source
        ? source.base64
        : "url" in source
          ? source.url
          : "text" in source
            ? Buffer.from(source.text).toString("base64")
            : source.id;
    this.say(at, `media ${turn}`, it.replace(/^data:[^,]*,/, ""));
    if (filename !== undefined) this.say(at, "setting filename", filename);
    if (detail !== undefined && detail !== "auto") this.say(at, "setting media_detail", detail);
    const type = "base64" in source ? mime : "text" in source ? (mime ?? "text/plain") : undefined;
    if (type !== undefined) this.say(at, "setting mime", MIMES[type] ?? type);
  }

  private result(result: ToolResult, turn: string): void {
    const { at, callId, parts, isError } = result;
    this.say(at, `result ${turn}`, safeId(callId));
    const texts = parts.flatMap((part) => (part.kind === "text" && part.text !== "" ? [part.text] : []));
    for (const text of result.json === undefined ? texts : [result.json]) {
      const told = text.replaceAll(ATTACHED, "");
      if (told !== "") this.say(at, `text ${turn} of ${safeId(callId)}`, json(failure(told)));
    }
    for (const part of parts) {
      if (part.kind === "media") this.media(part, turn);
      if (part.cache) this.say(part.at, "setting cache_mark", "marked");
    }
    if (isError) this.say(at, "setting tool_result_error", safeId(callId));
  }

  tools(): void {
    for (const tool of this.conversation.tools) {
      if (tool.kind === "server") continue;
      if (tool.cache) this.say(tool.at, "setting cache_mark", "marked");
      if (tool.kind === "web_search") this.search(tool);
      else this.tool(tool);
    }
  }

  private search(tool: Tool & { kind: "web_search" }): void {
    this.say(tool.at, "tool search", "web_search");
    const { allowed, blocked, maxUses, size, location } = tool;
    for (const [name, value] of Object.entries({ allowed, blocked, maxUses, size, location }))
      if (value !== undefined) this.say(tool.at, `setting search ${name}`, JSON.stringify(value));
  }

  private tool(tool: Tool & { kind: "function" | "custom" }): void {
    const name = named(this.original(tool));
    this.say(tool.at, "tool", name);
    if (tool.description) this.say(tool.at, "tool told", `${name} ${tool.description}`);
    if (tool.kind === "custom") return;
    this.say(tool.at, "setting tools_strict", `${name} ${tool.strict === true}`);
    this.say(tool.at, "tool schema", `${name} ${schemaOf(tool.parameters)}`);
  }

  /** Adds a setting, at the place of one of its features. */
  private setting(value: unknown, ...features: Feature[]): void {
    if (value === undefined) return;
    const found = this.conversation.uses.find(({ feature }) => features.includes(feature));
    const [feature = ""] = features;
    this.say(found?.path ?? feature, `setting ${feature}`, JSON.stringify(value));
  }

  settings(): void {
    const { conversation: asked } = this;
    const { format, reasoning } = asked;
    this.choice();
    this.setting(asked.parallel === false ? true : undefined, "parallel_off");
    this.setting(asked.temperature, "temperature");
    this.setting(asked.topP, "top_p");
    this.setting(asked.topK, "top_k");
    this.setting(asked.frequencyPenalty || undefined, "penalties");
    this.setting(asked.presencePenalty || undefined, "penalties");
    this.setting(asked.seed, "seed");
    this.setting((asked.choices ?? 1) > 1 ? asked.choices : undefined, "choices");
    this.setting(asked.maxTokens, "max_tokens");
    for (const each of asked.stop ?? []) this.setting(each, "stop");
    this.setting(reasoning?.effort, "reasoning_effort");
    this.setting(
      reasoning?.effort === undefined ? reasoning?.budget : undefined,
      "reasoning_budget",
      "reasoning_effort",
    );
    this.setting(reasoning?.show || undefined, "reasoning_summary", "reasoning_effort");
    this.setting(format?.kind === "json" ? true : undefined, "json_object");
    this.setting(format?.schema && schemaOf(format.schema), "json_schema");
    this.setting(format?.description, "json_schema");
    this.setting(format?.strict || undefined, "json_schema_strict");
    this.setting(asked.logprobs, "logprobs");
    this.setting(asked.verbosity, "verbosity");
    this.setting(asked.cacheKey, "cache_key");
    this.setting(asked.cacheRetention, "cache_retention");
    this.setting(asked.moderation, "moderation");
    this.setting(asked.cache && "whole", "cache_mark");
    this.setting(asked.user, "user");
    this.setting(asked.tier && UNASKED_TIERS.includes(asked.tier) ? undefined : asked.tier, "tier");
    this.setting(asked.modalities?.filter((each) => each !== "text").toString() || undefined, "image_out");
    this.setting(asked.image?.aspect, "image_out");
    this.setting(asked.image?.size, "image_out");
    for (const [name, value] of Object.entries(asked.metadata ?? {})) this.setting([name, value], "metadata");
    this.setting(asked.store || undefined, "store");
    this.say("stream", "setting stream", String(asked.stream));
  }

  private choice(): void {
    const { toolChoice, tools } = this.conversation;
    const idle = !tools.some(({ kind }) => kind === "function" || kind === "custom");
    if (!toolChoice || toolChoice.mode === "auto" || (toolChoice.mode === "none" && idle)) return;
    const name = (fitted: string) => named(this.original({ name: fitted }));
    const told =
      toolChoice.mode === "named"
        ? name(toolChoice.name)
        : toolChoice.mode === "allowed"
          ? [toolChoice.required, ...toolChoice.names.map(name)]
          : toolChoice.mode;
    this.setting(told, "tool_choice", "tool_choice_allowed");
  }
}

/**
 * Returns everything in a request that must reach the model, one point each.
 * @param names the client's names of tools, for a request that a gateway wrote
 */
export function gist(conversation: Conversation, names: Pick<ToolNameMap, "original"> = same): Point[] {
  const gist = new Gist(conversation, names);
  gist.turns();
  gist.tools();
  gist.settings();
  return gist.points;
}

/** The differences between a request and its translation. */
export interface Difference {
  /** Points of the client that are missing in the translation. */
  lost: Point[];
  /** Points of the translation that are not the client's. */
  added: Point[];
  /** Sorts of points that are all present, but in another order. */
  moved: string[];
}

const bare = (points: readonly Point[]): string => points.map(({ what }) => what.replaceAll(/\s+/g, "")).join("");

/** Returns the sorts whose points are in another order. Results are matched by their call. */
function moved(asked: readonly Point[], written: readonly Point[]): string[] {
  const sorts = new Set(asked.filter(({ sort }) => /^(?:text|call|tool)\b/.test(sort)).map(({ sort }) => sort));
  const of = (points: readonly Point[], sort: string) =>
    points.filter((point) => point.sort === sort).map(({ what }) => what);
  return [...sorts].filter((sort) => {
    const [was, is] = [of(asked, sort), of(written, sort)];
    const ordered = (texts: readonly string[]) => JSON.stringify(texts);
    return ordered(was) !== ordered(is) && ordered(was.toSorted()) === ordered(is.toSorted());
  });
}

/** Compares two gists. Texts of one speaker in one turn are compared after concatenation. */
export function difference(asked: readonly Point[], written: readonly Point[]): Difference {
  const key = ({ sort, what }: Point) => `${sort}\0${what}`;
  const found = new Map<string, Point[]>();
  for (const point of written) found.set(key(point), [...(found.get(key(point)) ?? []), point]);
  const lost = asked.filter((point) => found.get(key(point))?.shift() === undefined);
  const added = [...found.values()].flat();
  const joined = new Set(lost.filter(({ sort }) => sort.startsWith("text ")).map(({ sort }) => sort));
  for (const sort of joined) {
    const of = (points: readonly Point[]) => points.filter((point) => point.sort === sort);
    if (bare(of(lost)) !== bare(of(added))) joined.delete(sort);
  }
  const differs = ({ sort }: Point) => !joined.has(sort);
  return { lost: lost.filter(differs), added: added.filter(differs), moved: moved(asked, written) };
}
