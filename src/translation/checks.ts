import { GatewayError } from "../core/errors.ts";
import { MAX_NAME } from "../wire/window.ts";
import type { Conversation } from "./conversation.ts";
import { invalidField } from "./fields.ts";
import { pathOfUse } from "./settings.ts";

/** Checks that the conversation is not empty. @throws GatewayError `invalid_field` with the client's own path */
export function checkHasTurns({ turns, turnsAt }: Conversation): void {
  if (turns.length === 0 && turnsAt !== undefined)
    throw invalidField(turnsAt, `${turnsAt} is empty: there is nothing to answer.`);
}

/** Characters of the longest name of a tool, or of a namespace, that is translated: no vendor accepts more than 128. */
const MAX_TOOL_NAME = 1024;

/** Tools that a choice may name: vendors accept fewer tools, and each name is looked up among all of them. */
const MAX_CHOSEN = 1024;

/**
 * Checks the length of a tool's name, or of a namespace's, which each of its tools has in its name: fitting it to a provider takes
 * time and memory that grow with both.
 * @throws GatewayError `invalid_field`
 */
function checkToolName(name: string | undefined, param: string): void {
  if (name !== undefined && name.length > MAX_TOOL_NAME)
    throw invalidField(param, `${param} has a name of more than ${MAX_TOOL_NAME} characters.`);
}

/** Checks the length of a call's id: it is looked up, as member names are. @throws GatewayError `invalid_field` */
function checkCallId(id: string, param: string): void {
  if (id.length > MAX_NAME) throw invalidField(param, `${param} has a call's id of more than ${MAX_NAME} characters.`);
}

/**
 * Checks the names of all tools, calls and choices, their number in a choice, and the ids of calls.
 * @throws GatewayError `invalid_field` with the client's own path
 */
export function checkToolNames(conversation: Conversation): void {
  const { tools, toolChoice, turns } = conversation;
  for (const tool of tools) {
    if (tool.kind !== "web_search") checkToolName(tool.name, tool.at);
    if ("namespace" in tool) checkToolName(tool.namespace, tool.at);
  }
  for (const { parts } of turns)
    for (const part of parts) {
      if (part.kind === "tool_call" || part.kind === "tool_result") checkToolName(part.name, part.at);
      if (part.kind === "tool_call") checkToolName(part.namespace, part.at);
      if (part.kind === "tool_call") checkCallId(part.id, part.at);
      if (part.kind === "tool_result") checkCallId(part.callId, part.at);
    }
  if (toolChoice?.mode === "named") checkToolName(toolChoice.name, pathOfUse(conversation, "tool_choice"));
  if (toolChoice?.mode !== "allowed") return;
  const path = pathOfUse(conversation, "tool_choice_allowed");
  if (toolChoice.names.length > MAX_CHOSEN) throw invalidField(path, `${path} names more than ${MAX_CHOSEN} tools.`);
  for (const name of toolChoice.names) checkToolName(name, path);
}

/**
 * Checks that each tool call has one result, and each result a call before it. All vendors require this, and the gateway
 * does not invent missing parts. Calls of the vendor's own tools are not checked.
 * @throws GatewayError `invalid_field` with the client's own path
 */
export function checkToolPairs({ turns }: Conversation): void {
  /** Paths of calls without a result, by call id; undefined once a call has one. */
  const open = new Map<string, string | undefined>();
  for (const { parts } of turns) {
    for (const part of parts) {
      if (part.kind === "tool_call") {
        if (open.get(part.id) !== undefined)
          throw toolPairError(part.at, `The tool call id "${part.id}" occurs twice.`);
        open.set(part.id, part.at);
      } else if (part.kind === "tool_result") {
        if (!open.has(part.callId))
          throw toolPairError(
            part.at,
            `This is the result of the tool call "${part.callId}", which no assistant turn before it makes.`,
          );
        if (open.get(part.callId) === undefined)
          throw toolPairError(part.at, `The tool call "${part.callId}" has a result already.`);
        open.set(part.callId, undefined);
      }
    }
  }
  for (const [id, at] of open) if (at !== undefined) throw toolPairError(at, `The tool call "${id}" has no result.`);
}

const toolPairError = (param: string, message: string): GatewayError =>
  new GatewayError("invalid_field", {
    message: `${param}: ${message}`,
    hint: "Send each call with its result, or neither.",
    param,
  });
