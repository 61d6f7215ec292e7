/** Whether a request that was written for another vendor says all that its client said, or the loss is declared. */

import { isUtf8 } from "node:buffer";
import { type TranslatedProtocol } from "../../src/translation/codec.ts";
import type { Conversation, Part } from "../../src/translation/conversation.ts";
import { type Feature, supportOf } from "../../src/translation/features.ts";
import type { Losses } from "../../src/translation/losses.ts";
import type { ToolNames } from "../../src/translation/names.ts";
import { difference, gist, type Point } from "../support/gist.ts";
import { SPOKEN } from "../support/translations.ts";
import type { ProtocolName } from "../support/vendor-sdks.ts";

/** A request as it was written, and what was declared on the way. */
interface Written {
  target: ProtocolName;
  names: ToolNames;
  losses: Losses;
  /** JSON text. */
  body: string;
}

/** Another form of the same thing, which needs no declaration. */
interface Form {
  /** Where it is that form; absent: everywhere. */
  targets: readonly ProtocolName[];
  sort: RegExp;
  /** What the point says; absent: anything. */
  what?: RegExp;
  /** Only where the written request holds this. */
  body?: RegExp;
  why: string;
}

const OPENAI = ["openai-chat", "openai-responses"] as const;
const MODE = /"functionCallingConfig":\{"mode":"(?:VALIDATED|ANY|NONE)"/;

/** Points of the client that are said in another form. */
const SAID_OTHERWISE: readonly Form[] = [
  { targets: OPENAI, sort: /tool_result_error$/, why: "the text of the result says that it is an error" },
  { targets: ["gemini"], sort: /tools_strict$/, body: MODE, why: "the mode holds arguments to their schemas" },
  {
    targets: ["anthropic-messages", "gemini"],
    sort: /json_schema_strict$/,
    why: "answers are always held to their schema",
  },
  {
    targets: [...OPENAI, "gemini"],
    sort: /reasoning_budget$/,
    what: /^-1$/,
    why: "the model decides how much to think, as it does unasked",
  },
  { targets: OPENAI, sort: /cache_mark$/, what: /^"whole"$/, why: "the vendor marks the whole prompt unasked" },
];

/** Points of the written request that nobody said. */
const MADE: readonly Form[] = [
  { targets: ["anthropic-messages"], sort: /max_tokens$/, why: "the vendor insists on it" },
  { targets: OPENAI, sort: /filename$/, what: /^file\.\w+$/, why: "the vendor wants a name beside a file's bytes" },
  { targets: ["openai-responses"], sort: /mime$/, what: /^application\/octet-stream$/, why: "a type must be told" },
  { targets: ["gemini"], sort: /tools_strict$/, what: / false$/, body: MODE, why: "the mode holds all or none" },
  {
    targets: ["openai-responses"],
    sort: /json_schema_strict$/,
    what: /^true$/,
    why: "the client's vendor always holds answers to their schema",
  },
  { targets: ["gemini"], sort: /reasoning_summary$/, why: "who asks for thinking is shown the thoughts" },
  { targets: ["anthropic-messages"], sort: /reasoning_budget$/, what: /^-1$/, why: "only who thinks shows thoughts" },
];

/** Features that the gist compares by their values. */
const COMPARED: ReadonlySet<Feature> = new Set<Feature>([
  ..."system_in_place name image_base64 image_url file_base64 file_url file_text file_id audio video".split(" "),
  ..."media_detail image_out tools tools_strict tools_custom tools_namespace web_search tool_choice".split(" "),
  ..."tool_choice_allowed parallel_off tool_result_media tool_result_error reasoning_effort reasoning_budget".split(
    " ",
  ),
  ..."reasoning_summary json_object json_schema json_schema_strict stop max_tokens temperature top_p top_k".split(" "),
  ..."penalties choices logprobs seed verbosity cache_mark cache_key cache_retention moderation user metadata tier store".split(
    " ",
  ),
] as Feature[]);

const isForm = (forms: readonly Form[], { sort, what }: Point, { target, body }: Written): boolean =>
  forms.some(
    (form) =>
      form.targets.includes(target) &&
      form.sort.test(sort) &&
      (form.what?.test(what) ?? true) &&
      (form.body?.test(body) ?? true),
  );

const below = (path: string, whole: string): boolean => path === whole || path.startsWith(`${whole}.`);
const isSetting = ({ sort }: Point): boolean => sort.startsWith("setting ");
/** The kind of a point, whatever its turn. */
const kind = ({ sort }: Point): string => sort.replace(/ \d+/, "").replace(/ of .*/, "");
const THINKING = /^setting reasoning_/;

/**
 * What the client said and what was written neither says nor declares to be left out or changed; and what was written
 * and nobody said.
 */
export function undeclared(asked: Conversation, back: Conversation, written: Written): string[] {
  const said = hasTextFile(back) ? asked : withTextFilesAsText(asked);
  const { lost, added, moved } = difference(gist(said), gist(withoutBlankTurn(back, asked), written.names));
  const declared = new Declared(asked, written.losses);
  const silent = lost.filter(
    (point) => !isForm(SAID_OTHERWISE, point, written) && !declared.covers(point, added, asked, written.target),
  );
  const changed = new Set(lost.filter((point) => !silent.includes(point)).map(kind));
  const thought = lost.some(
    (point) => THINKING.test(point.sort) && declared.covers(point, added, asked, written.target),
  );
  const invented = added.filter(
    (point) => !isForm(MADE, point, written) && !changed.has(kind(point)) && !(thought && THINKING.test(point.sort)),
  );
  return [
    ...silent.map(({ at, sort, what }) => `lost ${at}: ${sort} ${what.slice(0, 100)}`),
    ...invented.map(({ sort, what }) => `made up: ${sort} ${what.slice(0, 100)}`),
    ...moved.map((sort) => `puts ${sort} in another order`),
    ...declared.unsaid(back, written.target),
  ];
}

/** The same without the blank turn that Gemini needs in front of a call: a conversation that begins with it says nothing else. */
function withoutBlankTurn(back: Conversation, { turns: asked }: Conversation): Conversation {
  const at = back.turns.findIndex(({ role }) => role !== "system");
  const [part, ...others] = back.turns[at]?.parts ?? [];
  const isBlank = part?.kind === "text" && part.text === " " && others.length === 0;
  if (!isBlank || asked.find(({ role }) => role !== "system")?.role !== "assistant") return back;
  return { ...back, turns: back.turns.toSpliced(at, 1) };
}

/** The text of a file that is one, below its name. */
function textIn(part: Part): string | undefined {
  if (part.kind !== "media" || part.media !== "file") return undefined;
  const { source, mime = "", filename } = part;
  const bytes = "base64" in source && mime.startsWith("text/") ? Buffer.from(source.base64, "base64") : undefined;
  const text = "text" in source ? source.text : bytes && isUtf8(bytes) ? `${bytes}` : undefined;
  return text === undefined || filename === undefined ? text : `${filename}\n\n${text}`;
}

function hasTextFile({ turns }: Conversation): boolean {
  const isOne = (part: Part): boolean =>
    part.kind === "tool_result" ? part.parts.some(isOne) : textIn(part) !== undefined;
  return turns.some(({ parts }) => parts.some(isOne));
}

/** The same with text files as texts: Chat takes no other files than PDF, and imitations of the other protocols hardly any. */
function withTextFilesAsText(asked: Conversation): Conversation {
  const partOf = (part: Part): Part => {
    if (part.kind === "tool_result") return { ...part, parts: part.parts.map(partOf) };
    const text = textIn(part);
    return text === undefined
      ? part
      : { kind: "text", at: part.at, text, ...(part.cache ? { cache: part.cache } : {}) };
  };
  return { ...asked, turns: asked.turns.map((turn) => ({ ...turn, parts: turn.parts.map(partOf) })) };
}

/** What was declared of one request. */
class Declared {
  private readonly paths: readonly string[];
  /** Told once for all, without places. */
  private readonly thoughts: boolean;

  constructor(
    private readonly asked: Conversation,
    { dropped, notices }: Losses,
  ) {
    this.paths = [...dropped, ...notices.map((notice) => notice.split(": ", 1)[0] as string)];
    this.thoughts = notices.some((notice) => notice.startsWith("Reasoning that another provider made"));
  }

  /**
   * Whether the loss of a point is declared. What is said and what tools there are may change their form when that is
   * declared, but not go: but for a search where the model has none, and for the tools that may not be called, where a choice
   * among some has to be told so.
   */
  covers(point: Point, added: readonly Point[], asked: Conversation, target: ProtocolName): boolean {
    const { at } = point;
    if (isSetting(point)) {
      if (THINKING.test(point.sort) && this.thinking()) return true;
      return this.paths.some((path) => below(at, path) || below(path, at));
    }
    if (!this.paths.some((path) => below(at, path) || (point.sort === "tool schema" && below(path, at)))) return false;
    const left = target === "anthropic-messages" && asked.toolChoice?.mode === "allowed";
    // Only few models of Chat search the web, and of Messages the vendor's own.
    const unsearched = /^(?:openai-chat|anthropic-messages)$/.test(target) && point.sort === "tool search";
    return unsearched || added.some((each) => kind(each) === kind(point)) || (left && point.sort.startsWith("tool"));
  }

  /** Whether something was said of the wish to think: that it is given up, or asked for in another way. */
  private thinking(): boolean {
    const wishes = this.asked.uses.filter(({ feature }) => /^reasoning_(?:effort|budget|summary)$/.test(feature));
    return wishes.some(({ path }) => this.paths.includes(path));
  }

  /** Features that the target's table takes over, and that what was written neither has nor declares. */
  unsaid(back: Conversation, target: ProtocolName): string[] {
    const { support } = (SPOKEN[target] as TranslatedProtocol).translation.request;
    const found = new Set(back.uses.map(({ feature }) => feature));
    return this.asked.uses
      .filter(({ feature, path }) => {
        if (COMPARED.has(feature) || found.has(feature) || supportOf(support, feature).support !== "mapped")
          return false;
        if (feature === "reasoning_text" && this.thoughts) return false;
        return !this.paths.some((each) => below(path, each) || below(each, path));
      })
      .map(({ feature, path }) => `says nothing of ${feature} at ${path}`);
  }
}

/** Those of some paths that lead nowhere in a client's body. */
export function unplaced(paths: readonly string[], text: string): string[] {
  const body = JSON.parse(text) as unknown;
  return paths.filter((path) => {
    if (/ /.test(path)) return false;
    let at = body;
    for (const step of path.split(".")) {
      if (typeof at !== "object" || at === null || !(step in at)) return true;
      at = (at as Record<string, unknown>)[step];
    }
    return false;
  });
}
