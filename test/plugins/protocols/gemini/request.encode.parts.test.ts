import t from "tap";
import type { Media, Part } from "../../../../src/translation/conversation.ts";
import { assistant, call, read, refusal, result, text, user, written } from "./request.asked.ts";

/** What a part of the user's becomes. */
const sent = (part: Part) => written({ turns: [user(part)] }).body.contents[0]?.parts[0];
/** What a result becomes. */
const answered = (value: string, more = {}) => {
  const turns = [user(text("Go")), assistant(call("a", "f")), user(result("a", value, more))];
  return written({ turns }).body.contents[2]?.parts[0]?.["functionResponse"] as Record<string, unknown>;
};
const media = (more: Partial<Media>): Media => ({
  kind: "media",
  at: "image",
  media: "image",
  source: { base64: "aGk=" },
  ...more,
});

t.test("arguments keep their text (3)", async (t) => {
  const args = '{ "a": 1.0, "b": 12345678901234567890, "é": "\\u00e9" }';
  t.ok(written({ turns: [user(text("Go")), assistant(call("a", "f", args))] }).text.includes(`"args":${args}`));
  t.match(written({ turns: [assistant(call("a", "f", ""))] }).text, /"args":\{\}/);
});

t.test("arguments that are no object are refused with the call's path", async (t) => {
  for (const args of ["[1]", "{", '"x"', "null", '{"a":1} trailing'])
    t.match(
      refusal(() => written({ turns: [assistant(call("a", "f", args))] })),
      { message: /^call a: / },
      args,
    );
});

t.test("a result is the output, or the object itself", async (t) => {
  t.same(answered("text")["response"], { output: "text" });
  t.same(answered("")["response"], { output: "" });
  t.same(answered('{"a":1}')["response"], { a: 1 });
  t.same(answered("", { json: '{"a":1.0}' })["response"], { a: 1 });
  t.same(answered("[1]")["response"], { output: "[1]" });
  t.same(answered("{broken")["response"], { output: "{broken" });
  t.same(answered("", { parts: [text("a"), text("b")] })["response"], { output: "a\nb" });
});

t.test("a failure is the error, and an error when it is read back (43)", async (t) => {
  t.same(answered("no", { isError: true })["response"], { error: "no" });
  const turns = [user(text("Go")), assistant(call("a", "f")), user(result("a", "no", { isError: true }))];
  t.match(read(written({ turns }).body).turns[2]?.parts, [
    { kind: "tool_result", isError: true, parts: [{ text: "no" }] },
  ]);
});

t.test("images and files of a result stand beside it (42)", async (t) => {
  const { response, parts } = answered("", { parts: [text("see"), media({ mime: "image/png" })] });
  t.same(response, { output: "see" });
  t.same(parts, [{ inlineData: { mimeType: "image/png", data: "aGk=" } }]);
});

t.test("a result whose call is unknown needs a name of its own", async (t) => {
  const turns = (more = {}) => [user(text("Go")), user(result("gone", "x", more))];
  t.match(
    refusal(() => written({ turns: turns() })),
    { message: /^result gone: / },
  );
  t.match(written({ turns: turns({ name: "f" }) }).text, /"name":"f"/);
});

t.test("ids that others would not take become the same on call and result (44)", async (t) => {
  const id = `functions.Bash:0__thought__${"x".repeat(300)}`;
  const { body } = written({ turns: [user(text("Go")), assistant(call(id, "f")), user(result(id, "x"))] });
  const call_ = body.contents[1]?.parts[0]?.["functionCall"] as { id: string };
  const result_ = body.contents[2]?.parts[0]?.["functionResponse"] as { id: string };
  t.equal(call_.id, result_.id);
  t.match(call_.id, /^[a-zA-Z0-9_-]{1,64}$/);
});

t.test("a name that does not fit is fitted everywhere alike, and known again (45)", async (t) => {
  const name = "9 lives/✓";
  const { body, names } = written({
    turns: [user(text("Go")), assistant(call("a", name)), user(result("a", "x"))],
    tools: [{ kind: "function", at: "t", name }],
    toolChoice: { mode: "named", name },
  });
  const fitted = ((body.tools?.[0]?.["functionDeclarations"] as { name: string }[])[0] as { name: string }).name;
  t.match(fitted, /^[A-Za-z_][A-Za-z0-9_.:-]{0,127}$/);
  t.match(body.contents[1]?.parts[0], { functionCall: { name: fitted } });
  t.match(body.contents[2]?.parts[0], { functionResponse: { name: fitted } });
  t.match(body.toolConfig, { functionCallingConfig: { mode: "ANY", allowedFunctionNames: [fitted] } });
  t.equal(names.original(fitted).name, name);
  t.equal(names.original("f.g:h-1").name, "f.g:h-1");
});

t.test("media are bytes or an address, with a type", async (t) => {
  t.same(sent(media({ mime: "image/png" })), { inlineData: { mimeType: "image/png", data: "aGk=" } });
  t.same(sent(media({ source: { url: "https://example.com/a.JPG?x=1#y" } })), {
    fileData: { mimeType: "image/jpeg", fileUri: "https://example.com/a.JPG?x=1#y" },
  });
  t.same(sent(media({ media: "file", filename: "a.pdf" })), {
    inlineData: { mimeType: "application/pdf", data: "aGk=" },
  });
  t.same(sent(media({ media: "file", source: { text: "hé" } })), {
    inlineData: { mimeType: "text/plain", data: Buffer.from("hé").toString("base64") },
  });
});

t.test("a type that nothing tells, and a file of another vendor, are refused with their path", async (t) => {
  t.match(
    refusal(() => sent(media({ source: { url: "https://example.com/image" } }))),
    { message: /^image: the type/ },
  );
  t.match(
    refusal(() => sent(media({ source: { id: "file-1", protocol: "some-client" } }))),
    { message: /^image: a file/ },
  );
});

t.test("an address is one that the vendor fetches, or of its own stores", async (t) => {
  for (const url of ["http://example.com/a.png", "gs://bucket/a.png"])
    t.match(sent(media({ source: { url } })), { fileData: { fileUri: url } });
  for (const url of ["ftp://example.com/a.png", "//example.com/a.png", "file:///a.png"])
    t.match(
      refusal(() => sent(media({ source: { url } }))),
      { message: /^image: .*http/ },
      url,
    );
});

t.test("thoughts are sent as thoughts, blocks of others not at all", async (t) => {
  const { body } = written({
    turns: [
      user(text("Go")),
      assistant(
        { kind: "reasoning", at: "r", summary: ["One.", "Two."] },
        { kind: "reasoning", at: "r", redacted: true },
        { kind: "foreign", at: "f", protocol: "some-client", name: "search", json: {} },
        { kind: "refusal", at: "x", text: "No." },
      ),
    ],
  });
  t.same(body.contents[1]?.parts, [{ text: "One.\n\nTwo.", thought: true }, { text: "No." }]);
});
