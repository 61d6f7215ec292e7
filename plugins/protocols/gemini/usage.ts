import { asCount, asList, asObject, asText, defined, type JsonObject, type Usage } from "model-gateway/protocol";

/**
 * Usage from a frame or a whole body. A frame's usage is all there is to know so far and takes the place of the one
 * before; only a frame without a total (the first ones of some streams name just the tier) adds to it. [F]
 */
export function usage(json: unknown, before?: Usage): Usage | undefined {
  const told = asObject(asObject(json)?.["usageMetadata"]);
  if (!told) return before;
  return normal(asCount(told["totalTokenCount"]) === undefined ? { ...countsOf(before), ...told } : told);
}

/** All that is read of a frame's usage. */
const READ: ReadonlySet<string> = new Set([
  "promptTokenCount",
  "toolUsePromptTokenCount",
  "cachedContentTokenCount",
  "thoughtsTokenCount",
  "candidatesTokenCount",
  "promptTokensDetails",
  "promptTokenDetails",
  "toolUsePromptTokensDetails",
  "candidatesTokensDetails",
  "serviceTier",
  "trafficType",
]);

/** What was told before, as far as it is read: nothing grows with the names of members that each frame may make up. */
function countsOf(before: Usage | undefined): JsonObject {
  return Object.fromEntries(Object.entries(asObject(before?.raw) ?? {}).filter(([name]) => READ.has(name)));
}

/**
 * The vendor counts the tokens of tool results beside the prompt and thoughts beside the answer; ours are sums. A count
 * of 0 is left out on the wire (proto JSON), so it is known only where another count of the same sum is there.
 */
function normal(raw: JsonObject): Usage {
  const prompt = asCount(raw["promptTokenCount"]);
  const toolUse = asCount(raw["toolUsePromptTokenCount"]);
  const reasoning = asCount(raw["thoughtsTokenCount"]);
  const input = prompt === undefined && toolUse === undefined ? undefined : (prompt ?? 0) + (toolUse ?? 0);
  const asked = [
    ...asList(raw["promptTokensDetails"] ?? raw["promptTokenDetails"]),
    ...asList(raw["toolUsePromptTokensDetails"]),
  ];
  return {
    in: defined({
      total: input,
      cached: asCount(raw["cachedContentTokenCount"]),
      audio: modality(asked, "AUDIO"),
      image: modality(asked, "IMAGE"),
      video: modality(asked, "VIDEO"),
      document: modality(asked, "DOCUMENT"),
      toolUse,
    }),
    out: defined({
      total: output(raw, input, reasoning),
      reasoning,
      audio: modality(asList(raw["candidatesTokensDetails"]), "AUDIO"),
      image: modality(asList(raw["candidatesTokensDetails"]), "IMAGE"),
    }),
    ...defined({ tier: asText(raw["serviceTier"] ?? raw["trafficType"]) }),
    raw,
  };
}

function output(raw: JsonObject, input: number | undefined, reasoning: number | undefined): number | undefined {
  const candidates = asCount(raw["candidatesTokenCount"]);
  if (candidates !== undefined || reasoning !== undefined) return (candidates ?? 0) + (reasoning ?? 0);
  const total = asCount(raw["totalTokenCount"]);
  return total === undefined || input === undefined ? undefined : Math.max(0, total - input);
}

/** Names and numbers of modalities: clients can ask for enums as numbers. [F] */
const NUMBERS = { IMAGE: 2, VIDEO: 3, AUDIO: 4, DOCUMENT: 5 } as const;

/** Tokens of one modality; the same one can be listed more than once. */
function modality(details: readonly unknown[], name: keyof typeof NUMBERS): number | undefined {
  const isMeant = (value: unknown) => value === name || value === NUMBERS[name];
  const found = details.map(asObject).filter((entry) => isMeant(entry?.["modality"]));
  const tokens = found.map((entry) => asCount(entry?.["tokenCount"])).filter((count) => count !== undefined);
  return tokens.length === 0 ? undefined : tokens.reduce((sum, count) => sum + count, 0);
}
