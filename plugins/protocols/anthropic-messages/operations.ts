import { type Operation, post } from "model-gateway/protocol";

/** Asks for a message. */
export const MESSAGES: Operation = post("messages", "/messages", { task: "generate" });

/** Asks how many tokens a request has. */
export const COUNT_TOKENS: Operation = post("count_tokens", "/messages/count_tokens", {
  streams: false,
  generates: false,
  task: "count",
});
