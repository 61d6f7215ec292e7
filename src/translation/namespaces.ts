import type { Conversation } from "./conversation.ts";

/**
 * Calls bear the names that their tools are offered by. A tool that was found while searching for tools is called in a
 * namespace that no tool of the request stands in: nobody but the vendor that searched would know it by that.
 */
export function dropUnknownNamespaces({ turns, tools }: Conversation): void {
  const namespaces = new Set(tools.map((tool) => ("namespace" in tool ? tool.namespace : undefined)));
  for (const { parts } of turns)
    for (const part of parts) if (part.kind === "tool_call" && !namespaces.has(part.namespace)) delete part.namespace;
}
