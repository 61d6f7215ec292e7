import t from "tap";
import { formOf, kindOf, without } from "../../../../plugins/protocols/gemini/response.native.ts";

t.test("a part is told by its members, and thoughts that are no text are for their own protocol", async (t) => {
  t.equal(kindOf({ functionCall: {}, thoughtSignature: "s" }), "call");
  t.equal(kindOf({ text: "" }), "text");
  t.equal(kindOf({ text: "", thought: true }), "thought");
  t.equal(kindOf({ text: "x", thought: false }), "text");
  t.equal(kindOf({ inlineData: { data: "" } }), "inlineData");
  t.equal(kindOf({ inlineData: { data: "" }, thought: true }), "server");
  t.equal(kindOf({ fileData: { fileUri: "" } }), "fileData");
  for (const part of [{ inlineData: {} }, { fileData: { data: "" } }, { novel: 1 }]) t.equal(kindOf(part), "server");
  t.equal(kindOf({}), "text");
  t.equal(kindOf({ thought: true, thoughtSignature: "s" }), "thought");
});

t.test("members are left out by name", async (t) => {
  t.strictSame(without({ a: 1, b: 2, c: 3 }, ["a", "c"]), { b: 2 });
});

t.test("a form holds no text, no name, no arguments, no signature and no counts", async (t) => {
  const secret = "SAID-BY-EVENTS";
  const doc = {
    candidates: [
      {
        content: {
          role: "model",
          parts: [
            { text: secret, thoughtSignature: secret },
            { text: secret, thought: true },
            { functionCall: { name: secret, id: secret, args: { a: secret } }, thoughtSignature: secret },
            { inlineData: { mimeType: secret, data: secret } },
            { executableCode: { code: secret } },
          ],
        },
        safetyRatings: [{ category: "kept" }],
      },
    ],
    usageMetadata: { promptTokenCount: 7654321 },
    modelVersion: secret,
    responseId: secret,
    turnToken: "kept too",
  };
  const text = JSON.stringify(formOf(doc, { id: secret, model: secret }, { pieces: [], calls: ["whole"] }));
  t.notMatch(text, /SAID-BY-EVENTS|7654321/);
  t.match(text, /kept.*kept too/);
});
