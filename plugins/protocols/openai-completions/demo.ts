import {
  asCount,
  asText,
  type DemoFrame,
  demoId,
  demoPause,
  demoScript,
  demoStream,
  demoTokens,
  demoWhole,
  eventBytes,
  textOf,
} from "model-gateway/protocol";
import { answering, endOf } from "../openai/demo.ts";
import { asksUsage } from "../openai/usage.ts";

/** The demo provider's text completions. There are no tools and no thoughts in this protocol. */
export const demo = answering((request, body) => {
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

  const includeUsage = asksUsage(body);
  const chunk = (choices: readonly object[], used: object | null = null) =>
    eventBytes({ ...head, choices, ...(includeUsage ? { usage: used } : {}) });
  const frames: DemoFrame[] = script.pieces.map((text, n) => ({
    after: demoPause(script, n),
    bytes: chunk([choice(text, null)]),
  }));
  const counted = includeUsage ? [chunk([], usage)] : [];
  return demoStream([...frames, ...endOf(script, chunk([choice("", finish)]), ...counted)]);
});
