import t from "tap";
import { encodeRequest } from "../../../../plugins/protocols/gemini/request.encode.ts";
import type { Conversation, Media, Part, Tool, ToolChoice, Turn } from "../../../../src/translation/conversation.ts";
import type { Opaque } from "../../../../src/translation/events.ts";
import { runAtOnce } from "../../../../src/translation/steps.ts";
import { RawJson } from "../../../../src/wire/exact.ts";
import {
  assistant,
  call,
  conversation,
  givenContext,
  read,
  refusal,
  result,
  system,
  text,
  user,
  written,
} from "./requests.ts";

const BYPASS = "skip_thought_signature_validator";
const signed = (data: string): { opaque: Opaque } => ({
  opaque: { protocol: "gemini", kind: "thoughtSignature", data },
});

t.test("a stream is requested as events, an answer whole, a count with the whole request", async (t) => {
  const { encoded: stream } = written({ stream: true });
  t.match(stream, { operation: { name: "streamGenerateContent", framing: "sse" }, query: "alt=sse" });
  const { encoded: whole } = written({});
  t.match(whole, { operation: { name: "generateContent" }, query: undefined });
  const { encoded: count, body } = written({ task: "count" });
  t.equal(count.operation.name, "countTokens");
  t.same(body, { contents: [{ role: "user", parts: [{ text: "Hi" }] }] });
  t.same(written({ task: "count", turns: [system("Be terse."), user(text("Hi"))] }).body, {
    generateContentRequest: {
      model: "models/gemini-x",
      systemInstruction: { parts: [{ text: "Be terse." }] },
      contents: [{ role: "user", parts: [{ text: "Hi" }] }],
    },
  });
});

t.test("system turns at the start are the instruction, one part each", async (t) => {
  const { body, changed } = written({
    turns: [system("One."), { ...system("Two."), role: "developer" }, user(text("Hi"))],
  });
  t.same(body.systemInstruction, { parts: [{ text: "One." }, { text: "Two." }] });
  t.same(body.contents, [{ role: "user", parts: [{ text: "Hi" }] }]);
  t.same(changed, []);
});

t.test("a system turn between others stays in place, as a reminder, and is declared (38)", async (t) => {
  const { body, changed } = written({
    turns: [user(text("Hi")), assistant(text("Hello")), system("Now in French.", "messages.2"), user(text("Go on"))],
  });
  t.same(body.contents[2], {
    role: "user",
    parts: [{ text: "<system-reminder>\nNow in French.\n</system-reminder>" }, { text: "Go on" }],
  });
  t.match(changed, [/^messages\.2: /]);
});

t.test("turns alternate, and empty ones are left out", async (t) => {
  const { body } = written({
    turns: [user(text("a")), user(text("b"), text("")), assistant(text("")), user(text("c")), assistant(text("d"))],
  });
  t.same(body.contents, [
    { role: "user", parts: [{ text: "a" }, { text: "b" }, { text: "c" }] },
    { role: "model", parts: [{ text: "d" }] },
  ]);
});

t.test(
  "a conversation that begins with a call begins with a blank user turn, without which it is refused",
  async (t) => {
    const turns = [assistant(text("So:"), call("a", "f")), user(result("a", "ok")), assistant(text("Done."))];
    t.match(written({ turns }).body.contents.slice(0, 2), [
      { role: "user", parts: [{ text: " " }] },
      { role: "model" },
    ]);
    t.equal(written({ turns: [user(text("Hi")), ...turns] }).body.contents.length, 4);
    t.match(written({ turns: [assistant(text("Hello")), user(text("Hi"))] }).body.contents, [{ role: "model" }, {}]);
  },
);

