import { post } from "model-gateway";

/** The one thing this protocol is asked for. */
export const completion = post("completion", "/completions", { task: "generate" });
