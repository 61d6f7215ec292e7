/** The built-in demo provider: one script for all protocols, encoded by each protocol's own codecs. */
import { GatewayError } from "../core/errors.ts";
import { type Fault, statusFault } from "../core/fault.ts";
import type { DemoAnswer, DemoRequest, Protocol } from "../core/protocol.ts";
import type { Usage } from "../core/usage.ts";
import { type ClientTranslation, clientTranslationOf, type ResponseContext, translationOf } from "./codec.ts";
import type { Conversation, Part, Tool } from "./conversation.ts";
import { demoImageEvents } from "./demo-image.ts";
import {
  DEMO_CUT,
  type DemoScript,
  demoErrorAnswer,
  demoFault,
  demoId,
  demoPause,
  demoScript,
  demoStream,
  demoTokens,
  demoWhole,
  sampleOf,
} from "./demo-script.ts";
import { answerContext, decodeAnswered, encodeEvents, type TimedEvent } from "./encode-answer.ts";
import type { Event, Opaque } from "./events.ts";
import { invalidField } from "./fields.ts";
import { pathOfUse } from "./settings.ts";
import { runAtOnce } from "./steps.ts";

/** A tool that the demo model can call: the client runs it. */
type CallableTool = Tool & { kind: "function" | "custom" };

/** Parts of the script that only one protocol can express. */
interface DemoExtra {
  /** Whether the response holds an image. */
  readonly image?: boolean;
  /** Opaque state attached to a tool call. */
  readonly callState?: string;
}

/**
 * Returns the demo provider's response to a request; identical for identical requests.
 * @param extra what only this protocol can express
 */
export function demoAnswer(protocol: Protocol, request: DemoRequest, extra: DemoExtra = {}): DemoAnswer {
  const id = demoId(request);
  const answer = answerRequest(protocol, request, id, extra);
  const ids = (protocol.idHeaders ?? []).map((name) => [name, `req_${id}`] as const);
  return { ...answer, headers: { ...answer.headers, ...Object.fromEntries(ids) } };
}

function answerRequest(protocol: Protocol, request: DemoRequest, id: string, extra: DemoExtra): DemoAnswer {
  try {
    const ownAnswer = extra.image || extra.callState ? undefined : protocol.demo?.(request);
    if (ownAnswer) return ownAnswer;
    const fault = demoFault(request.model, request.streaming);
    if (fault) return encodeDemoError(protocol, fault, id);
    const codec = clientTranslationOf(protocol);
    if (!codec) throw new Error(`The protocol ${protocol.name} has neither a translation nor a demo of its own.`);
    const conversation = decodeAnswered(protocol, codec, request);
    if (conversation.task === "count") return answerCount(protocol, conversation);
    refuseUnsupported(conversation);
    const script = scriptForTurns(request.model, conversation, extra);
    const events = scriptEvents(protocol, script, conversation, { id, model: request.model, extra });
    const context = answerContext(request, conversation, id);
    if (request.streaming) return encodeStream(protocol, codec, script, events, request, context);
    return demoWhole(JSON.parse(runAtOnce(codec.response.encode(events, context))), script);
  } catch (thrown) {
    if (!(thrown instanceof GatewayError)) throw thrown;
    return encodeDemoError(protocol, thrown, id);
  }
}

function encodeDemoError(protocol: Protocol, fault: Fault, id: string): DemoAnswer {
  return demoErrorAnswer(fault, protocol.error(toGatewayError(fault), `req_${id}`));
}

/** Returns the response to a request for a stored response. */
export function demoNotStored(protocol: Protocol): DemoAnswer {
  const message =
    "The demo provider keeps no answers: there is none to fetch, cancel or delete. Send the whole conversation again, or ask a model whose provider keeps them.";
  return encodeDemoError(protocol, statusFault(404, message), "demo");
}

