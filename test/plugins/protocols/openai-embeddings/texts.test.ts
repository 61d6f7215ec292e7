import t from "tap";
import { texts } from "../../../../plugins/protocols/openai-embeddings/texts.ts";

t.test("texts to embed are listed, tokens are not", async (t) => {
  const user = (...path: (string | number)[]) => ({ path, kind: "user" });
  t.same([...texts.request({ input: "one" })], [user("input")]);
  t.same([...texts.request({ input: ["one", "two"] })], [user("input", 0), user("input", 1)]);
  for (const input of [[1, 2], [[1], [2]], {}, null, undefined]) t.same([...texts.request({ input })], []);
  t.same([...texts.request(null)], []);
});

t.test("an answer contains no text", async (t) => {
  t.same([...texts.response({ data: [{ embedding: "AAAA" }] })], []);
});
