import type { Conversation } from "./conversation.ts";

/**
 * Removes unknown namespaces from tool calls. A tool found by the vendor's tool search is called in a namespace that no tool
 * of the request has: only the vendor that searched would know it by that name.
 */
export function dropUnknownNamespaces({ turns, tools }: Conversation): void {
  const namespaces = new Set(tools.map((tool) => ("namespace" in tool ? tool.namespace : undefined)));
  for (const { parts } of turns)
    for (const part of parts) if (part.kind === "tool_call" && !namespaces.has(part.namespace)) delete part.namespace;
}
