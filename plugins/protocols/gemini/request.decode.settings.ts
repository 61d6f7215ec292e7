import {
  type Conversation,
  defined,
  type Effort,
  entryOf,
  type Feature,
  type Format,
  type Part,
  RawJson,
  type ReasoningConfig,
  type Turn,
} from "model-gateway/protocol";
import { readSchema } from "./request.decode.tools.ts";
import { type Members, spelledBoth, wrong } from "./request.members.ts";
import { type NativeRequest, type Reading, say } from "./request.native.ts";
import { plainSchema } from "./schema.ts";

type Settings = Partial<Conversation>;

/** Numbers that mean the same in the vocabulary. */
const NUMBERS = [
  ["temperature", "temperature", "temperature"],
  ["topP", "topP", "top_p"],
  ["topK", "topK", "top_k"],
  ["candidateCount", "choices", "choices"],
  ["maxOutputTokens", "maxTokens", "max_tokens"],
  ["presencePenalty", "presencePenalty", "penalties"],
  ["frequencyPenalty", "frequencyPenalty", "penalties"],
] as const satisfies readonly (readonly [member: string, setting: keyof Conversation, feature: Feature])[];

/** What the vocabulary has no word for, or says elsewhere. */
const LEFT = spelledBoth<Feature>({
  speechConfig: "audio_out",
  imageConfig: "image_out",
  mediaResolution: "media_detail",
  responseModalities: "cosmetic",
  responseLogprobs: "cosmetic",
});

const EFFORTS: Readonly<Record<string, Effort>> = { MINIMAL: "minimal", LOW: "low", MEDIUM: "medium", HIGH: "high" };

/** Reads `generationConfig`. `turns` get its resolution of media, where they name none. */
export function readConfig(
  request: Members,
  turns: readonly Turn[],
  reading: Reading,
  native: NativeRequest,
): Settings {
  const config = request.object("generationConfig");
  if (!config) return {};
  const settings: Settings = {};
  for (const [member, setting, feature] of NUMBERS) {
    const value = config.number(member);
    if (value === undefined) continue;
    settings[setting] = value;
    say(reading, feature, config.path(member));
  }
  const read = {
    ...settings,
    ...readSeed(config, reading),
    ...readStop(config, reading),
    ...readLogprobs(config, reading),
    ...readModalities(config, reading),
    ...readFormat(config, reading, native),
    ...readThinking(config, reading, native),
  };
  readResolution(config, turns);
  for (const name of config.left()) say(reading, entryOf(LEFT, name) ?? "other", `${config.at}.${name}`);
  native.config = config.form();
  return read;
}

function readSeed(config: Members, reading: Reading): Settings {
  const value = config.get("seed");
  if (value === undefined) return {};
  say(reading, "seed", config.path("seed"));
  const seed = value instanceof RawJson ? value : config.number("seed");
  return defined({ seed });
}

function readStop(config: Members, reading: Reading): Settings {
  const stop = config.texts("stopSequences");
  if (stop && stop.length > 0) say(reading, "stop", config.path("stopSequences"));
  return defined({ stop });
}

/** `logprobs` is how many alternatives; `responseLogprobs` whether any are wanted. */
function readLogprobs(config: Members, reading: Reading): Settings {
  const wanted = config.flag("responseLogprobs");
  const many = config.number("logprobs");
  if (wanted !== true) {
    config.keep("responseLogprobs");
    config.keep("logprobs");
    return {};
  }
  say(reading, "logprobs", config.path("responseLogprobs"));
  return { logprobs: many ?? 0 };
}

const MODALITIES: ReadonlySet<string> = new Set(["text", "image", "audio"]);

/** Text alone is what every model answers in. */
function readModalities(config: Members, reading: Reading): Settings {
  const names = config.texts("responseModalities");
  if (!names) return {};
  const modalities = names.map((name) => name.toLowerCase());
  if (modalities.every((name) => name === "text")) {
    config.keep("responseModalities");
    return {};
  }
  config.respell("responseModalities");
  if (modalities.includes("audio")) say(reading, "audio_out", config.path("responseModalities"));
  if (modalities.includes("image")) say(reading, "image_out", config.path("responseModalities"));
  if (modalities.some((name) => !MODALITIES.has(name))) say(reading, "other", config.path("responseModalities"));
  return { modalities };
}

