import t from "tap";
import type { Conversation, Part, Tool, ToolChoice } from "../../src/translation/conversation.ts";
import { declareNeededTools, withTools } from "../../src/translation/vendor-tools.ts";

const own = (name: string): Tool => ({ kind: "function", name, at: `own.${name}` });
const server = (name: string): Tool => ({ kind: "server", protocol: "p", name, json: {}, at: `server.${name}` });
const SEARCH: Tool = { kind: "web_search", at: "search" };

const talk = (tools: Tool[], toolChoice?: ToolChoice, parts: Part[] = []): Conversation => ({
  protocol: "p",
  task: "generate",
  stream: false,
  turns: [{ role: "assistant", at: "turn", parts }],
  tools,
  ...(toolChoice ? { toolChoice } : {}),
  parallel: false,
  uses: [
    { feature: "tool_choice", path: "choice" },
    { feature: "tool_choice_allowed", path: "allowed" },
    ...tools.flatMap(({ kind, at }) => (kind === "server" ? [{ feature: "tools_server" as const, path: at }] : [])),
  ],
});

function needed(conversation: Conversation): string[] {
  declareNeededTools(conversation);
  return conversation.uses.flatMap(({ feature, path }) => (feature === "tools_server_needed" ? path : []));
}

const allowed = (required: boolean, ...names: string[]): ToolChoice => ({ mode: "allowed", required, names });

t.test("a vendor's tool is required where nothing else can be called", async (t) => {
  const tools = [own("f"), server("draw")];
  for (const mode of ["auto", "none", "required"] as const) t.same(needed(talk(tools, { mode })), []);
  t.same(needed(talk(tools)), []);
  t.same(needed(talk([server("draw"), server("run")], { mode: "required" })), ["choice"]);
  t.same(needed(talk([server("draw"), SEARCH], { mode: "required" })), []);
  t.same(needed(talk([], { mode: "required" })), []);
  t.same(needed(talk(tools, { mode: "named", name: "f" })), []);
  t.same(needed(talk(tools, { mode: "named", name: "draw" })), ["choice"]);
  t.same(
    needed(talk(tools, { mode: "named", name: "mcp", server: true })),
    ["choice"],
    "whichever tool is not offered",
  );
  t.same(needed(talk(tools, { mode: "named", name: "web_search", server: true })), []);
  t.same(needed(talk(tools, allowed(true, "draw"))), ["allowed"]);
  for (const choice of [allowed(false, "draw"), allowed(true, "draw", "f"), allowed(true)])
    t.same(needed(talk(tools, choice)), []);
});

t.test("a vendor's tool is required once the conversation has used it", async (t) => {
  const made: Part = { kind: "foreign", protocol: "p", name: "draw_call", tools: ["draw"], json: {}, at: "made" };
  const call: Part = { kind: "tool_call", id: "1", name: "bash", arguments: "", at: "call" };
  t.same(needed(talk([server("draw")], undefined, [made])), ["made"]);
  t.same(needed(talk([server("run")], undefined, [made])), [], "another one");
  t.same(needed(talk([own("f")], undefined, [made])), [], "it is not offered any more");
  t.same(needed(talk([server("bash")], undefined, [call])), ["call"], "the client runs it itself");
  t.same(needed(talk([own("bash"), server("draw")], undefined, [call])), []);
  const path = talk([own("f")], undefined, [{ ...made, tools: ["servers"] }]);
  path.uses.push({ feature: "tools_server", path: "servers" });
  t.same(needed(path), ["made"], "offered by a member of the request");
  const dispensable = talk([server("draw")], undefined, [made]);
  t.same(needed({ ...dispensable, uses: [] }), [], "declared as something that is not needed");
});

t.test("without tools there is no tool choice", async (t) => {
  const tools = [own("f"), server("draw")];
  const choice = allowed(true, "draw", "f");
  t.equal(withTools(talk(tools, choice), [...tools]).toolChoice, choice);
  t.match(withTools(talk(tools, choice), tools.slice(0, 1)), { toolChoice: allowed(true, "f"), parallel: false });
  t.match(withTools(talk(tools, allowed(false, "draw")), tools.slice(0, 1)), { toolChoice: { mode: "none" } });
  t.match(withTools(talk(tools, { mode: "auto" }), tools.slice(0, 1)), { toolChoice: { mode: "auto" } });
  const none = withTools(talk(tools.slice(1), { mode: "auto" }), []);
  t.same([none.tools, none.toolChoice, none.parallel], [[], undefined, undefined]);
});
