import { asList, asObject, asText, type JsonObject } from "model-gateway/protocol";

/** One token of an answer as the vocabulary's text events carry it: the shape that most clients know. */
interface Likely {
  token: string;
  logprob: number;
  bytes: number[] | null;
  top_logprobs: { token: string; logprob: number; bytes: number[] | null }[];
}

/** Likelihoods in the common shape from a candidate's `logprobsResult`; undefined where it holds none. */
export function likelihoods(result: unknown): Likely[] | undefined {
  const told = asObject(result);
  const top = asList(told?.["topCandidates"]);
  const found = asList(told?.["chosenCandidates"]).map((chosen, n) => ({
    ...likely(chosen),
    top_logprobs: asList(asObject(top[n])?.["candidates"]).map(likely),
  }));
  return found.length === 0 ? undefined : found;
}

/** What clients know for a token of hardly any likelihood; JSON has no number for its logarithm. */
const HARDLY = -9999;

function likely(value: unknown) {
  const { token, logProbability = 0 } = asObject(value) ?? {};
  const text = asText(token) ?? "";
  // Proto JSON writes numbers that JSON has not as strings.
  const told = typeof logProbability === "string" ? Number(logProbability) : logProbability;
  const logprob = typeof told === "number" && Number.isFinite(told) ? told : HARDLY;
  return { token: text, logprob, bytes: [...Buffer.from(text)] };
}

/** `logprobsResult` from likelihoods in the common shape; undefined where they are in another. */
export function logprobsResult(logprobs: unknown): JsonObject | undefined {
  const tokens = asList(Array.isArray(logprobs) ? logprobs : asObject(logprobs)?.["content"]).map(asObject);
  if (tokens.length === 0) return undefined;
  return {
    chosenCandidates: tokens.map(chosen),
    topCandidates: tokens.map((token) => ({ candidates: asList(token?.["top_logprobs"]).map(asObject).map(chosen) })),
  };
}

const chosen = (token: JsonObject | undefined): JsonObject => ({
  token: token?.["token"],
  logProbability: token?.["logprob"],
});

/** `logprobsResult` of a whole answer from those of its pieces; undefined where there are none. */
export function joinedLogprobs(results: readonly unknown[]): JsonObject | undefined {
  const told = results.map(asObject).filter((result) => result !== undefined);
  if (told.length === 0) return undefined;
  const all = (name: string) => told.flatMap((result) => asList(result[name]));
  return { chosenCandidates: all("chosenCandidates"), topCandidates: all("topCandidates") };
}
