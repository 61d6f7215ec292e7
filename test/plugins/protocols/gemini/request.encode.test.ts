import t from "tap";
import { encode } from "../../../../plugins/protocols/gemini/request.encode.ts";
import type { Opaque } from "../../../../src/translation/events.ts";
import { assistant, call, read, refusal, result, system, terms, text, user, written } from "./request.asked.ts";

const BYPASS = "skip_thought_signature_validator";
const signed = (data: string): { opaque: Opaque } => ({
  opaque: { protocol: "gemini", kind: "thoughtSignature", data },
});

t.test("a stream is asked for as events, an answer whole, a count with the whole request", async (t) => {
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

t.test("the system's turns at the start are the instruction, a part each", async (t) => {
  const { body, changed } = written({
    turns: [system("One."), { ...system("Two."), role: "developer" }, user(text("Hi"))],
  });
  t.same(body.systemInstruction, { parts: [{ text: "One." }, { text: "Two." }] });
  t.same(body.contents, [{ role: "user", parts: [{ text: "Hi" }] }]);
  t.same(changed, []);
});

t.test("a system turn in between stays in its place, as a reminder, and is declared (38)", async (t) => {
  const { body, changed } = written({
    turns: [user(text("Hi")), assistant(text("Hello")), system("Now in French.", "messages.2"), user(text("Go on"))],
  });
  t.same(body.contents[2], {
    role: "user",
    parts: [{ text: "<system-reminder>\nNow in French.\n</system-reminder>" }, { text: "Go on" }],
  });
  t.match(changed, [/^messages\.2: /]);
});

t.test("turns alternate, and what says nothing is left out", async (t) => {
  const { body } = written({
    turns: [user(text("a")), user(text("b"), text("")), assistant(text("")), user(text("c")), assistant(text("d"))],
  });
  t.same(body.contents, [
    { role: "user", parts: [{ text: "a" }, { text: "b" }, { text: "c" }] },
    { role: "model", parts: [{ text: "d" }] },
  ]);
});

t.test("a user who says nothing is a request, nobody who says anything is none", async (t) => {
  t.same(written({ turns: [user(text(""))] }).body.contents, [{ role: "user", parts: [{ text: "" }] }]);
  t.match(
    refusal(() => written({ turns: [system("", "messages.0")] })),
    { message: /^messages\.0: a turn of the user/ },
  );
});

t.test("with nothing but system messages the last one is asked", async (t) => {
  const { body, changed } = written({ turns: [system("One."), system("Two.", "messages.1")] });
  t.same(body.systemInstruction, { parts: [{ text: "One." }] });
  t.same(body.contents, [{ role: "user", parts: [{ text: "<system-reminder>\nTwo.\n</system-reminder>" }] }]);
  t.match(changed, [/^messages\.1: /]);
});

t.test("the name of a file is left out, which is declared", async (t) => {
  const file = { kind: "media", media: "file", mime: "application/pdf", source: { base64: "aGk=" }, at: "f" } as const;
  t.match(written({ turns: [user({ ...file, filename: "a.pdf" })] }).changed, [/^f: the name/]);
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

t.test("signatures return to the very parts they sat on, and to no other (19, 20)", async (t) => {
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

t.test("the first call of each step since the user spoke bears the bypass where it has no signature", async (t) => {
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
  const tokens = written({ turns }, { thinking: "budget" });
  t.notMatch(tokens.text, BYPASS);
  t.same(tokens.changed, []);
});

t.test("a signature of another protocol is no signature here", async (t) => {
  const foreign = { opaque: { protocol: "other", kind: "signature", data: "x" } };
  const { text: body } = written({
    turns: [user(text("Go")), assistant({ kind: "reasoning", at: "r", text: "", ...foreign }, text("a", foreign))],
  });
  t.notMatch(body, /thought/);
});

t.test("an answer to be continued is sent, unless the model is known not to", async (t) => {
  const turns = [user(text("Hi")), assistant(text("He"))];
  t.equal(written({ turns }).body.contents[1]?.role, "model");
  t.match(
    refusal(() => written({ turns }, { prefill: false })),
    { message: /^assistant: / },
  );
});

t.test("tiers by their words, keeping answers not at all", async (t) => {
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

t.test("labels are not sent for others", async (t) => {
  t.equal(written({ metadata: { a: "b" } }).body["labels"], undefined);
});

t.test("a count asked for in this protocol names the model it is sent to", async (t) => {
  const contents = [{ role: "user", parts: [{ text: "Hi" }] }];
  const body = { generateContentRequest: { model: "models/public-name", contents } };
  const conversation = read(body, { task: "count", native: true });
  t.match(JSON.parse(encode(conversation, terms({}, "vendor-name").terms).body), {
    generateContentRequest: { model: "models/vendor-name", contents },
  });
});

t.test("a request of this protocol is written as it came but for its envelopes", async (t) => {
  const contents = [
    { role: "user", parts: [{ text: "Go" }] },
    {
      role: "model",
      parts: [
        { function_call: { name: "f", args: {} }, thought_signature: "gw1.gemini.thoughtSignature.real" },
        { functionCall: { name: "f", args: {} } },
      ],
    },
  ];
  const conversation = read({ contents, safety_settings: [] }, { native: true });
  const [, second] = conversation.turns[1]?.parts ?? [];
  Object.assign(second ?? {}, signed("placed"));
  t.strictSame(JSON.parse(encode(conversation, terms().terms).body), {
    contents: [
      contents[0],
      {
        role: "model",
        parts: [
          { function_call: { name: "f", args: {} }, thought_signature: "real" },
          { functionCall: { name: "f", args: {} }, thoughtSignature: "placed" },
        ],
      },
    ],
    safety_settings: [],
  });
});

t.test("media of a system turn in between stay in their place, within the reminder", async (t) => {
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
