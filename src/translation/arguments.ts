import { RawJson } from "../wire/exact.ts";
import type { EncodeContext } from "./codec.ts";
import type { ToolCall } from "./conversation.ts";
import { MemberRenamer } from "./rename-members.ts";

/**
 * Reports whether a call's arguments are empty: no text, `null`, or an empty list, which is how some languages serialize an
 * object without members. Protocols whose arguments are objects use `{}` for them.
 */
export function isEmptyArguments(text: string): boolean {
  const bare = text.trim();
  return bare === "" || bare === "null" || /^\[\s*\]$/.test(bare);
}

const NO_ARGUMENTS = new RawJson("{}");

/**
 * Returns a call's arguments as an object with their original text.
 * @param tool the fitted name, where the names of the tool's arguments may have been fitted too
 * @throws GatewayError as `context.refuse` makes it
 */
export function argumentsObject(call: ToolCall, context: EncodeContext, tool?: string): RawJson | { input: string } {
  if (call.custom) return { input: call.arguments };
  if (isEmptyArguments(call.arguments)) return NO_ARGUMENTS;
  const kind = context.nested.kindOf(call.arguments);
  if (kind === "object") {
    const members = tool === undefined ? undefined : context.names.membersOf(tool);
    return new RawJson(members ? new MemberRenamer(members.fitted).push(call.arguments) : call.arguments);
  }
  return context.refuse(
    call.at,
    kind === "large"
      ? "The arguments of this call have too many names or values, or are nested too deep"
      : "The arguments of this call are not a JSON object",
  );
}
