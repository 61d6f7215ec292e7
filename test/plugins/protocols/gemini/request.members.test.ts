import t from "tap";
import { Members, shaped } from "../../../../plugins/protocols/gemini/request.members.ts";
import { refusal } from "./request.asked.ts";

t.test("a member is found in camel case and in snake case, and its path is the client's", async (t) => {
  const members = Members.of({ topP: 0.5, max_output_tokens: 7 }, "generation_config");
  t.equal(members.number("topP"), 0.5);
  t.equal(members.number("maxOutputTokens"), 7);
  t.equal(members.path("maxOutputTokens"), "generation_config.max_output_tokens");
  t.equal(members.path("topP"), "generation_config.topP");
});

t.test("a null is a member that is not there", async (t) => {
  const members = Members.of({ seed: null, stop: null }, "");
  t.equal(members.number("seed"), undefined);
  t.notOk(members.has("stop"));
  t.same(members.left(), []);
});

t.test("numbers may be strings, and enums in either case", async (t) => {
  const members = Members.of({ topK: "40", thinking_level: "low", mode: "MODE_UNSPECIFIED" }, "");
  t.equal(members.number("topK"), 40);
  t.equal(members.word("thinkingLevel"), "LOW");
  t.equal(members.word("mode"), undefined);
  t.same(members.left(), ["mode"]);
});

t.test("a single element stands for a list of it", async (t) => {
  const list = (json: unknown) => Members.of(json, "").list("parts");
  t.match(list({ parts: { text: "x" } }), [{ source: { text: "x" }, at: "parts" }]);
  t.match(list({ parts: [{ text: "x" }] }), [{ source: { text: "x" }, at: "parts.0" }]);
});

t.test("a value of another type is refused by its path", async (t) => {
  const members = Members.of({ top_k: "many", text: 1, flag: "x", list: "x", texts: [1], object: [] }, "at");
  const path = (run: () => unknown) => refusal(run)?.param;
  t.equal(
    path(() => members.number("topK")),
    "at.top_k",
  );
  t.equal(
    path(() => members.text("text")),
    "at.text",
  );
  t.equal(
    path(() => members.flag("flag")),
    "at.flag",
  );
  t.equal(
    path(() => members.list("list")),
    "at.list",
  );
  t.equal(
    path(() => members.texts("texts")),
    "at.texts",
  );
  t.equal(
    path(() => members.object("object")),
    "at.object",
  );
});

t.test("an object is written in the form it was read in", async (t) => {
  const source = { top_k: "40", thinkingLevel: "low", parts: { text: "x" }, own: { a_b: 1 }, seed: null };
  const members = Members.of(source, "");
  const made = {
    topK: members.number("topK"),
    thinkingLevel: members.word("thinkingLevel"),
    parts: members.list("parts")?.map(({ source }) => source),
    // The source had none.
    id: "made-up",
  };
  t.strictSame(shaped(made, members.form()), source);
  t.strictSame(shaped(made, undefined), made);
});

t.test("a form does not bring back what was changed since", async (t) => {
  const members = Members.of({ top_k: "40", level: "low" }, "");
  members.number("topK");
  members.word("level");
  t.strictSame(shaped({ topK: 41, level: "HIGH" }, members.form()), { top_k: 41, level: "HIGH" });
});
