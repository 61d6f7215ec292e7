import {
  asCount,
  asList,
  asObject,
  asText,
  dropUndefined,
  type Frame,
  GatewayError,
  type JsonObject,
  type Protocol,
  parseJson,
  type Usage,
} from "model-gateway/protocol";

/** The member with the queries of searches. */
export const SEARCH_QUERIES = "webSearchQueries";
const BRACKET = 0x5b;
/** The member with a place that an answer is grounded in. */
const PLACE = "maps";

/**
 * Reports whether a frame has usage, or searches: nearly all do, because each repeats the usage so far. The last one counts.
 */
export const holdsUsage = (frame: Frame): boolean =>
  frame.mayContain("usageMetadata") || frame.mayContain(SEARCH_QUERIES, BRACKET) || frame.mayContain(PLACE);

/**
 * Decodes the usage of a frame or a whole body. It replaces that of earlier frames. Only a frame without a total is merged
 * with it: the first frames of some streams have just the tier. [F]
 */
export function readUsage(json: unknown, previous?: Usage): Usage | undefined {
  const metadata = asObject(asObject(json)?.["usageMetadata"]);
  const merged = metadata && asCount(metadata["totalTokenCount"]) === undefined;
  const usage = metadata ? normalizeUsage(merged ? { ...countsIn(previous), ...metadata } : metadata) : previous;
  const { [SEARCHES]: searchesBefore = 0, [MAPS]: mapsBefore = 0 } = previous?.serverTools ?? {};
  const found = groundingIn(asObject(json));
  const searches = Math.max(webSearches(asObject(json), found), searchesBefore);
  const maps = Math.max(found.some(hasPlace) ? 1 : 0, mapsBefore);
  if (searches + maps === 0) return usage;
  const serverTools = dropUndefined({ [SEARCHES]: searches || undefined, [MAPS]: maps || undefined });
  return { ...(usage ?? { in: {}, out: {}, raw: undefined }), serverTools };
}

/** The counts' names: the vendor does not report them. A request whose answer has places costs once, as no public table says. */
const [SEARCHES, MAPS] = ["web_search", "google_maps"] as const;

const groundingIn = (body: JsonObject | undefined): (JsonObject | undefined)[] =>
  asList(body?.["candidates"]).map((candidate) => asObject(asObject(candidate)?.["groundingMetadata"]));

const hasPlace = (grounding: JsonObject | undefined): boolean =>
  asList(grounding?.["groundingChunks"]).some((chunk) => asObject(asObject(chunk)?.[PLACE]));

/** Models whose searches cost once for each request, however many they make. [D: grounding with Google Search] */
const SEARCHES_ONCE = /gemini-[12]\b/;

/** Returns the searches that are billed: newer models' each once, without the empty ones. */
function webSearches(body: JsonObject | undefined, found: readonly (JsonObject | undefined)[]): number {
  const asked = found.flatMap((grounding) => asList(grounding?.[SEARCH_QUERIES]));
  const queries = new Set(asked.filter((query) => asText(query)));
  return SEARCHES_ONCE.test(asText(body?.["modelVersion"]) ?? "") ? Math.min(queries.size, 1) : queries.size;
}

/** Bytes of base64 for each token of audio: 16 bits at 24 kHz, with 25 tokens a second. [D: speech generation] */
const AUDIO_BYTES_PER_TOKEN = (24_000 * 2 * (4 / 3)) / 25;
/** Tokens of an image of the usual size, at its cheapest. [D: image generation] */
const IMAGE_TOKENS = 1120;

/** Returns the audio and images of a frame; those in thoughts are not billed. */
export function* candidateMedia(json: unknown): Generator<readonly [kind: "audio" | "image", tokens: number]> {
  for (const candidate of asList(asObject(json)?.["candidates"]))
    for (const part of asList(asObject(asObject(candidate)?.["content"])?.["parts"]).map(asObject)) {
      const { mimeType, data } = asObject(part?.["inlineData"]) ?? {};
      if (part?.["thought"] === true || typeof data !== "string") continue;
      if (asText(mimeType)?.startsWith("audio/")) yield ["audio", data.length / AUDIO_BYTES_PER_TOKEN];
      else yield ["image", IMAGE_TOKENS];
    }
}

