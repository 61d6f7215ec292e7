import { asObject, type Conversation, type Feature, type Fields, invalidField, RawJson } from "model-gateway/protocol";

/** Fields that say how an answer is drawn, for the fidelity tables of both. */
export const SAMPLED: readonly (readonly [field: string, feature: Feature])[] = [
  ["temperature", "temperature"],
  ["top_p", "top_p"],
  ["top_k", "top_k"],
  ["frequency_penalty, presence_penalty", "penalties"],
  ["stop", "stop"],
  ["n", "choices"],
];

/** How an answer is drawn: the members that both chat and text completions have. `forms` is told which form was used. */
export function readSampling(body: Fields, into: Conversation, forms: Record<string, unknown>): void {
  readLength(body, into, forms);
  const temperature = body.number("temperature");
  if (temperature !== undefined) {
    into.temperature = temperature;
    body.declare("temperature", "temperature");
  }
  const topP = body.number("top_p");
  if (topP !== undefined) {
    into.topP = topP;
    body.declare("top_p", "top_p");
  }
  const topK = body.number("top_k");
  if (topK !== undefined) {
    into.topK = topK;
    body.declare("top_k", "top_k");
  }
  readPenalties(body, into);
  const seed = body.any("seed");
  if (seed !== undefined) {
    if (typeof seed !== "number" && !(seed instanceof RawJson)) throw invalidField("seed", "seed must be a number.");
    into.seed = seed;
    body.declare("seed", "seed");
  }
  const bias = body.any("logit_bias");
  if (bias !== undefined) {
    into.logitBias = bias;
    if (Object.keys(asObject(bias) ?? { bias }).length > 0) body.declare("logit_bias", "logit_bias");
  }
  const choices = body.number("n");
  if (choices !== undefined) {
    into.choices = choices;
    if (choices > 1) body.declare("n", "choices");
  }
}

function readLength(body: Fields, into: Conversation, forms: Record<string, unknown>): void {
  for (const name of ["max_completion_tokens", "max_tokens"]) {
    if (into.maxTokens !== undefined) {
      // The older name says nothing new beside the newer one.
      body.leave(name);
      continue;
    }
    const most = body.number(name);
    if (most === undefined) continue;
    into.maxTokens = most;
    forms["max"] = name;
    body.declare(name, "max_tokens");
  }
  const stop = body.any("stop");
  if (stop === undefined) return;
  const list = typeof stop === "string" ? [stop] : stop;
  if (!Array.isArray(list) || list.some((each) => typeof each !== "string"))
    throw invalidField("stop", "stop must be a string or a list of strings.");
  into.stop = list as string[];
  if (typeof stop === "string") forms["stop"] = "string";
  if (list.length > 0) body.declare("stop", "stop");
}

function readPenalties(body: Fields, into: Conversation): void {
  const frequency = body.number("frequency_penalty");
  if (frequency !== undefined) into.frequencyPenalty = frequency;
  if (frequency) body.declare("frequency_penalty", "penalties");
  const presence = body.number("presence_penalty");
  if (presence !== undefined) into.presencePenalty = presence;
  if (presence) body.declare("presence_penalty", "penalties");
}
