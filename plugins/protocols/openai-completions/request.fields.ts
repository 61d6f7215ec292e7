import type { Feature } from "model-gateway";

/** The fields of a text completion and what they say. */
export const fields: readonly (readonly [field: string, feature: Feature])[] = [
  ["max_tokens", "max_tokens"],
  ["temperature", "temperature"],
  ["top_p", "top_p"],
  ["top_k", "top_k"],
  ["frequency_penalty, presence_penalty", "penalties"],
  ["stop", "stop"],
  ["n", "choices"],
  ["logprobs", "logprobs"],
  ["logit_bias", "logit_bias"],
  ["seed", "seed"],
  ["user", "user"],
  ["stream_options", "cosmetic"],
  ["anything else", "other"],
];
