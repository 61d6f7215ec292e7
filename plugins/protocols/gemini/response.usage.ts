import { defined, type JsonObject, type Usage } from "model-gateway/protocol";

/** Service tiers whose name here differs; of the others only the vendor's own words pass. */
const TIERS: ReadonlyMap<string, string> = new Map(
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
  return defined({
    promptTokenCount: prompt,
    cachedContentTokenCount: input.cached,
    candidatesTokenCount: candidates,
    toolUsePromptTokenCount: input.toolUse,
    thoughtsTokenCount: out.reasoning,
    totalTokenCount: known ? (input.total ?? 0) + (out.total ?? 0) : undefined,
    promptTokensDetails: details({
      IMAGE: input.image,
      VIDEO: input.video,
      AUDIO: input.audio,
      DOCUMENT: input.document,
    }),
    candidatesTokensDetails: details({ IMAGE: out.image, AUDIO: out.audio }),
    serviceTier: TIERS.get(tier ?? ""),
  });
}

function details(tokens: Readonly<Record<string, number | undefined>>): JsonObject[] | undefined {
  const told = Object.entries(tokens).filter(([, tokenCount]) => tokenCount !== undefined);
  return told.length === 0 ? undefined : told.map(([modality, tokenCount]) => ({ modality, tokenCount }));
}