const toGatewayError = (fault: Fault): GatewayError =>
  fault instanceof GatewayError
    ? fault
    : new GatewayError("upstream_refused", {
        status: fault.status,
        kind: fault.kind,
        message: fault.message,
        providerCode: fault.code,
        ...(fault.param === undefined ? {} : { param: fault.param }),
        ...(fault.kind.endsWith("_limit") ? { retryAfter: 1 } : {}),
      });

function answerCount(protocol: Protocol, conversation: Conversation): DemoAnswer {
  const count = translationOf(protocol)?.count;
  return demoWhole(JSON.parse(count?.encode(demoTokens(promptText(conversation))) ?? "{}"));
}

/** Refuses features that would change the response and that the demo lacks. @throws GatewayError like a vendor's error */
function refuseUnsupported(conversation: Conversation): void {
  const { choices = 1, logprobs } = conversation;
  if (choices <= 1 && logprobs === undefined) return;
  const [feature, limitation] =
    choices > 1 ? (["choices", "one answer only"] as const) : (["logprobs", "no likelihoods of tokens"] as const);
  const param = pathOfUse(conversation, feature);
  throw invalidField(
    param,
    `${param}: the demo provider gives ${limitation}.`,
    "Leave it out, or ask another provider's model.",
  );
}

/** Returns the script for the user's last turn: a tool's result in it takes precedence over its text. */
function scriptForTurns(model: string, conversation: Conversation, extra: DemoExtra): DemoScript<CallableTool> {
  const { turns, maxTokens, stop } = conversation;
  const last = turns.findLast(({ role }) => role === "user");
  const lastResult = turns.at(-1)?.parts.findLast((part) => part.kind === "tool_result");
  return demoScript(model, {
    text: partsText(last?.parts ?? []),
    tools: callableTools(conversation),
    result: lastResult === undefined ? undefined : (lastResult.json ?? partsText(lastResult.parts)),
    limit: maxTokens,
    stop,
    image: extra.image ?? false,
  });
}

/** Returns the tools that may be called, a required one first. */
function callableTools({ tools, toolChoice: choice }: Conversation): CallableTool[] {
  if (choice?.mode === "none") return [];
  const clientTools = tools.filter((tool) => tool.kind === "function" || tool.kind === "custom");
  if (choice?.mode === "named") return clientTools.filter(({ name }) => name === choice.name);
  return choice?.mode === "allowed" ? clientTools.filter(({ name }) => choice.names.includes(name)) : clientTools;
}

function scriptEvents(
  protocol: Protocol,
  script: DemoScript<CallableTool>,
  conversation: Conversation,
  { id, model, extra }: { id: string; model: string; extra: DemoExtra },
): TimedEvent[] {
  const usage = usageOf(script, conversation);
  const { total } = usage.in;
  const start: Event = { type: "start", id, model, created: Math.floor(Date.now() / 1000) };
  const events: TimedEvent[] = [{ ...start, usage: { in: { total: total ?? 0 }, out: {}, raw: undefined } }];
  if (script.reasoning !== undefined) events.push(...reasoningEvents(protocol, script.reasoning, id, model));
  const block = script.reasoning === undefined ? 0 : 1;
  const state = extra.callState === undefined ? undefined : demoState(protocol, model, extra.callState);
  if (script.call) events.push(...callEvents(script.call, id, block, state));
  else if (script.pieces.length > 0) events.push(...textEvents(script, block));
  if (script.end === "cut" || script.end === "error") return withoutLastClose(events);
  const { stopped } = script;
  const reason = script.call ? "tool_calls" : script.end === "length" ? "length" : stopped ? "stop_sequence" : "stop";
  return [
    ...events,
    ...(extra.image ? demoImageEvents(block + 1) : []),
    { type: "finish", choice: 0, reason, ...(stopped === undefined ? {} : { stopSequence: stopped }) },
    { type: "usage", usage },
    { type: "end" },
  ];
}

