import { type Feature, type Setting, settingFields } from "model-gateway/protocol";
import { SAMPLING } from "../openai/support.ts";

/** The settings of a text completion; they are only decoded. */
export const SETTINGS: readonly Setting[] = [
  ...SAMPLING,
  { wire: "logprobs", field: "logprobs", feature: "logprobs", type: "number" },
  { wire: "user", field: "user", feature: "user", type: "text" },
];

/** The fields of a text completion and their features. */
export const fields: readonly (readonly [field: string, feature: Feature])[] = [
  ...settingFields(SETTINGS),
  ["stream_options", "cosmetic"],
  ["anything else", "other"],
];
