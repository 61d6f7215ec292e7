import { type Feature, type Setting, settingFields } from "model-gateway/protocol";
import { SAMPLING_SETTINGS } from "../openai/support.ts";

/** The settings of a text completion; they are only decoded. */
export const COMPLETION_SETTINGS: readonly Setting[] = [
  ...SAMPLING_SETTINGS,
  { path: "logprobs", field: "logprobs", feature: "logprobs", type: "number" },
  { path: "user", field: "user", feature: "user", type: "text" },
];

/** The fields of a text completion and their features. */
export const fields: readonly (readonly [field: string, feature: Feature])[] = [
  ...settingFields(COMPLETION_SETTINGS),
  ["stream_options", "cosmetic"],
  ["anything else", "other"],
];
