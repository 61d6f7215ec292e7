import type { Feature } from "model-gateway/protocol";
import { SAMPLED } from "../openai/support.ts";

/** The fields of a text completion and what they say. */
export const fields: readonly (readonly [field: string, feature: Feature])[] = [
  ["max_tokens", "max_tokens"],
  ...SAMPLED,
  ["logprobs", "logprobs"],
  ["logit_bias", "logit_bias"],
  ["seed", "seed"],
  ["user", "user"],
  ["stream_options", "cosmetic"],
  ["anything else", "other"],
];