function readFormat(config: Members, reading: Reading, native: NativeRequest): Settings {
  const mime = config.text("responseMimeType");
  const { read, schema } = readSchema(config, "responseSchema", "responseJsonSchema");
  if (schema) native.schema = schema;
  const path = config.path(config.has("responseJsonSchema") ? "responseJsonSchema" : "responseSchema");
  if (mime !== undefined && mime !== "application/json" && mime !== "text/plain") {
    for (const name of ["responseMimeType", "responseSchema", "responseJsonSchema"]) config.keep(name);
    return {};
  }
  if (read && mime === "text/plain") config.keep("responseMimeType");
  const format: Format = read
    ? { kind: "schema", schema: read }
    : { kind: mime === "application/json" ? "json" : "text" };
  if (read) say(reading, "json_schema", path);
  else if (format.kind === "json") say(reading, "json_object", config.path("responseMimeType"));
  if (read || mime !== undefined) return { format };
  return readFormats(config, reading);
}

/** The list that newer clients say the same in, an entry for each kind of output. [S: genai 3] Equals get it as it came. */
function readFormats(config: Members, reading: Reading): Settings {
  if (reading.asked.native) return {};
  let format: Format | undefined;
  for (const entry of config.list("responseFormat") ?? []) {
    format = readTextFormat(entry, reading) ?? format;
    for (const name of entry.left()) say(reading, entryOf(OUTPUTS, name) ?? "other", `${entry.at}.${name}`);
  }
  return defined({ format });
}

const OUTPUTS: Readonly<Record<string, Feature>> = { audio: "audio_out", image: "image_out" };

function readTextFormat(entry: Members, reading: Reading): Format | undefined {
  const text = entry.object("text");
  if (!text) return undefined;
  const schema = text.raw("schema");
  const mime = text.text("mimeType")?.toLowerCase().replace("_", "/") ?? "text/plain";
  const json = mime === "application/json";
  if (!json && mime !== "text/plain") text.keep("mimeType");
  if (schema) say(reading, "json_schema", text.path("schema"));
  else if (json) say(reading, "json_object", text.path("mimeType"));
  for (const name of text.left()) say(reading, "other", `${text.at}.${name}`);
  if (schema) return { kind: "schema", schema: plainSchema(schema) };
  return { kind: json ? "json" : "text" };
}

/** A budget or a level, not both. An unspecified level says nothing; clients send it beside a budget. [F] */
function readThinking(config: Members, reading: Reading, native: NativeRequest): Settings {
  const thinking = config.object("thinkingConfig");
  if (!thinking) return {};
  const show = thinking.flag("includeThoughts");
  const budget = thinking.number("thinkingBudget");
  const level = thinking.word("thinkingLevel");
  const effort = level === undefined ? undefined : readLevel(level, budget !== undefined, thinking, reading);
  if (show !== undefined) say(reading, "reasoning_summary", thinking.path("includeThoughts"));
  if (budget !== undefined) say(reading, "reasoning_budget", thinking.path("thinkingBudget"));
  if (level !== undefined) say(reading, "reasoning_effort", thinking.path("thinkingLevel"));
  for (const name of thinking.left())
    say(reading, /level/i.test(name) ? "cosmetic" : "other", `${thinking.at}.${name}`);
  // Thoughts are only shown to who asks for them.
  const shown = show ?? (budget === undefined && effort === undefined ? undefined : false);
  const reasoning: ReasoningConfig = {
    ...defined({ show: shown, budget, effort }),
    ...(budget === 0 ? { effort: "none" } : {}),
  };
  native.thinking = thinking.form();
  return Object.keys(reasoning).length > 0 ? { reasoning } : {};
}

/** The effort of a level. Between equals their vendor judges a new one, and one beside a budget. */
function readLevel(level: string, beside: boolean, thinking: Members, { asked }: Reading): Effort | undefined {
  const effort = beside ? undefined : entryOf(EFFORTS, level);
  if (effort === undefined && asked.native) thinking.keep("thinkingLevel");
  if (effort !== undefined || asked.native) return effort;
  if (beside) wrong(thinking.path("thinkingBudget"), "cannot be used together with thinkingLevel", "Send one of them.");
  return wrong(thinking.path("thinkingLevel"), "must be MINIMAL, LOW, MEDIUM or HIGH");
}

/** How closely to look at all media that do not say so themselves. */
function readResolution(config: Members, turns: readonly Turn[]): void {
  const detail = config.word("mediaResolution")?.replace("MEDIA_RESOLUTION_", "").toLowerCase();
  config.keep("mediaResolution");
  if (detail === undefined) return;
  const look = (part: Part): void => {
    if (part.kind === "tool_result") part.parts.forEach(look);
    else if (part.kind === "media") part.detail ??= detail;
  };
  for (const { parts } of turns) parts.forEach(look);
}
