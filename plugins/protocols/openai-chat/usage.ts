import {
  asCount,
  asCounts,
  asList,
  asObject,
  asText,
  type Frame,
  type JsonObject,
  type Protocol,
  type Usage,
} from "model-gateway/protocol";
import { readCompletionUsage, stateTokens } from "../openai/usage.ts";

/** The member of a citation, by which alone OpenAI's search models report that they have searched. */
export const URL_CITATION = "url_citation";
/** The counts' names, as the vendor reports none. For models that do not search by themselves somebody else may have searched. */
const SEARCHES = "web_search";
const CITED_SEARCHES = "cited_web_search";

/** Models that search the web in Chat too; others refuse `web_search_options`. [M: OpenAI] */
export const SEARCH_MODEL = /(?:^|[/-])search(?:-|$)/;

const USAGE_MEMBERS = ["usage", URL_CITATION];

/** Reports whether a frame may contain usage, or citations of a search. */
export const holdsUsage = (frame: Frame): boolean => frame.mayContain(USAGE_MEMBERS);

/**
 * Decodes the usage of a complete response, or of the chunk that has it: one with empty `choices`, or the last one with some
 * (OpenRouter). `usage: null` means none. Groq's streams have it under `x_groq`, whether requested or not.
 */
export function readUsage(json: unknown, previous?: Usage): Usage | undefined {
  const body = asObject(json);
  const raw = asObject(body?.["usage"]) ?? asObject(asObject(body?.["x_groq"])?.["usage"]);
  if (!raw) {
    const cited = citedSearch(body);
    return cited ? { ...(previous ?? { in: {}, out: {}, raw: undefined }), serverTools: cited } : previous;
  }
  const usage = readCompletionUsage(raw, body, previous);
  const serverTools = searches(raw) ?? citedSearch(body) ?? previous?.serverTools;
  if (serverTools !== undefined) usage.serverTools = serverTools;
  return usage;
}

/** Returns the searches that usage has: OpenRouter's by tool, and Perplexity's. [F] */
function searches(raw: JsonObject): Usage["serverTools"] {
  const details = raw["server_tool_use_details"];
  if (details !== undefined) return asCounts(details);
  const queries = asCount(raw["num_search_queries"]);
  return queries === undefined ? undefined : { [SEARCHES]: queries };
}

/** Returns the search for a response or chunk that cites a page, which is billed once for a request. [D: OpenAI's prices] */
function citedSearch(body: JsonObject | undefined): Usage["serverTools"] {
  const isCited = asList(body?.["choices"]).some((choice) => {
    const { message, delta } = asObject(choice) ?? {};
    const annotations = asList(asObject(message ?? delta)?.["annotations"]);
    return annotations.some((each) => asObject(asObject(each)?.[URL_CITATION]) !== undefined);
  });
  if (!isCited) return undefined;
  return { [SEARCH_MODEL.test(asText(body?.["model"]) ?? "") ? SEARCHES : CITED_SEARCHES]: 1 };
}

/** Bytes of base64 for each token of audio: 16 bits at 24 kHz, the only streamed form, with 20 tokens a second. [S] */
const AUDIO_BYTES_PER_TOKEN = (24_000 * 2 * (4 / 3)) / 20;
/** Tokens of a usual image of the models that answer with images here. */
const IMAGE_TOKENS = 1120;

/** Returns the audio and images of a chunk. */
export function* chunkMedia(json: unknown): Generator<readonly [kind: "audio" | "image", tokens: number]> {
  for (const choice of asList(asObject(json)?.["choices"])) {
    const delta = asObject(asObject(choice)?.["delta"]);
    const audio = asText(asObject(delta?.["audio"])?.["data"]);
    if (audio) yield ["audio", audio.length / AUDIO_BYTES_PER_TOKEN];
    for (const _ of asList(delta?.["images"])) yield ["image", IMAGE_TOKENS];
  }
}

/** Finds reasoning of which a chunk or a response has the state: OpenRouter's, and Google's signatures. [F] */
export const hiddenReasoning: NonNullable<Protocol["hiddenReasoning"]> = () => (json) =>
  asList(asObject(json)?.["choices"])
    .flatMap((choice) => reasoningStates(asObject(choice) ?? {}))
    .map((state) => ["summarized", stateTokens(state)] as const);

function reasoningStates({ message, delta }: JsonObject): string[] {
  const { reasoning_details, tool_calls, extra_content } = asObject(message ?? delta) ?? {};
  // Nearly all chunks are pieces of text.
  if (!reasoning_details && !tool_calls && !extra_content) return [];
  const encrypted = asList(reasoning_details)
    .map(asObject)
    .filter((entry) => entry?.["type"] === "reasoning.encrypted")
    .map((entry) => entry?.["data"]);
  const signatures = [{ extra_content }, ...asList(tool_calls)].map(
    (holder) => asObject(asObject(asObject(holder)?.["extra_content"])?.["google"])?.["thought_signature"],
  );
  return [...encrypted, ...signatures].filter((state) => typeof state === "string");
}