t.test(
  "models before Gemini 3 get no functions beside JSON: they are refused, or left out if none may be called",
  async (t) => {
    const tools: Tool[] = [{ kind: "function", name: "f", at: "tools.0" }];
    const asked = { tools, uses: [{ feature: "json_schema", path: "format" }] } as const;
    for (const format of [{ kind: "json" }, { kind: "schema", schema: new RawJson("{}") }] as const) {
      const to = (model: string, more: Partial<Conversation> = {}) =>
        written({ ...asked, uses: [...asked.uses], format, ...more }, {}, model);
      t.match(
        refusal(() => to("gemini-2.5-flash")),
        { message: /^format: the model answers in JSON only/ },
      );
      const none = to("gemini-2.5-flash", { toolChoice: { mode: "none" } });
      t.match(none, { body: { tools: undefined, toolConfig: undefined }, changed: [/no functions are sent/] });
      t.equal(none.body.generationConfig?.["responseMimeType"], "application/json");
      t.match(to("gemini-3-flash").body, { tools: [{}], generationConfig: { responseMimeType: "application/json" } });
      t.match(to("gemini-2.5-flash", { tools: [] }).body.generationConfig, { responseMimeType: "application/json" });
      t.match(to("gemini-2.5-flash", { task: "count" }).body, { generateContentRequest: { tools: [{}] } });
    }
  },
);

t.test("an empty user turn is a request, an empty conversation is not", async (t) => {
  t.same(written({ turns: [user(text(""))] }).body.contents, [{ role: "user", parts: [{ text: "" }] }]);
  t.match(
    refusal(() => written({ turns: [system("", "messages.0")] })),
    { message: /^messages\.0: a user turn is required/ },
  );
});

t.test("with nothing but system messages the last one is sent as the user's", async (t) => {
  const { body, changed } = written({ turns: [system("One."), system("Two.", "messages.1")] });
  t.same(body.systemInstruction, { parts: [{ text: "One." }] });
  t.same(body.contents, [{ role: "user", parts: [{ text: "<system-reminder>\nTwo.\n</system-reminder>" }] }]);
  t.match(changed, [/^messages\.1: /]);
});

t.test("the name of a file is left out, which is declared", async (t) => {
  const file = { kind: "media", media: "file", mime: "application/pdf", source: { base64: "aGk=" }, at: "f" } as const;
  t.match(written({ turns: [user({ ...file, filename: "a.pdf" })] }).changed, [
    /^f: the provider accepts no file names/,
  ]);
  t.same(written({ turns: [user(file)] }).changed, []);
});

t.test("results are a content of their own, in the order of their calls, with the functions' names", async (t) => {
  const { body } = written({
    turns: [
      user(text("Go")),
      assistant(call("a", "f", '{"x":1}', signed("s")), call("b", "g")),
      user(text("also"), result("b", "two"), result("a", "one")),
    ],
  });
  t.same(body.contents[1]?.parts, [
    { functionCall: { id: "a", name: "f", args: { x: 1 } }, thoughtSignature: "s" },
    { functionCall: { id: "b", name: "g", args: {} } },
  ]);
  t.same(body.contents[2]?.parts, [
    { functionResponse: { id: "a", name: "f", response: { output: "one" } } },
    { functionResponse: { id: "b", name: "g", response: { output: "two" } } },
  ]);
  t.same(body.contents[3], { role: "user", parts: [{ text: "also" }] });
});

t.test("signatures return to exactly the parts that had them, and to no other (19, 20)", async (t) => {
  const { body, changed } = written({
    turns: [
      user(text("Go")),
      assistant(
        { kind: "reasoning", at: "r", text: "Hm.", ...signed("one") },
        call("a", "f", "{}", signed("two")),
        call("b", "f"),
      ),
      user(result("a", "1"), result("b", "2")),
      assistant(text("Done."), text("", signed("three"))),
    ],
  });
  t.same(
    body.contents.flatMap(({ parts }) => parts.map((part) => part["thoughtSignature"])),
    [undefined, "one", "two", undefined, undefined, undefined, undefined, "three"],
  );
  t.same(body.contents[3]?.parts[1], { text: "", thoughtSignature: "three" });
  t.same(changed, []);
});

