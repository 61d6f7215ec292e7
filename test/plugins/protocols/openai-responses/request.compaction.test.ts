import t from "tap";
import { asksCompaction, summaryOf } from "../../../../plugins/protocols/openai-responses/request.compaction.ts";
import type { Opaque } from "../../../../src/translation/events.ts";
import { type JsonObject } from "../../../../src/wire/values.ts";
import { read, says, written } from "./request.asking.ts";

const trigger = { type: "compaction_trigger" };
const user = { role: "user", content: "Hi" };
const tools = [{ type: "function", name: "f", parameters: { type: "object" } }];
const textAt = ({ turns }: ReturnType<typeof read>, turn: number): string => {
  const [part] = turns.at(turn)?.parts ?? [];
  return part?.kind === "text" ? part.text : "";
};
/** A request with a compaction item whose envelope holds something. */
const carrying = (opaque: Opaque, more: { native?: boolean } = {}, item: JsonObject = {}) =>
  read(
    { model: "any", input: [{ type: "compaction", encrypted_content: "gw1.x", ...item }, user] },
    { open: () => opaque, ...more },
  );

t.test("the last item can ask for a compaction", async (t) => {
  t.ok(asksCompaction([user, trigger]));
  for (const input of [[trigger, user], [user], [], "Hi", undefined]) t.notOk(asksCompaction(input));
});

t.test("a compaction is asked for in words, at the end of the same prompt, and the change is declared", async (t) => {
  const body = { model: "any", tools, input: [user, { ...trigger, id: null }] };
  const asked = read(body);
  t.same(
    asked.turns.map(({ role, at }) => [role, at]),
    [
      ["user", "input.0"],
      ["user", "input.1"],
    ],
  );
  t.match(textAt(asked, 1), /^Sum up the conversation .*goal.*decisions.*files.*still open.*nothing else\.$/s);
  t.same(asked.changed, [
    { path: "input.1", why: "a compaction is asked for in words, as plain text and without calls of tools" },
  ]);
  t.same(says(asked), ["tools tools.0"]);
  t.same(asked.tools, read({ ...body, input: [user] }).tools, "the tools stay: what is cached begins with them");
  t.same(asked.toolChoice, { mode: "none" });
});

t.test("neither a choice of tools nor a form of the answer is for a compaction", async (t) => {
  const schema = { type: "json_schema", name: "n", strict: true, schema: { type: "object" } };
  const tool_choice = { type: "mcp", server_label: "l" };
  const asked = read({
    model: "any",
    tools,
    tool_choice,
    text: { format: schema, mood: "good" },
    input: [user, trigger],
  });
  t.same(says(asked), ["tools tools.0", "other text.mood"]);
  t.equal(asked.format, undefined);
  t.same(asked.toolChoice, { mode: "none" });
});

t.test("what nobody knows of a trigger is said", async (t) => {
  t.same(says(read({ model: "any", input: [user, { ...trigger, id: "ct_1", hurry: true }] })), ["other input.1.hurry"]);
});

t.test("a trigger that is not the last item is a 400 that names it", async (t) => {
  t.throws(() => read({ model: "any", input: [trigger, user] }), {
    code: "invalid_field",
    param: "input.0",
    message: /must be the last item/,
  });
});

t.test("a summary in an envelope comes back as a text of the user, where the item stood", async (t) => {
  const more = { id: "cmp_1", created_by: "them" };
  const asked = carrying(summaryOf("They said hi."), {}, more);
  t.same(asked.turns[0], {
    role: "user",
    at: "input.0",
    parts: [{ kind: "text", text: "Summary of the conversation so far:\n\nThey said hi.", at: "input.0" }],
  });
  t.same(says(asked), []);
  t.equal(asked.changed, undefined);
  t.same(says(carrying(summaryOf("They said hi."), {}, { mood: "good" })), ["other input.0.mood"]);
});

t.test("a compaction of the vendor's own can be read by nobody else", async (t) => {
  for (const encrypted_content of ["gAAAA", undefined]) {
    const asked = read({ model: "any", input: [{ type: "compaction", encrypted_content }, user] });
    t.same(says(asked), ["stored_state input.0"]);
  }
});

t.test("an envelope of something else is no compaction", async (t) => {
  const reasoning = { protocol: "openai-responses", account: "them", kind: "encrypted", data: "gAAAA" };
  const foreign = { protocol: "gemini", account: "them", kind: "thoughtSignature", data: "c2ln" };
  for (const opaque of [reasoning, foreign, { ...foreign, protocol: "gateway" }])
    t.throws(() => carrying(opaque), { code: "invalid_field", param: "input.0.encrypted_content" });
});

t.test("for the same protocol only a summary in an envelope is written anew", async (t) => {
  const { body } = written(carrying(summaryOf("They said hi."), { native: true }));
  t.same(body["input"], [
    { type: "message", role: "user", content: "Summary of the conversation so far:\n\nThey said hi." },
    user,
  ]);
  const own = {
    model: "any",
    tool_choice: "auto",
    text: { verbosity: "low" },
    input: [user, { type: "compaction", id: "cmp_1", encrypted_content: "gAAAA" }, trigger],
  };
  for (const input of [own.input, own.input.toReversed()]) {
    const asked = { ...own, input };
    t.same(written(read(asked, { native: true })).body, asked);
  }
});
