import { post } from "model-gateway/protocol";

/** The one thing this protocol is asked for. */
export const chat = post("chat", "/chat/completions", { task: "generate" });
