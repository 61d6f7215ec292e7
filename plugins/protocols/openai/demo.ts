import {
  asObject,
  DEMO_CUT,
  type DemoAnswer,
  type DemoFrame,
  type DemoRequest,
  type DemoScript,
  demoFault,
  demoRefusal,
  demoTokens,
  type Fault,
  faultOf,
  type JsonObject,
  sampleOf,
} from "model-gateway/protocol";

import { error, streamError } from "./errors.ts";

/** What goes wrong in the stream of `error-stream`. */
export const FAILURE: Fault = faultOf(500, "The demo model failed in mid-stream, as it is made to.");

/** A tool as a request offers it. */
export interface DemoTool {
  kind: "function" | "custom";
  name: string;
  schema: unknown;
}

/** A protocol's `demo`: it refuses where the model's name asks for that, and else answers from the request's body. */
export function answering(answer: (request: DemoRequest, body: JsonObject) => DemoAnswer) {
  return (request: DemoRequest): DemoAnswer => {
    const fault = demoFault(request.model, request.streaming);
    return fault ? demoRefusal(fault, error(fault)) : answer(request, asObject(request.body) ?? {});
  };
}

/** What the model hands the tool: JSON for a function, free text for a custom tool. */
export const inputOf = (tool: DemoTool): string =>
  tool.kind === "custom" ? "demo" : JSON.stringify(sampleOf(tool.schema ?? {}));

/** A text in two halves, as the pieces of a call's input come. */
export function halves(text: string): [string, string] {
  const half = text.length >> 1;
  return [text.slice(0, half), text.slice(half)];
}

/** Tokens of a prompt and of its answer; reasoning counts as output. */
export function tokensOf(prompt: string, script: Pick<DemoScript<DemoTool>, "reasoning" | "call" | "pieces">) {
  const reasoning = demoTokens(script.reasoning ?? "");
  const uses = script.call ? script.call.name + inputOf(script.call) : script.pieces.join("");
  const input = demoTokens(prompt);
  const output = reasoning + demoTokens(uses);
  return { input, output, reasoning, total: input + output };
}

/** How a stream of chunks ends: cut off, failed, or whole with its last chunks and `[DONE]`. */
export function endOf(script: DemoScript<unknown>, ...last: readonly Buffer[]): DemoFrame[] {
  if (script.end === "cut") return [DEMO_CUT];
  if (script.end === "error") return [{ bytes: streamError(FAILURE) }];
  return [...last, "data: [DONE]\n\n"].map((bytes) => ({ bytes }));
}
