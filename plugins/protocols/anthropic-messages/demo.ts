import {
  asCount,
  asList,
  asObject,
  asText,
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
  type JsonObject,
  sampleOf,
  textOf,
} from "model-gateway/protocol";
import { errorBody, errorEvent } from "./errors.ts";

/** What the vendor sends after the first event, and in long silences. */
export const PING = Buffer.from('event: ping\ndata: {"type": "ping"}\n\n');

/** Milliseconds before a stream is cut, so that what was sent has been read: clients drop what lies behind it. */
const SETTLE = 100;

/** A content block, and the deltas that make it grow when it is streamed. */
interface Block {
  whole: JsonObject;
  /** The block as it is opened, still empty. */
  opened: JsonObject;
  deltas: { after?: number; delta: JsonObject }[];
}

/** The demo provider's answers; a request is answered the same however often it is sent. */
export function demo(request: DemoRequest): DemoAnswer {
  const id = demoId(request);
  const answer = answerTo(request, id);
  return { ...answer, headers: { ...answer.headers, "request-id": `req_${id}` } };
}

function answerTo(request: DemoRequest, id: string): DemoAnswer {
  const fault = demoFault(request.model, request.streaming);
  if (fault) return demoRefusal(fault, errorBody(fault, `req_${id}`));
  const body = asObject(request.body) ?? {};
  if (!request.operation.generates) return demoWhole({ input_tokens: inputTokens(body) });
  const script = scriptOf(request.model, body);
  const blocks = blocksOf(script, id);
  const message = {
    id: `msg_${id}`,
    type: "message",
    role: "assistant",
    model: request.model,
    content: blocks.map((block) => block.whole),
    stop_reason: script.call ? "tool_use" : script.end === "length" ? "max_tokens" : "end_turn",
    stop_sequence: null,
    usage: usageOf(script, body),
  };
  return request.streaming ? demoStream(streamed(message, script, blocks)) : demoWhole(message, script);
}

/** The last user message decides: a tool's result in it comes before its text. */
function scriptOf(model: string, body: JsonObject): DemoScript<JsonObject> {
  const turns = asList(body["messages"]).map(asObject);
  const content = turns.findLast((turn) => turn?.["role"] === "user")?.["content"];
  const result = asList(content).findLast((part) => asObject(part)?.["type"] === "tool_result");
  return demoScript(model, {
    text: textOf(content),
    tools: callable(body),
    result: result === undefined ? undefined : textOf(asObject(result)?.["content"]),
    limit: asCount(body["max_tokens"]),
  });
}

/** Tools that the client runs, the chosen one first. Server tools have no schema. */
function callable(body: JsonObject): JsonObject[] {
  const choice = asObject(body["tool_choice"]);
  if (choice?.["type"] === "none") return [];
  const tools = asList(body["tools"]).map(asObject);
  const own = tools.filter((tool): tool is JsonObject => asObject(tool?.["input_schema"]) !== undefined);
  const chosen = own.filter((tool) => tool["name"] === choice?.["name"]);
  return [...chosen, ...own];
}

function blocksOf(script: DemoScript<JsonObject>, id: string): Block[] {
  const blocks: Block[] = [];
  if (script.reasoning !== undefined) blocks.push(thinking(script.reasoning, id));
  if (script.call) blocks.push(toolUse(script.call, id));
  else if (script.pieces.length > 0) blocks.push(text(script));
  return blocks;
}

function thinking(thoughts: string, id: string): Block {
  const signature = Buffer.from(`A signature of the demo, worth nothing elsewhere: ${id}`).toString("base64");
  return {
    whole: { type: "thinking", thinking: thoughts, signature },
    opened: { type: "thinking", thinking: "", signature: "" },
    deltas: [
      ...thoughts.split(/(?<= )/).map((piece) => ({ delta: { type: "thinking_delta", thinking: piece } })),
      { delta: { type: "signature_delta", signature } },
    ],
  };
}

/** Arguments come as pieces of JSON text, the first one empty. [F] */
function toolUse(tool: JsonObject, id: string): Block {
  const input = sampleOf(tool["input_schema"]);
  const json = JSON.stringify(input);
  const pieces = ["", json.slice(0, json.length >> 1), json.slice(json.length >> 1)];
  const call = { type: "tool_use", id: `toolu_${id}`, name: asText(tool["name"]) ?? "" };
  return {
    whole: { ...call, input },
    opened: { ...call, input: {} },
    deltas: pieces.map((piece) => ({ delta: { type: "input_json_delta", partial_json: piece } })),
  };
}

function text(script: DemoScript<JsonObject>): Block {
  return {
    whole: { type: "text", text: script.pieces.join("") },
    opened: { type: "text", text: "" },
    deltas: script.pieces.map((piece, n) => ({
      after: demoPause(script, n),
      delta: { type: "text_delta", text: piece },
    })),
  };
}

function streamed(
  message: JsonObject & { usage: JsonObject },
  script: DemoScript<JsonObject>,
  blocks: readonly Block[],
): DemoFrame[] {
  const { stop_reason, stop_sequence, usage } = message;
  // What is undefined does not appear in JSON. Some clients add both output counts up, so the first one is 0.
  const begun = { ...usage, output_tokens: 0, output_tokens_details: undefined };
  const start = { ...message, content: [], stop_reason: null, usage: begun };
  const frames = [event("message_start", { message: start }), { bytes: PING }, ...blocks.flatMap(grown)];
  if (script.end === "cut") return [...frames.slice(0, -1), { after: SETTLE, bytes: "", cut: true }];
  if (script.end === "error") {
    const fault = faultOf(529, "This is the error in a stream that the demo model error-stream is for.");
    return [...frames.slice(0, -1), { bytes: errorEvent(fault, `req_${message["id"]}`) }];
  }
  const total = { ...usage, service_tier: undefined };
  return [
    ...frames,
    event("message_delta", { delta: { stop_reason, stop_sequence }, usage: total }),
    event("message_stop", {}),
  ];
}

/** A block's events: opened, grown, closed. */
function grown({ opened, deltas }: Block, index: number): DemoFrame[] {
  return [
    event("content_block_start", { index, content_block: opened }),
    ...deltas.map(({ after = 0, delta }) => ({ after, ...event("content_block_delta", { index, delta }) })),
    event("content_block_stop", { index }),
  ];
}

const event = (type: string, members: JsonObject): DemoFrame => ({ bytes: eventBytes({ type, ...members }, type) });

function usageOf({ reasoning, call, pieces }: DemoScript<JsonObject>, body: JsonObject) {
  const thinking = demoTokens(reasoning ?? "");
  const uses = call ? JSON.stringify(sampleOf(call["input_schema"])) : pieces.join("");
  return {
    input_tokens: inputTokens(body),
    cache_creation_input_tokens: 0,
    cache_read_input_tokens: 0,
    output_tokens: thinking + demoTokens(uses),
    ...(reasoning === undefined ? {} : { output_tokens_details: { thinking_tokens: thinking } }),
    service_tier: "standard",
  };
}

/** What the request's text would cost, media left out. */
const inputTokens = (body: JsonObject): number =>
  demoTokens([...strings(body["system"]), ...strings(body["messages"]), ...strings(body["tools"])].join(""));

function* strings(value: unknown): Generator<string> {
  if (typeof value === "string") yield value;
  else if (typeof value === "object" && value !== null)
    for (const [name, member] of Object.entries(value))
      if (name !== "data" && name !== "signature") yield* strings(member);
}