/** Characters of a signature for each token of its thoughts. [F] */
const SIGNATURE_PER_TOKEN = 6.2;
/** Parts whose signatures hold what the vendor's tools have found. [F] */
const TOOL_PARTS = ["toolCall", "toolResponse"];

/** Finds the thoughts of which a response or a frame has the signature; their texts are summaries. */
export const hiddenReasoning: NonNullable<Protocol["hiddenReasoning"]> = () => signedThoughts;

function* signedThoughts(json: unknown) {
  for (const candidate of asList(asObject(json)?.["candidates"]))
    for (const part of asList(asObject(asObject(candidate)?.["content"])?.["parts"]).map(asObject)) {
      const signature = asText(part?.["thoughtSignature"] ?? part?.["thought_signature"]);
      if (part && signature && !TOOL_PARTS.some((name) => name in part))
        yield ["summarized", signature.length / SIGNATURE_PER_TOKEN] as const;
    }
}

/** The members of usage that are read. */
const COUNT_MEMBERS: ReadonlySet<string> = new Set([
  "promptTokenCount",
  "toolUsePromptTokenCount",
  "cachedContentTokenCount",
  "thoughtsTokenCount",
  "candidatesTokenCount",
  "promptTokensDetails",
  "cacheTokensDetails",
  "promptTokenDetails",
  "toolUsePromptTokensDetails",
  "candidatesTokensDetails",
  "serviceTier",
  "trafficType",
]);

/** Returns the earlier counts, restricted to members that are read: otherwise unknown members would accumulate. */
function countsIn(previous: Usage | undefined): JsonObject {
  return Object.fromEntries(Object.entries(asObject(previous?.raw) ?? {}).filter(([name]) => COUNT_MEMBERS.has(name)));
}

/**
 * Converts the vendor's usage. It counts tokens of tool results apart from the prompt and thoughts apart from the output;
 * `Usage` has sums. Proto JSON omits a count of 0, so that one is known only if another count of the same sum is present.
 */
function normalizeUsage(raw: JsonObject): Usage {
  const prompt = asCount(raw["promptTokenCount"]);
  const toolUse = asCount(raw["toolUsePromptTokenCount"]);
  const reasoning = asCount(raw["thoughtsTokenCount"]);
  const input = prompt === undefined && toolUse === undefined ? undefined : (prompt ?? 0) + (toolUse ?? 0);
  const promptDetails = [
    ...detailsIn(raw["promptTokensDetails"] ?? raw["promptTokenDetails"]),
    ...detailsIn(raw["toolUsePromptTokensDetails"]),
  ];
  const cacheDetails = detailsIn(raw["cacheTokensDetails"]);
  const outputDetails = detailsIn(raw["candidatesTokensDetails"]);
  return {
    in: dropUndefined({
      total: input,
      cached: asCount(raw["cachedContentTokenCount"]),
      audio: modalityTokens(promptDetails, "AUDIO"),
      image: modalityTokens(promptDetails, "IMAGE"),
      video: modalityTokens(promptDetails, "VIDEO"),
      document: modalityTokens(promptDetails, "DOCUMENT"),
      cachedAudio: modalityTokens(cacheDetails, "AUDIO"),
      cachedImage: modalityTokens(cacheDetails, "IMAGE"),
      cachedVideo: modalityTokens(cacheDetails, "VIDEO"),
      toolUse,
    }),
    out: dropUndefined({
      total: outputTotal(raw, input, reasoning),
      reasoning,
      audio: modalityTokens(outputDetails, "AUDIO"),
      image: modalityTokens(outputDetails, "IMAGE"),
    }),
    ...dropUndefined({ tier: asText(raw["serviceTier"] ?? raw["trafficType"]) }),
    raw,
  };
}

function outputTotal(raw: JsonObject, input: number | undefined, reasoning: number | undefined): number | undefined {
  const candidates = asCount(raw["candidatesTokenCount"]);
  if (candidates !== undefined || reasoning !== undefined) return (candidates ?? 0) + (reasoning ?? 0);
  const total = asCount(raw["totalTokenCount"]);
  return total === undefined || input === undefined ? undefined : Math.max(0, total - input);
}

