import { post } from "model-gateway/protocol";

/** The one thing this protocol is asked for. */
export const completion = post("completion", "/completions", { task: "generate" });