t.test("the first call of each step since the user's turn has the bypass where it has no signature", async (t) => {
  const turns = [
    user(text("Once")),
    assistant(call("old", "f")),
    user(result("old", "0")),
    assistant(text("Done.")),
    user(text("Go")),
    assistant(call("a", "f"), call("b", "f")),
    user(result("a", "1"), result("b", "2"), text("a note of the client's")),
    assistant(call("c", "f", "{}", signed("real"))),
    user(result("c", "3")),
    assistant(text("And now"), call("d", "f")),
    user(result("d", "4")),
  ];
  const signatures = ({ contents }: { contents: { parts: Record<string, unknown>[] }[] }) =>
    Object.fromEntries(
      contents
        .flatMap(({ parts }) => parts)
        .filter((part) => part["functionCall"])
        .map((part) => [(part["functionCall"] as { id: string }).id, part["thoughtSignature"]]),
    );
  const { body, changed } = written({ turns });
  const bypassed = signatures(body);
  // A text beside results is no turn of its own: a bypass too many does no harm, one too few is a 400.
  t.same(bypassed, { old: undefined, a: BYPASS, b: undefined, c: "real", d: BYPASS });
  t.match(changed, [/^call a: /]);
  for (const older of [written({ turns }, { thinking: "budget" }), written({ turns }, {}, "gemini-2.0-flash")]) {
    t.notMatch(older.text, BYPASS);
    t.same(older.changed, []);
  }
});

t.test("a turn that is not sent, as it is empty, does not begin a new one", async (t) => {
  for (const turn of [assistant(text("")), user(text(""))])
    for (const later of [[], [user(text("Go on"))]]) {
      const turns = [user(text("Go")), assistant(call("a", "f")), user(result("a", "1")), turn, ...later];
      t.match(written({ turns }).body.contents[1]?.parts, [{ thoughtSignature: BYPASS }]);
    }
});

t.test("a signature of another protocol is not used here", async (t) => {
  const foreign = { opaque: { protocol: "other", kind: "signature", data: "x" } };
  const { text: body } = written({
    turns: [user(text("Go")), assistant({ kind: "reasoning", at: "r", text: "", ...foreign }, text("a", foreign))],
  });
  t.notMatch(body, /thought/);
});

t.test("an answer to be continued is sent, unless the model is known not to continue it", async (t) => {
  const turns = [user(text("Hi")), assistant(text("He"))];
  t.equal(written({ turns }).body.contents[1]?.role, "model");
  t.match(
    refusal(() => written({ turns }, { prefill: false })),
    { message: /^assistant: / },
  );
});

t.test("tiers are sent by name, storage of answers is not", async (t) => {
  t.equal(written({ tier: "default" }).body["serviceTier"], "standard");
  t.equal(written({ tier: "flex" }).body["serviceTier"], "flex");
  t.equal(written({ tier: "auto" }).body["serviceTier"], undefined);
  const uses = [{ feature: "tier" as const, path: "service_tier" }];
  t.match(written({ tier: "scale", uses: uses }), { dropped: [/^service_tier: /], body: { serviceTier: undefined } });
  t.equal(written({ store: false }).body["store"], undefined);
  t.match(
    refusal(() => written({ store: true })),
    { message: /^store: / },
  );
});

t.test("labels are not sent for other protocols", async (t) => {
  t.equal(written({ metadata: { a: "b" } }).body["labels"], undefined);
});

t.test("a count requested in this protocol names the model it is sent to", async (t) => {
  const contents = [{ role: "user", parts: [{ text: "Hi" }] }];
  const body = { generateContentRequest: { model: "models/public-name", systemInstruction: "Be terse.", contents } };
  const conversation = read(body, { task: "count" });
  t.match(JSON.parse(runAtOnce(encodeRequest(conversation, givenContext({}, "vendor-name").context)).body), {
    generateContentRequest: {
      model: "models/vendor-name",
      systemInstruction: { parts: [{ text: "Be terse." }] },
      contents,
    },
  });
});

t.test("media of a system turn between others stay in place, within the reminder", async (t) => {
  const image = { kind: "media", media: "image", mime: "image/png", source: { base64: "aGk=" }, at: "i" } as const;
  const turn = {
    role: "developer",
    at: "messages.1",
    parts: [text("Look:"), image, text("Done."), text("!")],
  } as const;
  const { body, changed } = written({ turns: [user(text("Hi")), { ...turn, parts: [...turn.parts] }] });
  t.same(body.contents[0]?.parts, [
    { text: "Hi" },
    { text: "<system-reminder>\nLook:" },
    { inlineData: { mimeType: "image/png", data: "aGk=" } },
    { text: "Done.\n!\n</system-reminder>" },
  ]);
  t.match(changed, [/^messages\.1: /]);
  const alone = written({ turns: [user(text("Hi")), { role: "system", at: "s", parts: [image] }] });
  t.match(alone.body.contents[0]?.parts[2], { inlineData: { data: "aGk=" } });
});

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

