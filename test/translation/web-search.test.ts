import t from "tap";
import type { Conversation, Tool, ToolChoice } from "../../src/translation/conversation.ts";
import { maySearch } from "../../src/translation/web-search.ts";

const search: Tool & { kind: "web_search" } = { kind: "web_search", at: "tools.0" };

const asking = (toolChoice?: ToolChoice): Conversation => ({
  protocol: "any",
  task: "generate",
  stream: false,
  turns: [],
  tools: [search],
  uses: [],
  ...(toolChoice ? { toolChoice } : {}),
});

t.test("web search follows the tool choice", async (t) => {
  t.equal(maySearch(asking(), search), true);
  t.equal(maySearch(asking({ mode: "required" }), search), true);
  t.equal(maySearch(asking({ mode: "none" }), search), false);
  t.equal(maySearch(asking({ mode: "named", name: "web_search", server: true }), search), true);
  t.equal(maySearch(asking({ mode: "named", name: "web_search" }), search), false, "a function of that name");
  t.equal(maySearch(asking({ mode: "allowed", required: false, names: ["web_search"] }), search), true);
  t.equal(maySearch(asking({ mode: "allowed", required: true, names: ["other"] }), search), false);
});

t.test("a search beside the tools is not their choice", async (t) => {
  t.equal(maySearch(asking({ mode: "none" }), { ...search, apart: true }), true);
});
