import { defined, entryOf, type Feature, type JsonObject, type Media, RawJson } from "model-gateway/protocol";
import { writeThinking } from "./request.encode.thinking.ts";
import { sourceSchema } from "./request.encode.tools.ts";
import { shaped } from "./request.members.ts";
import type { NativeRequest } from "./request.native.ts";
import { nativeOf, pathOf, type Writing } from "./request.writing.ts";

/** At most so many stop sequences. [M] */
const STOPS = 5;
/** Seeds are 32 bits wide. [S] */
const SEED = 2 ** 31;

export function writeConfig(writing: Writing): JsonObject | undefined {
  const { conversation, own } = writing;
  const native = nativeOf<NativeRequest>(writing, conversation);
  const config = defined({
    ...sampling(writing),
    candidateCount: own || conversation.choices !== 1 ? conversation.choices : undefined,
    maxOutputTokens: longest(writing),
    stopSequences: stops(writing),
    presencePenalty: conversation.presencePenalty,
    frequencyPenalty: conversation.frequencyPenalty,
    seed: seed(writing),
    ...likelihoods(writing),
    ...format(writing, native),
    responseModalities: modalities(writing),
    thinkingConfig: writeThinking(writing),
    mediaResolution: own ? undefined : resolution(writing),
  });
  if (native) return native.config && shaped(config, native.config);
  return Object.keys(config).length > 0 ? config : undefined;
}

function sampling(writing: Writing): JsonObject {
  const { conversation, own, terms } = writing;
  const { temperature, topP, topK } = conversation;
  const wishes = { temperature, topP, topK };
  if (own) return wishes;
  const features = { temperature: "temperature", topP: "top_p", topK: "top_k" } as const;
  if (terms.facts.sampling === false) {
    for (const [name, feature] of Object.entries(features) as [keyof typeof wishes, Feature][])
      if (wishes[name] !== undefined)
        terms.drop(pathOf(writing, feature, feature), "the model takes no sampling settings");
    return {};
  }
  if (temperature !== undefined && (temperature < 0 || temperature > 2))
    terms.refuse(pathOf(writing, "temperature", "temperature"), "it must be between 0 and 2 there");
  return wishes;
}

function longest(writing: Writing): number | undefined {
  const { conversation, own, terms } = writing;
  const { maxTokens } = conversation;
  if (own || maxTokens === undefined) return maxTokens;
  const path = pathOf(writing, "max_tokens", "max_tokens");
  if (maxTokens < 1) terms.refuse(path, "an answer must be at least 1 token long there");
  const { output } = terms.facts;
  if (output === undefined || maxTokens <= output) return maxTokens;
  terms.change(path, `the model's answers are at most ${output} tokens long`);
  return output;
}

function stops(writing: Writing): string[] | undefined {
  const { stop } = writing.conversation;
  if (writing.own) return stop;
  if (stop && stop.length > STOPS)
    writing.terms.refuse(pathOf(writing, "stop", "stop"), `at most ${STOPS} stop sequences are taken there`);
  return stop && stop.length > 0 ? stop : undefined;
}

function seed(writing: Writing): number | RawJson | undefined {
  const { seed: context } = writing.conversation;
  if (writing.own || context === undefined) return context;
  if (!(context instanceof RawJson) && context >= -SEED && context < SEED) return context;
  writing.terms.drop(pathOf(writing, "seed", "seed"), "a seed must fit into 32 bits there");
  return undefined;
}

function likelihoods({ conversation, own }: Writing): JsonObject {
  const many = conversation.logprobs;
  if (many === undefined) return {};
  return defined({ responseLogprobs: true, logprobs: many > 0 || own ? many : undefined });
}

function format(writing: Writing, native: NativeRequest | undefined): JsonObject {
  const { format: context } = writing.conversation;
  if (!context) return {};
  if (context.kind === "text") return native ? { responseMimeType: "text/plain" } : {};
  const schema = context.kind === "schema" ? sourceSchema(context.schema, native?.schema) : undefined;
  if (context.description !== undefined && !writing.own)
    writing.terms.change(pathOf(writing, "json_schema", "format"), "without the description of the schema");
  const responseSchema = native ? schema : undefined;
  return defined({ responseMimeType: "application/json", responseJsonSchema: schema, responseSchema });
}

/** Text alone goes without saying. */
function modalities({ conversation }: Writing): string[] | undefined {
  const context = conversation.modalities?.map((name) => name.toUpperCase());
  return context?.every((name) => name === "TEXT") ? undefined : context;
}

const RESOLUTIONS: Readonly<Record<string, string>> = {
  low: "LOW",
  medium: "MEDIUM",
  high: "HIGH",
  ultra_high: "HIGH",
  original: "HIGH",
};

/** How closely to look is said once for all media; where they differ it is left to the model. */
function resolution(writing: Writing): string | undefined {
  const wishes = new Set(mediaOf(writing).map(({ detail }) => entryOf(RESOLUTIONS, detail ?? "auto")));
  const [only] = wishes;
  if (wishes.size > 1)
    for (const { feature, path } of writing.conversation.uses)
      if (feature === "media_detail") writing.terms.drop(path, "all media are looked at alike there");
  return wishes.size === 1 && only !== undefined ? `MEDIA_RESOLUTION_${only}` : undefined;
}

const mediaOf = ({ conversation }: Writing): Media[] =>
  conversation.turns.flatMap(({ parts }) =>
    parts
      .flatMap((part) => (part.kind === "tool_result" ? part.parts : [part]))
      .filter((part) => part.kind === "media"),
  );