t.test("arguments that are not an object are refused with the call's path", async (t) => {
  for (const args of ["[1]", "{", '"x"', "nul", '{"a":1} trailing'])
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

t.test("a failure is the error, and an error when it is decoded again (43)", async (t) => {
  t.same(answered("no", { isError: true })["response"], { error: "no" });
  const turns = [user(text("Go")), assistant(call("a", "f")), user(result("a", "no", { isError: true }))];
  t.match(read(written({ turns }).body).turns[2]?.parts, [
    { kind: "tool_result", isError: true, parts: [{ text: "no" }] },
  ]);
});

t.test("a result that contains references is sent as text: the vendor takes them for its media", async (t) => {
  for (const schema of ['{"a": {"$ref": "#/$defs/a"}, "$defs": {"a": {}}}', '{"\\u0024ref":"x"}']) {
    t.same(answered(schema).response, { output: schema });
    t.same(answered(schema, { isError: true }).response, { error: schema });
  }
  t.same(answered('{"ref":"x","$refs":1}').response, { ref: "x", $refs: 1 });
});

t.test("a result with more names than a body may have is sent as text", async (t) => {
  const many = JSON.stringify(Object.fromEntries(Array.from({ length: 51_000 }, (_, i) => [`n${i}`, 0])));
  const turns = [user(text("Go")), assistant(call("a", "f")), user(result("a", many))];
  const { body, changed } = written({ turns });
  t.match(JSON.stringify(body), /"response":\{"output":"\{\\"n0/);
  t.match(changed.join(), /sent as text/);
});

t.test("images and files of a result are next to it (42)", async (t) => {
  const { response, parts } = answered("", { parts: [text("see"), media({ mime: "image/png" })] });
  t.same(response, { output: "see" });
  t.same(parts, [{ inlineData: { mimeType: "image/png", data: "aGk=" } }]);
});

const twoResults = (...parts: Part[]): Turn[] => [
  user(text("Go")),
  assistant(call("a", "f"), call("b", "g")),
  user(result("b", "", { parts }), result("a", "done"), text("And now?")),
];

t.test("models before Gemini 3 get the media of results after all results, as the user's", async (t) => {
  const turns = twoResults(text("see"), media({ mime: "image/png" }));
  const image = { inlineData: { mimeType: "image/png", data: "aGk=" } };
  for (const [facts, model] of [
    [{ thinking: "budget" }, "gemini-x"],
    [{}, "gemini-2.5-flash"],
    [{}, "models/gemini-1.5-pro"],
  ] as const) {
    const { body, changed } = written({ turns }, facts, model);
    t.match(body.contents[2]?.parts, [
      { functionResponse: { id: "a", response: { output: "done" }, parts: undefined } },
      { functionResponse: { id: "b", response: { output: "see\n[image 1 attached]" }, parts: undefined } },
    ]);
    t.same(body.contents[3], { role: "user", parts: [image, { text: "And now?" }] });
    t.match(changed.join(), /only after the result/);
  }
  const { body, changed } = written({ turns }, {}, "gemini-3-flash-preview");
  t.same((body.contents[2]?.parts[1]?.["functionResponse"] as { parts: unknown }).parts, [image]);
  t.notMatch(changed.join(), /only after the result/);
});

t.test("media types that no result may contain follow the results", async (t) => {
  const sound = media({ media: "audio", mime: "audio/wav" });
  const { body } = written({ turns: twoResults(sound, media({ mime: "image/gif" })) });
  t.match(body.contents[2]?.parts[1], {
    functionResponse: { response: { output: "[audio 1 attached]\n[image 2 attached]" }, parts: undefined },
  });
  t.same(body.contents[3]?.parts, [
    { inlineData: { mimeType: "audio/wav", data: "aGk=" } },
    { inlineData: { mimeType: "image/gif", data: "aGk=" } },
    { text: "And now?" },
  ]);
});

t.test("a result whose call is unknown needs a name of its own", async (t) => {
  const turns = (more = {}) => [user(text("Go")), user(result("gone", "x", more))];
  t.match(
    refusal(() => written({ turns: turns() })),
    { message: /^result gone: / },
  );
  t.match(written({ turns: turns({ name: "f" }) }).text, /"name":"f"/);
});

t.test("ids that others would not accept become the same on call and result (44)", async (t) => {
  const id = `functions.Bash:0__thought__${"x".repeat(300)}`;
  const { body } = written({ turns: [user(text("Go")), assistant(call(id, "f")), user(result(id, "x"))] });
  const call_ = body.contents[1]?.parts[0]?.["functionCall"] as { id: string };
  const result_ = body.contents[2]?.parts[0]?.["functionResponse"] as { id: string };
  t.equal(call_.id, result_.id);
  t.match(call_.id, /^[a-zA-Z0-9_-]{1,64}$/);
});

t.test("a name that does not fit is shortened everywhere in the same way, and mapped back (45)", async (t) => {
  const name = `9 lives/✓ of ${"x".repeat(60)}`;
  const { body, names } = written({
    turns: [user(text("Go")), assistant(call("a", name)), user(result("a", "x"))],
    tools: [{ kind: "function", at: "t", name }],
    toolChoice: { mode: "named", name },
  });
  const fitted = ((body.tools?.[0]?.["functionDeclarations"] as { name: string }[])[0] as { name: string }).name;
  t.match(fitted, /^[A-Za-z_][A-Za-z0-9_.:-]{0,63}$/);
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

t.test("data as text have the type of a text: the vendor refuses theirs", async (t) => {
  for (const mime of [
    "application/json",
    "application/ld+json; charset=utf-8",
    "application/xml",
    "application/x-yaml",
  ]) {
    const parts = [media({ media: "file", mime })];
    const { body, changed } = written({ turns: [{ role: "user", at: "m", parts }] });
    t.same(body.contents[0]?.parts[0], { inlineData: { mimeType: "text/plain", data: "aGk=" } }, mime);
    t.match(changed, [/sent as text\/plain, which it is/]);
  }
  t.match(sent(media({ media: "file", mime: "application/zip" })), { inlineData: { mimeType: "application/zip" } });
});

t.test("an image is sent with the type that it has: the vendor refuses others", async (t) => {
  const base64 = Buffer.from("\xff\xd8\xff\xe0more bytes", "latin1").toString("base64");
  const inline = { inlineData: { mimeType: "image/jpeg", data: base64 } };
  for (const mime of ["image/jpeg", "image/jpg", "image/*", "application/octet-stream"]) {
    const { body, changed } = written({
      turns: [{ role: "user", at: "m", parts: [media({ mime, source: { base64 } })] }],
    });
    t.same(body.contents[0]?.parts[0], inline, mime);
    t.match(changed, mime === "image/jpeg" ? { length: 0 } : [/^image: sent as image\/jpeg/]);
  }
  t.same(sent(media({ source: { base64 } })), inline, "without a type");
  const unnamed: Turn = { role: "user", at: "m", parts: [media({ source: { base64 } })] };
  t.same(written({ turns: [unnamed] }).changed, [], "nothing that the client said");
  t.match(sent(media({ mime: "image/jpg", source: { url: "https://example.com/a" } })), {
    fileData: { mimeType: "image/jpeg" },
  });
});

t.test("an undetermined type, and a file of another vendor, are refused with their path", async (t) => {
  t.match(
    refusal(() => sent(media({ source: { url: "https://example.com/image" } }))),
    { message: /^image: the provider requires a file's type/ },
  );
  t.match(
    refusal(() => sent(media({ source: { id: "file-1", protocol: "some-client" } }))),
    { message: /^image: the provider cannot read another vendor's file/ },
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

t.test("reasoning is sent as reasoning, blocks of others not at all", async (t) => {
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

const tool = (name: string, more: object = {}): Tool =>
  ({ kind: "function", at: `tool ${name}`, name, ...more }) as Tool;

t.test("functions are declared together, their schemas unchanged (50)", async (t) => {
  const schema = '{"type":"object","oneOf":[{"$ref":"#/$defs/a"}],"$defs":{"a":{"pattern":"^A+$","minimum":1.0}}}';
  const { text: body, body: json } = written({
    tools: [tool("f", { description: "d", parameters: new RawJson(schema) }), tool("g")],
  });
  t.ok(body.includes(`"parametersJsonSchema":${schema}`));
  t.match(json.tools, [{ functionDeclarations: [{ name: "f", description: "d" }, { name: "g" }] }]);
  t.equal(json.toolConfig, undefined);
});

t.test("choices are modes (37)", async (t) => {
  const tools = [tool("f"), tool("g")];
  const mode = (toolChoice: NonNullable<Parameters<typeof written>[0]["toolChoice"]>) =>
    (written({ tools, toolChoice }).body.toolConfig as { functionCallingConfig: unknown }).functionCallingConfig;
  t.same(mode({ mode: "auto" }), { mode: "AUTO" });
  t.same(mode({ mode: "none" }), { mode: "NONE" });
  t.same(mode({ mode: "required" }), { mode: "ANY" });
  t.same(mode({ mode: "named", name: "f" }), { mode: "ANY", allowedFunctionNames: ["f"] });
  t.same(mode({ mode: "allowed", required: true, names: ["f", "g"] }), {
    mode: "ANY",
    allowedFunctionNames: ["f", "g"],
  });
  t.same(mode({ mode: "allowed", required: false, names: ["f"] }), { mode: "VALIDATED", allowedFunctionNames: ["f"] });
});

t.test("a tool that the vendor runs cannot be chosen by name: the model decides, and it is declared", async (t) => {
  const search: Tool = { kind: "web_search", at: "tools.0" };
  const toolChoice = { mode: "named", name: "web_search", server: true } as const;
  const uses = [{ feature: "tool_choice", path: "choice" }] as const;
  const alone = written({ tools: [search], toolChoice, uses: [...uses] });
  t.same(alone.body.tools, [{ googleSearch: {} }]);
  t.equal(alone.body.toolConfig, undefined);
  t.match(alone.dropped, [/^choice: /]);
  const beside = written({ tools: [search, tool("f", { strict: true })], toolChoice, uses: [...uses] });
  t.same(beside.body.tools, [{ googleSearch: {} }], "but no other tool is left to it");
  t.equal(beside.body.toolConfig, undefined);
  t.match([beside.dropped, beside.changed], [[/^choice: /], [/^tool f: not among/]]);
});

t.test("a search that may not be used is left out, and declared where other tools may", async (t) => {
  const search: Tool = { kind: "web_search", at: "tools.1" };
  const searched = (toolChoice: ToolChoice, tool = search) => {
    const { body, changed } = written({ tools: [{ kind: "function", name: "f", at: "tools.0" }, tool], toolChoice });
    return [body.tools?.length === 2, Object.keys(body.toolConfig ?? {}), changed];
  };
  const [calling, shown] = ["functionCallingConfig", "includeServerSideToolInvocations"];
  t.same(searched({ mode: "none" }), [false, [calling], []]);
  t.match(searched({ mode: "named", name: "f" }), [false, [calling], [/^tools\.1: /]]);
  t.match(searched({ mode: "allowed", required: false, names: ["f"] }), [false, [calling], [/^tools\.1: /]]);
  t.same(searched({ mode: "none" }, { ...search, apart: true }), [true, [calling, shown], []]);
  t.notOk("tools" in written({ tools: [search], toolChoice: { mode: "none" } }).body);
});

t.test("a forced search is left to the model, and declared", async (t) => {
  const search: Tool = { kind: "web_search", at: "tools.1" };
  const chosen = (tools: Tool[], toolChoice: ToolChoice) => {
    const { body, changed } = written({ tools, toolChoice });
    return [body.toolConfig, changed];
  };
  const shown = { includeServerSideToolInvocations: true };
  const only = (required: boolean): ToolChoice => ({ mode: "allowed", required, names: ["web_search"] });
  t.match(chosen([search], { mode: "required" }), [undefined, [/^tool_choice: web search/]]);
  t.match(chosen([search], only(true)), [undefined, [/^tool_choice: web search/]]);
  t.same(chosen([search], only(false)), [undefined, []], "there is no other tool to choose");
  t.match(chosen([tool("f"), search], only(true)), [undefined, [/^tool f: not among/, /^tool_choice: web search/]]);
  const both: ToolChoice = { mode: "allowed", required: false, names: ["web_search", "f"] };
  t.same(chosen([tool("f"), search], both), [
    { functionCallingConfig: { mode: "VALIDATED", allowedFunctionNames: ["f"] }, ...shown },
    [],
  ]);
  t.match(
    chosen([tool("web_search"), search], only(true)),
    [{ functionCallingConfig: { mode: "ANY", allowedFunctionNames: ["web_search"] } }, { length: 0 }],
    "a function may have that name",
  );
});

t.test("a choice among no functions is not sent", async (t) => {
  t.equal(written({ toolChoice: { mode: "auto" } }).body.toolConfig, undefined);
  t.equal(written({ toolChoice: { mode: "none" } }).body.toolConfig, undefined);
});

t.test("strict functions make the mode VALIDATED, which is declared where others are not strict", async (t) => {
  const { body, changed } = written({ tools: [tool("f", { strict: true })] });
  t.same(body.toolConfig, { functionCallingConfig: { mode: "VALIDATED" } });
  t.same(changed, []);
  const mixed = written({ tools: [tool("f", { strict: true }), tool("g")] });
  t.same(mixed.body.toolConfig, { functionCallingConfig: { mode: "VALIDATED" } });
  t.match(mixed.changed, [/^tool f: /]);
  const forced = written({ tools: [tool("f", { strict: true })], toolChoice: { mode: "required" } });
  t.same(forced.body.toolConfig, { functionCallingConfig: { mode: "ANY" } });
  t.same(forced.changed, []);
});

t.test("a free-text tool is a function of one string, and mapped back", async (t) => {
  const { body, names, dropped } = written({
    tools: [{ kind: "custom", at: "tools.0", name: "patch", grammar: { syntax: "lark" } }],
    toolChoice: { mode: "named", name: "patch", custom: true },
    turns: [user(text("Go")), assistant(call("a", "patch", 'a "quoted" text', { custom: true }))],
  });
  t.match(body.tools, [
    {
      functionDeclarations: [
        {
          name: "patch",
          parametersJsonSchema: { type: "object", properties: { input: { type: "string" } }, required: ["input"] },
        },
      ],
    },
  ]);
  t.match(body.contents[1]?.parts[0], { functionCall: { name: "patch", args: { input: 'a "quoted" text' } } });
  t.same(names.original("patch"), { name: "patch", custom: true });
  t.match(dropped, [/^tools\.0: the provider accepts no grammar/]);
});

t.test("a tool in a namespace has it as a prefix, and is mapped back", async (t) => {
  const { body, names } = written({
    tools: [tool("run", { namespace: "mcp" }), tool("run")],
    turns: [user(text("Go")), assistant(call("a", "run", "{}", { namespace: "mcp" }))],
  });
  t.match(body.tools, [{ functionDeclarations: [{ name: "mcp__run" }, { name: "run" }] }]);
  t.match(body.contents[1]?.parts[0], { functionCall: { name: "mcp__run" } });
  t.same(names.original("mcp__run"), { name: "run", namespace: "mcp" });
  t.same(names.original("run"), { name: "run" });
});

t.test("web search is Google Search, without unsupported settings", async (t) => {
  const search: Tool = { kind: "web_search", at: "tools.0", allowed: ["a.com"], maxUses: 3 };
  const { body, dropped } = written({ tools: [search] });
  t.same(body.tools, [{ googleSearch: {} }]);
  t.same(body.toolConfig, undefined);
  t.match(dropped, [/^tools\.0: .*list of domains/, /^tools\.0: .*limit of searches/]);
  const losses = written({ tools: [{ ...search, paths: { allowed: "tools.0.a", maxUses: "tools.0.b" } }] });
  t.match(losses.dropped, [/^tools\.0\.a: .*list of domains/, /^tools\.0\.b: .*limit of searches/]);
});

t.test("with functions beside it the vendor's own tool must be shown", async (t) => {
  const tools: Tool[] = [tool("f"), { kind: "web_search", at: "w" }];
  t.same(written({ tools }).body.toolConfig, { includeServerSideToolInvocations: true });
});

t.test("providers of the Vertex form get no member that only the other form has", async (t) => {
  const sent = (more: Partial<Conversation>, url: string) =>
    JSON.parse(
      runAtOnce(encodeRequest(conversation(more), { ...givenContext().context, url: new URL(url) })).body,
    ) as Record<string, unknown>;
  const more: Partial<Conversation> = {
    tools: [tool("f"), { kind: "web_search", at: "w" }],
    toolChoice: { mode: "auto" },
    turns: [system("Be terse."), user(text("Hi"))],
    temperature: 0.5,
  };
  for (const vertex of [
    "https://aiplatform.googleapis.com/v1/publishers/google",
    "https://proxy.example/v1beta1/projects/p/locations/global/publishers/google/",
  ]) {
    t.same(sent(more, vertex)["toolConfig"], { functionCallingConfig: { mode: "AUTO" } });
    const count = sent({ ...more, task: "count", cacheHandle: "c" }, vertex);
    t.same(Object.keys(count), ["contents", "systemInstruction", "tools", "generationConfig"]);
  }
  const other = "https://generativelanguage.googleapis.com/v1beta";
  t.match(sent(more, other)["toolConfig"], { includeServerSideToolInvocations: true });
  t.same(Object.keys(sent({ ...more, task: "count" }, other)), ["generateContentRequest"]);
});

t.test("models before Gemini 3, which refuse a search beside functions, get the functions alone", async (t) => {
  const search: Tool = { kind: "web_search", at: "w" };
  for (const model of ["gemini-2.5-pro", "models/gemini-2.0-flash"]) {
    const { body, dropped } = written({ tools: [tool("f"), search] }, {}, model);
    t.match(body.tools, [{ functionDeclarations: [{ name: "f" }] }]);
    t.equal(body.tools?.length, 1);
    t.equal(body.toolConfig, undefined);
    t.match(dropped, [/^w: .*while it has functions/]);
    t.same(written({ tools: [search] }, {}, model).body.tools, [{ googleSearch: {} }]);
    const json = written({ tools: [search], format: { kind: "json" } }, {}, model);
    t.match([json.body.tools, json.dropped], [undefined, [/^w: /]], "nor beside JSON");
  }
  t.match(written({ tools: [search], format: { kind: "json" } }, {}, "gemini-3-pro").body.tools, [
    { googleSearch: {} },
  ]);
  const toolChoice: ToolChoice = { mode: "allowed", required: false, names: ["web_search"] };
  for (const model of ["gemini-2.5-pro", "gemini-3-pro"]) {
    const { body, dropped, changed } = written({ tools: [tool("f"), search], toolChoice }, {}, model);
    t.same(
      [body.tools, body.toolConfig],
      [[{ googleSearch: {} }], undefined],
      "or the search, where only that is allowed",
    );
    t.match([dropped, changed], [{ length: 0 }, [/^tool f: not among the allowed tools/]]);
  }
  const none = written({ tools: [tool("f"), search], toolChoice: { mode: "none" } }, { thinking: "budget" });
  t.same(none.body.toolConfig, { functionCallingConfig: { mode: "NONE" } });
  t.equal(none.body.tools?.length, 1);
  for (const tools of [[search], [tool("f"), search]])
    for (const format of [{ kind: "text" }, { kind: "json" }] as const) {
      const { dropped } = written({ tools, format, toolChoice: { mode: "none" } }, {}, "gemini-2.5-pro");
      t.same(dropped, [], "a search that the choice excludes is not lost");
    }
});

t.test("another vendor's tool is refused", async (t) => {
  const server: Tool = { kind: "server", at: "tools.0", protocol: "some-client", name: "computer", json: {} };
  t.match(
    refusal(() => written({ tools: [server] })),
    { message: /^tools\.0: .*computer/ },
  );
});
