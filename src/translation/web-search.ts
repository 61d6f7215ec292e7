import type { Conversation, Tool } from "./conversation.ts";

/** Reports whether the tool choice allows web search. */
export function maySearch({ toolChoice }: Conversation, search: Tool & { kind: "web_search" }): boolean {
  if (search.apart) return true;
  switch (toolChoice?.mode) {
    case "none":
      return false;
    case "named":
      return toolChoice.server === true && toolChoice.name === "web_search";
    case "allowed":
      return toolChoice.names.includes("web_search");
    default:
      return true;
  }
}