/** Removes the last `close`: a response that breaks off leaves its block open. */
const withoutLastClose = (events: TimedEvent[]): TimedEvent[] =>
  events.at(-1)?.type === "close" ? events.slice(0, -1) : events;

const demoState = ({ name }: Protocol, model: string, data: string): Opaque => ({
  protocol: name,
  account: "demo",
  model,
  kind: "signature",
  data,
});

function reasoningEvents(protocol: Protocol, thoughts: string, id: string, model: string): Event[] {
  const data = Buffer.from(`State of the demo, worth nothing elsewhere: ${id}`).toString("base64");
  return [
    { type: "open", block: 0, choice: 0, kind: "reasoning" },
    ...thoughts.split(/(?<= )/).map((text): Event => ({ type: "text", block: 0, text })),
    { type: "opaque", block: 0, opaque: demoState(protocol, model, data) },
    { type: "close", block: 0 },
  ];
}

function callEvents(tool: CallableTool, id: string, block: number, opaque: Opaque | undefined): Event[] {
  const input = callInput(tool);
  const half = input.length >> 1;
  const custom = tool.kind === "custom";
  return [
    {
      type: "open",
      block,
      choice: 0,
      kind: "tool_call",
      id: `call_demo${id}`,
      name: tool.name,
      ...(custom ? { custom } : {}),
      ...(tool.namespace === undefined ? {} : { namespace: tool.namespace }),
      ...(opaque ? { opaque } : {}),
    },
    { type: "arguments", block, text: input.slice(0, half) },
    { type: "arguments", block, text: input.slice(half) },
    { type: "close", block },
  ];
}

function textEvents(script: DemoScript<unknown>, block: number): TimedEvent[] {
  return [
    { type: "open", block, choice: 0, kind: "text" },
    ...script.pieces.map((text, n): TimedEvent => ({ type: "text", block, text, after: demoPause(script, n) })),
    { type: "close", block },
  ];
}

/** Returns the input of a tool call: JSON for a function, free text for a custom tool. */
const callInput = (tool: CallableTool): string =>
  tool.kind === "custom" ? "demo" : JSON.stringify(sampleOf(tool.parameters?.value ?? {}));

function usageOf({ reasoning, call, pieces }: DemoScript<CallableTool>, conversation: Conversation): Usage {
  const thoughts = demoTokens(reasoning ?? "");
  const answer = demoTokens(call ? call.name + callInput(call) : pieces.join(""));
  return {
    in: { total: demoTokens(promptText(conversation)), cached: 0 },
    out: { total: thoughts + answer, ...(reasoning === undefined ? {} : { reasoning: thoughts }) },
    raw: undefined,
  };
}

const promptText = ({ turns }: Conversation): string => turns.map(({ parts }) => partsText(parts)).join("");

const partsText = (parts: readonly Part[]): string =>
  parts.flatMap((part) => (part.kind === "text" ? [part.text] : [])).join("\n");

/** Milliseconds before a stream fails, so that sent frames have been read: clients discard data that arrives with the failure. */
const FAILURE_DELAY = 100;

/** The error in the stream of `error-stream`. */
const STREAM_FAULT: Fault = statusFault(500, "The demo model failed in mid-stream, as it is made to.");

function encodeStream(
  protocol: Protocol,
  codec: ClientTranslation,
  script: DemoScript<unknown>,
  events: readonly TimedEvent[],
  { operation }: DemoRequest,
  context: ResponseContext,
): DemoAnswer {
  const { framing, frames } = encodeEvents(codec, operation, events, context);
  if (script.end === "cut") frames.push(DEMO_CUT);
  else if (script.end === "error")
    frames.push({
      after: FAILURE_DELAY,
      bytes: protocol.streamError(toGatewayError(STREAM_FAULT), `req_${context.id}`, framing.state),
    });
  else for (const { bytes } of framing.close()) frames.push({ bytes });
  return demoStream(frames, framing.type);
}
