import type { Conversation, Tool, ToolChoice } from "./conversation.ts";
import type { Feature } from "./features.ts";
import { pathOfUse } from "./settings.ts";

/**
 * Declares the vendor's tools that the request depends on: one that must be called, or that the conversation has used before.
 * All others are only offered: without them the response keeps its meaning.
 */
export function declareNeededTools(conversation: Conversation): void {
  const { tools, toolChoice, turns, uses } = conversation;
  const listed = new Set(uses.flatMap(({ feature, path }) => (feature === "tools_server" ? path : [])));
  const isListed = (tool: Tool): boolean => tool.kind === "server" && listed.has(tool.at);
  const names = new Set(tools.flatMap((tool) => (tool.kind === "server" && isListed(tool) ? tool.name : [])));
  if (isForced(toolChoice, names, tools.every(isListed))) {
    const feature: Feature = toolChoice?.mode === "allowed" ? "tool_choice_allowed" : "tool_choice";
    uses.push({ feature: "tools_server_needed", path: pathOfUse(conversation, feature) });
  }
  if (listed.size === 0) return;
  for (const { parts } of turns)
    for (const part of parts) {
      const usedTools = part.kind === "tool_call" ? [part.name] : "tools" in part ? (part.tools ?? []) : [];
      // A tool that the vendor describes and the client runs is called like a function.
      if (usedTools.some((name) => names.has(name) || listed.has(name)))
        uses.push({ feature: "tools_server_needed", path: part.at });
    }
}

/**
 * Reports whether the choice forces a vendor's tool.
 * @param names of the vendor's tools
 * @param onlyVendorTools whether there are no others
 */
function isForced(choice: ToolChoice | undefined, names: ReadonlySet<string>, onlyVendorTools: boolean): boolean {
  switch (choice?.mode) {
    case "required":
      return onlyVendorTools && names.size > 0;
    case "named":
      return names.has(choice.name) || (choice.server === true && choice.name !== "web_search");
    case "allowed":
      return choice.required && choice.names.length > 0 && choice.names.every((name) => names.has(name));
    default:
      return false;
  }
}

/** Returns the conversation with only these tools, and a choice among them only. */
export function withTools(conversation: Conversation, tools: Tool[]): Conversation {
  if (tools.length === conversation.tools.length) return conversation;
  // Vendors refuse a tool choice without tools.
  const { toolChoice, parallel, ...rest } = conversation;
  if (tools.length === 0) return { ...rest, tools };
  if (toolChoice?.mode !== "allowed") return { ...conversation, tools };
  const kept = new Set(tools);
  const removed = new Set(conversation.tools.filter((tool) => !kept.has(tool)).map(choiceName));
  const names = toolChoice.names.filter((name) => !removed.has(name));
  return { ...conversation, tools, toolChoice: names.length > 0 ? { ...toolChoice, names } : { mode: "none" } };
}

const choiceName = (tool: Tool): string => (tool.kind === "web_search" ? tool.kind : tool.name);
