import {
  asCount,
  asList,
  asObject,
  asText,
  type DemoScript,
  demoId,
  demoScript,
  demoStream,
  demoTokens,
  demoWhole,
  type JsonObject,
  textOf,
} from "model-gateway/protocol";
import { answering, type DemoTool, inputOf, tokensOf } from "../openai/demo.ts";
import { eventsOf } from "./demo-stream.ts";

/** One inside a namespace is called with the namespace's name beside its own. */
interface Tool extends DemoTool {
  namespace: string | undefined;
}

/** The demo provider's responses. */
export const demo = answering((request, body) => {
  const items = itemsOf(body["input"]);
  const prompt =
    (asText(body["instructions"]) ?? "") + items.map((item) => textOf(item["content"] ?? item["output"])).join("");
  if (request.operation.name === "input_tokens") {
    return demoWhole({ object: "response.input_tokens", input_tokens: demoTokens(prompt) });
  }
  const id = demoId(request);
  const script = scriptOf(request.model, body, items);
  if (request.operation.name === "compact") return demoWhole(compacted(id, items, prompt), script);

  const compact = items.at(-1)?.["type"] === "compaction_trigger";
  const output = compact ? [compaction(id, prompt)] : outputOf(id, script);
  const response = responseOf(id, body, request.model, script.end === "length");
  const whole = { ...response, output, usage: usageOf(prompt, script) };
  return request.streaming ? demoStream(eventsOf(whole, script, request.operation)) : demoWhole(whole, script);
});

/** The input as a list of items; a plain text is one message. */
function itemsOf(input: unknown): JsonObject[] {
  if (typeof input === "string") return [{ type: "message", role: "user", content: input }];
  return asList(input).map((item) => asObject(item) ?? {});
}

function scriptOf(model: string, body: JsonObject, items: readonly JsonObject[]): DemoScript<Tool> {
  const last = items.at(-1);
  const answered = /^(function|custom_tool)_call_output$/.test(asText(last?.["type"]) ?? "");
  return demoScript<Tool>(model, {
    text: textOf(items.findLast((item) => item["role"] === "user")?.["content"]),
    tools: wantedTools(body, items),
    result: answered ? textOf(last?.["output"]) : undefined,
    limit: asCount(body["max_output_tokens"]),
  });
}

/** Tools that may be called. Newer agents send theirs as an `additional_tools` item instead of in `tools`. */
function wantedTools(body: JsonObject, items: readonly JsonObject[]): Tool[] {
  const choice = body["tool_choice"];
  if (choice === "none") return [];
  const more = items.filter((item) => item["type"] === "additional_tools").flatMap((item) => asList(item["tools"]));
  const tools = [...asList(body["tools"]), ...more].flatMap((tool) => toolsOf(asObject(tool) ?? {}, undefined));
  const wanted = asObject(choice)?.["name"];
  return wanted === undefined ? tools : tools.filter((tool) => tool.name === wanted);
}

function toolsOf(tool: JsonObject, namespace: string | undefined): Tool[] {
  const kind = tool["type"];
  const name = asText(tool["name"]);
  if (name === undefined) return [];
  if (kind === "namespace") return asList(tool["tools"]).flatMap((inner) => toolsOf(asObject(inner) ?? {}, name));
  return kind === "function" || kind === "custom" ? [{ kind, name, namespace, schema: tool["parameters"] }] : [];
}

/** The finished items, in order. */
function outputOf(id: string, script: DemoScript<Tool>): JsonObject[] {
  const output: JsonObject[] = [];
  if (script.reasoning !== undefined) {
    const summary = [{ type: "summary_text", text: script.reasoning }];
    output.push({ id: `rs_demo${id}`, type: "reasoning", summary, encrypted_content: sealed(script.reasoning) });
  }
  const status = script.end === "length" ? "incomplete" : "completed";
  if (script.call) output.push({ ...callOf(id, script.call), status });
  else {
    const content = [{ type: "output_text", text: script.pieces.join(""), annotations: [], logprobs: [] }];
    output.push({ id: `msg_demo${id}`, type: "message", status, role: "assistant", content });
  }
  return output;
}

function callOf(id: string, tool: Tool): JsonObject {
  const named = {
    call_id: `call_demo${id}`,
    name: tool.name,
    ...(tool.namespace ? { namespace: tool.namespace } : {}),
  };
  if (tool.kind === "custom") return { id: `ctc_demo${id}`, type: "custom_tool_call", ...named, input: inputOf(tool) };
  return { id: `fc_demo${id}`, type: "function_call", ...named, arguments: inputOf(tool) };
}

/** Text in the shape of the vendor's sealed blobs, which begin with the version byte 0x80. It hides nothing. */
const sealed = (text: string): string =>
  Buffer.concat([Buffer.from([0x80, 0, 0, 0]), Buffer.from(text)]).toString("base64url");

const compaction = (id: string, prompt: string): JsonObject => ({
  id: `cmp_demo${id}`,
  type: "compaction",
  encrypted_content: sealed(`${prompt.length} characters were here.`),
});

/** User messages stay, everything else goes into one compaction item. */
function compacted(id: string, items: readonly JsonObject[], prompt: string) {
  const kept = items
    .filter((item) => item["role"] === "user")
    .map((item, n) => ({
      id: `msg_demo${id}${n}`,
      type: "message",
      status: "completed",
      role: "user",
      content: partsOf(item),
    }));
  const output = [...kept, compaction(id, prompt)];
  return {
    id: `resp_demo${id}`,
    object: "response.compaction",
    created_at: Math.floor(Date.now() / 1000),
    output,
    usage: usageOf(prompt, { pieces: [] }),
  };
}

const partsOf = ({ content }: JsonObject): unknown =>
  typeof content === "string" ? [{ type: "input_text", text: content }] : content;

/** The response without its output and usage: status, and an echo of what was asked. */
function responseOf(id: string, body: JsonObject, model: string, incomplete: boolean): JsonObject {
  const now = Math.floor(Date.now() / 1000);
  return {
    id: `resp_demo${id}`,
    object: "response",
    created_at: now,
    completed_at: incomplete ? null : now,
    status: incomplete ? "incomplete" : "completed",
    background: false,
    error: null,
    incomplete_details: incomplete ? { reason: "max_output_tokens" } : null,
    instructions: body["instructions"] ?? null,
    max_output_tokens: body["max_output_tokens"] ?? null,
    metadata: body["metadata"] ?? {},
    model: asText(body["model"]) ?? model,
    parallel_tool_calls: body["parallel_tool_calls"] ?? true,
    previous_response_id: null,
    reasoning: body["reasoning"] ?? { effort: null, summary: null },
    service_tier: "default",
    store: false,
    temperature: body["temperature"] ?? 1,
    text: body["text"] ?? { format: { type: "text" } },
    tool_choice: body["tool_choice"] ?? "auto",
    tools: body["tools"] ?? [],
    top_p: body["top_p"] ?? 1,
    truncation: "disabled",
    user: null,
  };
}

function usageOf(prompt: string, script: Pick<DemoScript<Tool>, "reasoning" | "call" | "pieces">): JsonObject {
  const tokens = tokensOf(prompt, script);
  return {
    input_tokens: tokens.input,
    input_tokens_details: { cached_tokens: 0, cache_write_tokens: 0 },
    output_tokens: tokens.output,
    output_tokens_details: { reasoning_tokens: tokens.reasoning },
    total_tokens: tokens.total,
  };
}
