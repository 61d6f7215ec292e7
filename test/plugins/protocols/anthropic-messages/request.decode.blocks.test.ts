import t from "tap";
import { type JsonObject } from "../../../../src/wire/values.ts";
import { NAME, question, read } from "./speaking.ts";

const text = { type: "text", text: "x" };
const blocks: Record<string, JsonObject> = {
  text,
  image: { type: "image", source: { type: "url", url: "https://i" } },
  document: { type: "document", source: { type: "url", url: "https://d" } },
  search_result: { type: "search_result", title: "T", source: "S", content: [text] },
  thinking: { type: "thinking", thinking: "x", signature: "x" },
  redacted_thinking: { type: "redacted_thinking", data: "x" },
  tool_use: { type: "tool_use", id: "a", name: "f", input: {} },
  tool_result: { type: "tool_result", tool_use_id: "a" },
  tool_reference: { type: "tool_reference", tool_name: "f" },
  brand_new: { type: "brand_new" },
};
/** A request with a block, and the block's path in it. */
const places: Record<string, (block: JsonObject) => [body: JsonObject, at: string]> = {
  system: (block) => [question({ system: [block] }), "system.0"],
  user: (block) => [question({ messages: [{ role: "user", content: [block] }] }), "messages.0.content.0"],
  assistant: (block) => [question({ messages: [{ role: "assistant", content: [block] }] }), "messages.0.content.0"],
  "system in place": (block) => [
    question({ messages: [{ role: "system", content: [block] }] }),
    "messages.0.content.0",
  ],
  result: (block) => {
    const content = [{ type: "tool_result", tool_use_id: "a", content: [block] }];
    return [question({ messages: [{ role: "user", content }] }), "messages.0.content.0.content.0"];
  },
};

t.test("thoughts and calls are the assistant's, results the user's: elsewhere they are refused", async (t) => {
  const homes: Record<string, string> = {
    thinking: "assistant",
    redacted_thinking: "assistant",
    tool_use: "assistant",
    tool_result: "user",
  };
  for (const [type, block] of Object.entries(blocks))
    for (const [place, asking] of Object.entries(places)) {
      const [body, at] = asking(block);
      const home = homes[type] ?? place;
      if (home === place) t.ok(read(body), `${type} in ${place}`);
      else t.throws(() => read(body), { code: "invalid_field", param: at }, `${type} in ${place}`);
      t.ok(read(body, { native: true }), "between equals the vendor judges");
    }
});

t.test("texts of which a document or a search result is made may bear a mark; only that is left out", async (t) => {
  const marked = { ...text, cache_control: { type: "ephemeral" }, citations: null };
  const made = {
    document: { type: "document", source: { type: "content", content: [text, marked] } },
    search_result: { type: "search_result", title: "T", source: "S", content: [text, marked] },
  };
  const at = { document: "source.content", search_result: "content" };
  for (const [type, block] of Object.entries(made)) {
    const asked = read(question({ messages: [{ role: "user", content: [block] }] }));
    const [part] = asked.turns[0]?.parts ?? [];
    t.match(JSON.stringify(part), /x\\n\\nx/, type);
    const path = `messages.0.content.0.${at[type as keyof typeof at]}.1.cache_control`;
    t.match(
      asked.uses.filter(({ feature }) => feature === "other"),
      [{ path }],
    );
    const own = read(question({ messages: [{ role: "user", content: [block] }] }), { native: true });
    t.match(own.turns[0]?.parts, [{ kind: "foreign", protocol: NAME }], "between equals it is as it was");
  }
});
