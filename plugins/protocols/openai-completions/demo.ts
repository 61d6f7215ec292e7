import {
  asCount,
  asObject,
  asText,
  DEMO_CUT,
  type DemoAnswer,
  type DemoFrame,
  type DemoRequest,
  type DemoScript,
  demoFault,
  demoId,
  demoPause,
  demoRefusal,
  demoScript,
  demoStream,
  demoTokens,
  demoWhole,
  eventBytes,
  faultOf,
  textOf,
} from "model-gateway";
import { error, streamError } from "./errors.ts";

/** The demo provider's text completions. There are no tools and no thoughts in this protocol. */
export function demo(request: DemoRequest): DemoAnswer {
  const fault = demoFault(request.model, request.streaming);
  if (fault) return demoRefusal(fault, error(fault));
  const body = asObject(request.body) ?? {};
  const prompt = textOf(body["prompt"]);
  const script = demoScript(request.model, { text: prompt, tools: [], limit: asCount(body["max_tokens"]) });
  const input = demoTokens(prompt);
  const output = demoTokens(script.pieces.join(""));
  const usage = { prompt_tokens: input, completion_tokens: output, total_tokens: input + output };
  const head = {
    id: `cmpl-demo${demoId(request)}`,
    object: "text_completion",
    created: Math.floor(Date.now() / 1000),
    model: asText(body["model"]) ?? request.model,
  };
  const finish = script.end === "length" ? "length" : "stop";
  const choice = (text: string, reason: string | null) => ({ text, index: 0, logprobs: null, finish_reason: reason });
  if (!request.streaming) {
    return demoWhole({ ...head, choices: [choice(script.pieces.join(""), finish)], usage }, script);
  }

  const includeUsage = asObject(body["stream_options"])?.["include_usage"] === true;
  const chunk = (choices: readonly object[], used: object | null = null) =>
    eventBytes({ ...head, choices, ...(includeUsage ? { usage: used } : {}) });
  const frames: DemoFrame[] = script.pieces.map((text, n) => ({
    after: demoPause(script, n),
    bytes: chunk([choice(text, null)]),
  }));
  return demoStream([...frames, ...last(script, chunk([choice("", finish)]), includeUsage ? [chunk([], usage)] : [])]);
}

function last(script: DemoScript<never>, finish: Buffer, usage: readonly Buffer[]): DemoFrame[] {
  if (script.end === "cut") return [DEMO_CUT];
  if (script.end === "error") {
    return [{ bytes: streamError(faultOf(500, "The demo model failed in mid-stream, as it is made to.")) }];
  }
  return [finish, ...usage, "data: [DONE]\n\n"].map((bytes) => ({ bytes }));
}