/** Maximum number of details that are read, of which the vendor has a handful: those of one frame count in further ones too. */
const MAX_DETAILS = 100;
const detailsIn = (value: unknown): readonly unknown[] => asList(value).slice(0, MAX_DETAILS);

/** Modalities by name, with their numbers: clients can request enums as numbers. [F] */
const MODALITY_NUMBERS = { IMAGE: 2, VIDEO: 3, AUDIO: 4, DOCUMENT: 5 } as const;

/** Returns the tokens of one modality, which may be listed more than once. */
function modalityTokens(details: readonly unknown[], name: keyof typeof MODALITY_NUMBERS): number | undefined {
  const isModality = (value: unknown) => value === name || value === MODALITY_NUMBERS[name];
  const entries = details.map(asObject).filter((entry) => isModality(entry?.["modality"]));
  const tokens = entries.map((entry) => asCount(entry?.["tokenCount"])).filter((count) => count !== undefined);
  return tokens.length === 0 ? undefined : tokens.reduce((sum, count) => sum + count, 0);
}

/** The vendor's names of service tiers; other tiers are left out. */
const TIER_NAMES: ReadonlyMap<string, string> = new Map(
  Object.entries({
    default: "standard",
    standard: "standard",
    flex: "flex",
    priority: "priority",
  }),
);

/** Encodes `usageMetadata`: thoughts are not part of the output's tokens, tool results not of the prompt's. */
export function usageMetadata({ in: input, out, tier }: Usage): JsonObject {
  const prompt = input.total === undefined ? undefined : Math.max(0, input.total - (input.toolUse ?? 0));
  const candidates = out.total === undefined ? undefined : Math.max(0, out.total - (out.reasoning ?? 0));
  const hasTotal = input.total !== undefined || out.total !== undefined;
  return dropUndefined({
    promptTokenCount: prompt,
    cachedContentTokenCount: input.cached,
    candidatesTokenCount: candidates,
    toolUsePromptTokenCount: input.toolUse,
    thoughtsTokenCount: out.reasoning,
    totalTokenCount: hasTotal ? (input.total ?? 0) + (out.total ?? 0) : undefined,
    promptTokensDetails: modalityDetails(prompt, {
      IMAGE: input.image,
      VIDEO: input.video,
      AUDIO: input.audio,
      DOCUMENT: input.document,
    }),
    cacheTokensDetails: modalityDetails(input.cached, {
      IMAGE: input.cachedImage,
      VIDEO: input.cachedVideo,
      AUDIO: input.cachedAudio,
    }),
    candidatesTokensDetails: modalityDetails(candidates, { IMAGE: out.image, AUDIO: out.audio }),
    serviceTier: TIER_NAMES.get(tier ?? ""),
  });
}

/** Returns a total by modality, text first, because clients add them up; undefined if there is only text. */
function modalityDetails(total: number | undefined, others: Readonly<Record<string, number | undefined>>) {
  const nonText = Object.entries(others).flatMap(([modality, tokenCount]) =>
    tokenCount ? { modality, tokenCount } : [],
  );
  if (nonText.length === 0) return undefined;
  const text = nonText.reduce((remaining, { tokenCount }) => remaining - tokenCount, total ?? 0);
  return text > 0 ? [{ modality: "TEXT", tokenCount: text }, ...nonText] : nonText;
}

/** Members beside a count. */
const COUNT_SIBLINGS = [
  "promptTokensDetails",
  "cachedContentTokenCount",
  "cacheTokensDetails",
  "totalBillableCharacters",
];

/** Encodes and decodes responses of `countTokens`: `{"totalTokens": n, …}`. */
export const countTokensCodec = {
  /** Decodes a count. @throws GatewayError `upstream_invalid` if it is no such response */
  decode(text: string): number {
    const body = asObject(parseJson(text)) ?? refuseCount();
    // Proto JSON omits a count of 0; a body without any member of a count is invalid.
    const omitted = COUNT_SIBLINGS.some((name) => name in body) ? 0 : undefined;
    return asCount(body["totalTokens"] ?? omitted) ?? refuseCount();
  },
  encode: (total: number): string => JSON.stringify({ totalTokens: total }),
};

function refuseCount(): never {
  throw new GatewayError("upstream_invalid", { message: "The provider's count of tokens cannot be read." });
}
