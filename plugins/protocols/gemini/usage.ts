import {
  asCount,
  asList,
  asObject,
  asText,
  dropUndefined,
  type Frame,
  GatewayError,
  type JsonObject,
  type Usage,
} from "model-gateway/protocol";

/** True for nearly every frame: each one repeats the usage so far. The last one counts. */
export const holdsUsage = (frame: Frame): boolean => frame.mayContain("usageMetadata");

/**
 * Usage from a frame or a whole body. A frame's usage is all there is to know so far and takes the place of the one
 * before; only a frame without a total (the first ones of some streams name just the tier) adds to it. [F]
 */
export function readUsage(json: unknown, before?: Usage): Usage | undefined {
  const metadata = asObject(asObject(json)?.["usageMetadata"]);
  if (!metadata) return before;
  return normalizeUsage(
    asCount(metadata["totalTokenCount"]) === undefined ? { ...countsIn(before), ...metadata } : metadata,
  );
}

/** All that is read of a frame's usage. */
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

/** The counts of the frames before, those that are read alone: frames with ever new members must not add up. */
function countsIn(before: Usage | undefined): JsonObject {
  return Object.fromEntries(Object.entries(asObject(before?.raw) ?? {}).filter(([name]) => COUNT_MEMBERS.has(name)));
}

/**
 * The vendor counts the tokens of tool results beside the prompt and thoughts beside the answer; ours are sums. A count
 * of 0 is left out on the wire (proto JSON), so it is known only where another count of the same sum is there.
 */
function normalizeUsage(raw: JsonObject): Usage {
  const prompt = asCount(raw["promptTokenCount"]);
  const toolUse = asCount(raw["toolUsePromptTokenCount"]);
  const reasoning = asCount(raw["thoughtsTokenCount"]);
  const input = prompt === undefined && toolUse === undefined ? undefined : (prompt ?? 0) + (toolUse ?? 0);
  const asked = [
    ...asList(raw["promptTokensDetails"] ?? raw["promptTokenDetails"]),
    ...asList(raw["toolUsePromptTokensDetails"]),
  ];
  return {
    in: dropUndefined({
      total: input,
      cached: asCount(raw["cachedContentTokenCount"]),
      audio: modalityTokens(asked, "AUDIO"),
      image: modalityTokens(asked, "IMAGE"),
      video: modalityTokens(asked, "VIDEO"),
      document: modalityTokens(asked, "DOCUMENT"),
      cachedAudio: modalityTokens(asList(raw["cacheTokensDetails"]), "AUDIO"),
      cachedImage: modalityTokens(asList(raw["cacheTokensDetails"]), "IMAGE"),
      toolUse,
    }),
    out: dropUndefined({
      total: outputTotal(raw, input, reasoning),
      reasoning,
      audio: modalityTokens(asList(raw["candidatesTokensDetails"]), "AUDIO"),
      image: modalityTokens(asList(raw["candidatesTokensDetails"]), "IMAGE"),
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

/** Names and numbers of modalities: clients can ask for enums as numbers. [F] */
const MODALITY_NUMBERS = { IMAGE: 2, VIDEO: 3, AUDIO: 4, DOCUMENT: 5 } as const;

/** Tokens of one modality; the same one can be listed more than once. */
function modalityTokens(details: readonly unknown[], name: keyof typeof MODALITY_NUMBERS): number | undefined {
  const isMeant = (value: unknown) => value === name || value === MODALITY_NUMBERS[name];
  const found = details.map(asObject).filter((entry) => isMeant(entry?.["modality"]));
  const tokens = found.map((entry) => asCount(entry?.["tokenCount"])).filter((count) => count !== undefined);
  return tokens.length === 0 ? undefined : tokens.reduce((sum, count) => sum + count, 0);
}

/** The vendor's names of service tiers; a tier that has none is left out. */
const TIER_WORDS: ReadonlyMap<string, string> = new Map(
  Object.entries({
    default: "standard",
    standard: "standard",
    flex: "flex",
    priority: "priority",
  }),
);

/** `usageMetadata`: thoughts beside the answer's tokens, those of tool results beside the prompt's. */
export function usageMetadata({ in: input, out, tier }: Usage): JsonObject {
  const prompt = input.total === undefined ? undefined : Math.max(0, input.total - (input.toolUse ?? 0));
  const candidates = out.total === undefined ? undefined : Math.max(0, out.total - (out.reasoning ?? 0));
  const known = input.total !== undefined || out.total !== undefined;
  return dropUndefined({
    promptTokenCount: prompt,
    cachedContentTokenCount: input.cached,
    candidatesTokenCount: candidates,
    toolUsePromptTokenCount: input.toolUse,
    thoughtsTokenCount: out.reasoning,
    totalTokenCount: known ? (input.total ?? 0) + (out.total ?? 0) : undefined,
    promptTokensDetails: modalityDetails(prompt, {
      IMAGE: input.image,
      VIDEO: input.video,
      AUDIO: input.audio,
      DOCUMENT: input.document,
    }),
    cacheTokensDetails: modalityDetails(input.cached, { IMAGE: input.cachedImage, AUDIO: input.cachedAudio }),
    candidatesTokensDetails: modalityDetails(candidates, { IMAGE: out.image, AUDIO: out.audio }),
    serviceTier: TIER_WORDS.get(tier ?? ""),
  });
}

/** A total by modality, text first: clients add them up. None where nothing but text is told of. */
function modalityDetails(total: number | undefined, others: Readonly<Record<string, number | undefined>>) {
  const known = Object.entries(others).flatMap(([modality, tokenCount]) =>
    tokenCount ? { modality, tokenCount } : [],
  );
  if (known.length === 0) return undefined;
  const text = known.reduce((rest, { tokenCount }) => rest - tokenCount, total ?? 0);
  return text > 0 ? [{ modality: "TEXT", tokenCount: text }, ...known] : known;
}

/** What stands beside a count. */
const COUNT_SIBLINGS = [
  "promptTokensDetails",
  "cachedContentTokenCount",
  "cacheTokensDetails",
  "totalBillableCharacters",
];

/** Answers of `countTokens`: `{"totalTokens": n, …}`. */
export const countTokensCodec = {
  /** @throws GatewayError `upstream_invalid` for anything but such an answer. */
  decode(text: string): number {
    const answer = asObject(parseCount(text)) ?? refuseCount();
    // A count of 0 is left out on the wire (proto JSON), but what tells nothing of a count is none.
    const none = COUNT_SIBLINGS.some((name) => name in answer) ? 0 : undefined;
    return asCount(answer["totalTokens"] ?? none) ?? refuseCount();
  },
  encode: (total: number): string => JSON.stringify({ totalTokens: total }),
};

function parseCount(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (cause) {
    return refuseCount(cause);
  }
}

function refuseCount(cause?: unknown): never {
  throw new GatewayError("upstream_invalid", { message: "The provider's count of tokens cannot be read.", cause });
}
