import { post } from "model-gateway/protocol";

/** Asks for an answer. */
export const RESPONSE = post("response", "/responses", { task: "generate" });
/** Counts the tokens of a question. */
export const INPUT_TOKENS = post("input_tokens", "/responses/input_tokens", {
  streams: false,
  generates: false,
  task: "count",
});
