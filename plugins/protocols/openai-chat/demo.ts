import {
  asCount,
  asList,
  asObject,
  asText,
  type DemoFrame,
  type DemoScript,
  demoId,
  demoPause,
  demoScript,
  demoStream,
  demoWhole,
  eventBytes,
  type JsonObject,
  textOf,
} from "model-gateway/protocol";
import { answering, type DemoTool, endOf, halves, inputOf, tokensOf } from "../openai/demo.ts";
import { asksUsage } from "../openai/usage.ts";

/** A completion in the making: what all its chunks, or the whole of it, are written from. */
interface Draft {
  id: string;
  created: number;
  model: string;
  script: DemoScript<DemoTool>;
  finish: "stop" | "length" | "tool_calls";
  usage: JsonObject;
}

/** The demo provider's chat completions. */
export const demo = answering((request, body) => {
  const messages = asList(body["messages"]).map((message) => asObject(message) ?? {});
  const last = messages.at(-1);
  const script = demoScript<DemoTool>(request.model, {
    text: textOf(messages.findLast((message) => message["role"] === "user")?.["content"]),
    tools: toolsOf(body),
    result: last?.["role"] === "tool" ? textOf(last["content"]) : undefined,
    limit: asCount(body["max_completion_tokens"]) ?? asCount(body["max_tokens"]),
  });
  const draft: Draft = {
    id: demoId(request),
    created: Math.floor(Date.now() / 1000),
    model: asText(body["model"]) ?? request.model,
    script,
    finish: script.call ? "tool_calls" : script.end === "length" ? "length" : "stop",
    usage: usageOf(messages.map((message) => textOf(message["content"])).join(""), script),
  };
  if (!request.streaming) return demoWhole(whole(draft), script);
  return demoStream(chunks(draft, asksUsage(body)));
});

/** Tools that may be called, one that must be called first. */
function toolsOf(body: JsonObject): DemoTool[] {
  const choice = body["tool_choice"];
  if (choice === "none") return [];
  const tools = asList(body["tools"]).flatMap((entry): DemoTool[] => {
    const kind = asObject(entry)?.["type"] === "custom" ? "custom" : "function";
    const tool = asObject(asObject(entry)?.[kind]);
    const name = asText(tool?.["name"]);
    return name === undefined ? [] : [{ kind, name, schema: tool?.["parameters"] }];
  });
  const chosen = asObject(choice);
  const wanted = asObject(chosen?.["function"] ?? chosen?.["custom"])?.["name"];
  return wanted === undefined ? tools : tools.filter((tool) => tool.name === wanted);
}

function usageOf(prompt: string, script: DemoScript<DemoTool>): JsonObject {
  const tokens = tokensOf(prompt, script);
  return {
    prompt_tokens: tokens.input,
    completion_tokens: tokens.output,
    total_tokens: tokens.total,
    prompt_tokens_details: { cached_tokens: 0, audio_tokens: 0 },
    completion_tokens_details: {
      reasoning_tokens: tokens.reasoning,
      audio_tokens: 0,
      accepted_prediction_tokens: 0,
      rejected_prediction_tokens: 0,
    },
  };
}

const callOf = (draft: Draft, tool: DemoTool, input: string) => ({
  id: `call_demo${draft.id}`,
  type: tool.kind,
  [tool.kind]: tool.kind === "custom" ? { name: tool.name, input } : { name: tool.name, arguments: input },
});

function whole({ script, ...draft }: Draft) {
  const message = {
    role: "assistant",
    content: script.call ? null : script.pieces.join(""),
    refusal: null,
    annotations: [],
    ...(script.reasoning === undefined ? {} : { reasoning_content: script.reasoning }),
    ...(script.call ? { tool_calls: [callOf({ script, ...draft }, script.call, inputOf(script.call))] } : {}),
  };
  return {
    id: `chatcmpl-demo${draft.id}`,
    object: "chat.completion",
    created: draft.created,
    model: draft.model,
    choices: [{ index: 0, message, logprobs: null, finish_reason: draft.finish }],
    usage: draft.usage,
    service_tier: "default",
    system_fingerprint: "fp_demo",
  };
}

function chunks(draft: Draft, includeUsage: boolean): DemoFrame[] {
  const { script } = draft;
  const chunk = (choices: readonly object[], usage: JsonObject | null = null) =>
    eventBytes({
      id: `chatcmpl-demo${draft.id}`,
      object: "chat.completion.chunk",
      created: draft.created,
      model: draft.model,
      service_tier: "default",
      system_fingerprint: "fp_demo",
      choices,
      ...(includeUsage ? { usage } : {}),
    });
  const say = (delta: object, finish: string | null = null) =>
    chunk([{ index: 0, delta, logprobs: null, finish_reason: finish }]);

  const content = script.call ? null : "";
  const frames: DemoFrame[] = [{ bytes: say({ role: "assistant", content, refusal: null }) }];
  for (const thought of script.reasoning?.match(/\s*\S+/g) ?? [])
    frames.push({ bytes: say({ reasoning_content: thought }) });
  if (script.call) frames.push(...callDeltas(draft, script.call).map((delta) => ({ bytes: say(delta) })));
  else
    script.pieces.forEach(
      (text, n) => void frames.push({ after: demoPause(script, n), bytes: say({ content: text }) }),
    );
  const usage = includeUsage ? [chunk([], draft.usage)] : [];
  return [...frames, ...endOf(script, say({}, draft.finish), ...usage)];
}

/** The call's head with nothing in it, then its input in two halves. */
function callDeltas(draft: Draft, tool: DemoTool): object[] {
  const input = inputOf(tool);
  const key = tool.kind === "custom" ? "input" : "arguments";
  const pieces = halves(input).map((piece) => ({
    index: 0,
    [tool.kind]: { [key]: piece },
  }));
  return [{ index: 0, ...callOf(draft, tool, "") }, ...pieces].map((call) => ({ tool_calls: [call] }));
}
