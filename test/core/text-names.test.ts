import t from "tap";
import { checkTextNames } from "../../src/core/text-names.ts";
import { loadProtocols } from "../../src/loader/discover.ts";
import { SPEAKS_TEXT } from "../support/speaks-text.ts";

const TINY = {
  texts: { ...SPEAKS_TEXT.texts, names: { containers: ["list", "bothWords"], members: ["text", "kind"] } },
};

t.test("a text under a name in other letters is refused, wherever texts are", async (t) => {
  for (const [json, param] of [
    [{ List: [] }, "List"],
    [{ list: [{ text: "a" }, { text: "a", teXt: "b" }] }, "list.1.teXt"],
    [{ bothWords: { list: [{ \u212aind: "user" }] } }, "bothWords.list.0.\u212aind"],
    [{ bothwordS: [] }, "bothwordS"],
  ] as const)
    t.throws(() => checkTextNames(json, TINY), { code: "invalid_field", param }, param);
});

t.test("other names are the client's own", async (t) => {
  for (const json of [
    { text: { Text: "b" } },
    { other: { List: [] } },
    { list: ["Text", null, { texts: "" }] },
    null,
    "List",
  ])
    t.doesNotThrow(() => checkTextNames(json, TINY), JSON.stringify(json));
  t.doesNotThrow(() => checkTextNames({ List: [] }, SPEAKS_TEXT), "a protocol that declares no names");
});

t.test("each protocol's messages, and the texts in them, are read under one name only", async (t) => {
  const cases: Record<string, readonly object[]> = {
    "openai-chat": [{ Messages: [] }, { messages: [{ role: "user", content: "a", Content: "b" }] }],
    "openai-responses": [{ Input: "b" }, { input: [{ content: [{ type: "input_text", Text: "b" }] }] }],
    "anthropic-messages": [{ SYSTEM: "b" }, { messages: [{ Content: "b" }] }],
    gemini: [
      { Contents: [] },
      { contents: [{ parts: [{ functionResponse: { Response: {} } }] }] },
      { System_Instruction: {} },
    ],
    "openai-completions": [{ Prompt: "b" }],
    "openai-embeddings": [{ Input: "b" }],
    "openai-images": [{ Prompt: "b" }],
  };
  for (const protocol of await loadProtocols())
    for (const json of cases[protocol.name] ?? [])
      t.throws(
        () => checkTextNames(json, protocol),
        { code: "invalid_field" },
        `${protocol.name}: ${JSON.stringify(json)}`,
      );
});
