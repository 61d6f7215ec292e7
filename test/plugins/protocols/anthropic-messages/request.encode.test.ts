import t from "tap";
import { type Facts } from "../../../../src/core/marketplace.ts";
import {
  type Conversation,
  type Effort,
  type Part,
  type ReasoningConfig,
  type Tool,
} from "../../../../src/translation/conversation.ts";
import { RawJson } from "../../../../src/wire/exact.ts";
import { type JsonObject } from "../../../../src/wire/values.ts";
import { conversation, NAME, text, write } from "./speaking.ts";

const plain = (more: Partial<Conversation> = {}) => conversation([["user", text("Hi")]], more);
const call = (id: string, args = "{}", more: object = {}): Part => ({
  kind: "tool_call",
  id,
  name: "f",
  arguments: args,
  at: `call ${id}`,
  ...more,
});
const result = (callId: string, ...parts: Part[]): Part => ({
  kind: "tool_result",
  callId,
  parts,
  at: `result ${callId}`,
});
const messages = (asked: Conversation, facts = {}) => write(asked, facts).body["messages"] as JsonObject[];
const f: Tool = { kind: "function", name: "f", at: "tools.0" };

t.test(
  "an answer of no tokens, which fills the cache here, is not what a client of another protocol requests",
  async (t) => {
    for (const maxTokens of [0, -1])
      t.throws(() => write(plain({ maxTokens })), { message: /an answer needs at least one token/ });
    t.equal(write(plain({ maxTokens: 1 })).body["max_tokens"], 1);
  },
);

t.test("the model, a maximum output and the version are always sent", async (t) => {
  const { body, headers, operation } = write(plain());
  t.same(body, {
    model: "claude",
    max_tokens: 32000,
    messages: [{ role: "user", content: [{ type: "text", text: "Hi" }] }],
  });
  t.same(headers, [["anthropic-version", "2023-06-01"]]);
  t.equal(operation.upstream("x"), "/messages");
  t.equal(write(plain(), { output: 64000 }).body["max_tokens"], 64000);
  t.equal(write(plain({ maxTokens: 5, stream: true }), { output: 64000 }).body["max_tokens"], 5);
  t.equal(write(plain({ stream: true })).body["stream"], true);
});

t.test("a call without text is a turn without a text block", async (t) => {
  const asked = conversation([
    ["user", text("Hi")],
    ["assistant", text(""), call("a", "")],
    ["user", result("a", text("ok"))],
  ]);
  t.same(messages(asked)[1], { role: "assistant", content: [{ type: "tool_use", id: "a", name: "f", input: {} }] });
});

t.test("an empty turn is left out, and that is declared; an empty system message is omitted", async (t) => {
  const asked = conversation([
    ["system", text("")],
    ["user", text("Hi", "one")],
    ["assistant", text(" ", "two")],
    ["user", text("Ho", "three")],
    ["assistant"],
    ["assistant", { kind: "reasoning", text: "Hm", at: "thought" }],
    ["user", text("Ha", "four"), text("", "five")],
  ]);
  const { body, dropped } = write(asked);
  t.same(
    (body["messages"] as JsonObject[]).map(({ role, content }) => [role, (content as JsonObject[]).length]),
    [["user", 3]],
  );
  t.same(dropped, ["messages.2", "messages.4", "thought"]);
});

t.test("arguments keep their digits and their spaces", async (t) => {
  const args = '{"a": 1.0, "b":12345678901234567890}';
  t.ok(write(conversation([["assistant", call("a", args)]])).text.includes(`"input":${args}`));
});

t.test("arguments that are not an object are refused with the call's path", async (t) => {
  for (const args of ["[1]", '"x"', "{", "nul"])
    t.throws(() => write(conversation([["assistant", call("a", args)]])), /^call a: /, args);
});

t.test("turns alternate, and results come first, in order", async (t) => {
  const asked = conversation([
    ["user", text("one")],
    ["user", text("two")],
    ["assistant", call("a"), call("b")],
    ["user", result("a", text("1"))],
    ["user", text("and"), result("b", text("2"))],
  ]);
  t.same(
    messages(asked).map(({ role, content }) => [role, (content as JsonObject[]).map((block) => block["type"])]),
    [
      ["user", ["text", "text"]],
      ["assistant", ["tool_use", "tool_use"]],
      ["user", ["tool_result", "tool_result", "text"]],
    ],
  );
});

t.test("system messages at the start are blocks of their own; those between turns stay in place", async (t) => {
  const asked = conversation([
    ["system", text("S")],
    ["developer", text("D")],
    ["user", text("Hi")],
    ["system", text("now", "messages.3.content")],
    ["assistant", text("Ho")],
    ["system", text("then")],
    ["user", text("Bye")],
  ]);
  const wrapped = write(asked);
  t.same(wrapped.body["system"], [
    { type: "text", text: "S" },
    { type: "text", text: "D" },
  ]);
  t.same(
    (wrapped.body["messages"] as JsonObject[]).map(({ role, content }) => [
      role,
      (content as JsonObject[]).map((each) => each["text"]),
    ]),
    [
      ["user", ["Hi", "<system-reminder>\nnow\n</system-reminder>"]],
      ["assistant", ["Ho"]],
      ["user", ["<system-reminder>\nthen\n</system-reminder>", "Bye"]],
    ],
  );
  t.same(wrapped.changed, ["messages.3: sent as text of the user", "messages.5: sent as text of the user"]);
  const taken = write(asked, { system_in_place: true });
  t.same(
    (taken.body["messages"] as JsonObject[]).map(({ role }) => role),
    ["user", "system", "assistant", "user"],
  );
  t.same(taken.changed, ["messages.5: sent as text of the user"], "after the assistant it is not accepted");
  const roles = (...more: Parameters<typeof conversation>[0]) =>
    (write(conversation(more), { system_in_place: true }).body["messages"] as JsonObject[]).map(({ role }) => role);
  const user: ["user", Part] = ["user", text("Hi")];
  const note: ["system", Part] = ["system", text("now")];
  t.same(roles(user, note, user), ["user"], "nor before a user");
  t.same(roles(user, note, note, user, note), ["user", "system"], "but at the end");
});

t.test("with nothing but system messages the last one is sent as the user's", async (t) => {
  const { body } = write(
    conversation([
      ["system", text("S")],
      ["system", text("Do it")],
    ]),
  );
  t.match(body, { system: [{ text: "S" }], messages: [{ role: "user" }] });
  t.throws(() => write(conversation([["user", text(" ")]])), /no message to answer/);
});

t.test("signed thinking is returned in its position, unsigned thinking never", async (t) => {
  const own = (kind: string, data: string) => ({ protocol: NAME, account: "them", kind, data });
  const asked = conversation([
    ["user", text("Hi")],
    [
      "assistant",
      { kind: "reasoning", redacted: true, opaque: own("redacted", "ZGF0YQ"), at: "r0" },
      { kind: "reasoning", text: "", opaque: own("signature", "c2ln"), at: "r1" },
      { kind: "reasoning", summary: ["It is", "so."], opaque: own("signature", "c2lo"), at: "r2" },
      { kind: "reasoning", text: "mine", at: "r3" },
      text("Ho"),
    ],
    ["user", text("Bye")],
  ]);
  const { body, dropped } = write(asked);
  t.same((body["messages"] as JsonObject[])[1]?.["content"], [
    { type: "redacted_thinking", data: "ZGF0YQ" },
    { type: "thinking", thinking: "", signature: "c2ln" },
    { type: "thinking", thinking: "It is\n\nso.", signature: "c2lo" },
    { type: "text", text: "Ho" },
  ]);
  t.same(dropped, ["r3"]);
});

t.test("a temperature above 1 is refused; sampling that the model does not accept is dropped", async (t) => {
  const uses = [{ feature: "temperature" as const, path: "generationConfig.temperature" }];
  t.throws(() => write(plain({ temperature: 1.5, uses: uses })), /generationConfig\.temperature: .*between 0 and 1/);
  t.match(write(plain({ temperature: 0.5, topK: 4 })).body, { temperature: 0.5, top_k: 4 });
  const { body, dropped } = write(plain({ temperature: 1, topP: 0.9, topK: 4, uses: uses }), { sampling: false });
  t.same(Object.keys(body).sort(), ["max_tokens", "messages", "model"]);
  t.same(dropped, ["generationConfig.temperature", "top_p", "top_k"]);
});

t.test(
  "of a temperature and top_p, which models refuse together, the one that changes something is sent",
  async (t) => {
    const sampling = (settings: Partial<Conversation>) => {
      const { body, dropped } = write(plain(settings));
      return [body["temperature"], body["top_p"], ...dropped];
    };
    t.same(sampling({ temperature: 0.5, topP: 0.9 }), [0.5, undefined, "top_p"]);
    t.same(sampling({ temperature: 0.5, topP: 1 }), [0.5, undefined]);
    t.same(sampling({ temperature: 1, topP: 0.9 }), [undefined, 0.9]);
    t.same(sampling({ topP: 0.9 }), [undefined, 0.9]);
  },
);

t.test("disabled parallel calls are part of the choice", async (t) => {
  const choice = (more: Partial<Conversation>) => write(plain({ tools: [f], ...more })).body["tool_choice"];
  t.same(choice({ parallel: false }), { type: "auto", disable_parallel_tool_use: true });
  t.same(choice({ parallel: false, toolChoice: { mode: "required" } }), {
    type: "any",
    disable_parallel_tool_use: true,
  });
  t.same(choice({ toolChoice: { mode: "named", name: "f" } }), { type: "tool", name: "f" });
  t.same(choice({ toolChoice: { mode: "none" }, parallel: false }), { type: "none" });
  t.equal(choice({ parallel: true }), undefined);
  t.equal(choice({ toolChoice: { mode: "auto" }, tools: [] }), undefined, "nothing to choose from");
  t.throws(() => choice({ toolChoice: { mode: "required" }, tools: [] }), /tool_choice: .*no tool/);
});

t.test("of allowed tools only those are sent", async (t) => {
  const g: Tool = { kind: "function", name: "g", at: "tools.1" };
  const { body, changed } = write(
    plain({ tools: [f, g], toolChoice: { mode: "allowed", required: true, names: ["g"] } }),
  );
  t.match(body, { tools: [{ name: "g" }], tool_choice: { type: "any" } });
  t.same(changed, ["tool_choice: only the allowed tools are sent", "tools.0: not among the allowed tools"]);
});

t.test("names are shortened, namespaces are part of them, and the answer maps them back", async (t) => {
  const long = "a.".repeat(80);
  const tools: Tool[] = [
    { kind: "function", name: long, at: "tools.0" },
    { kind: "function", name: "run", namespace: "shell", at: "tools.1" },
    {
      kind: "custom",
      name: "patch",
      at: "tools.2",
      grammar: { syntax: "lark", definition: "start: /.+/" },
    },
  ];
  const asked = conversation([["assistant", call("a", "raw", { name: "patch", custom: true })]], { tools });
  const { body, names, changed } = write(asked);
  const sent = (body["tools"] as JsonObject[]).map(({ name }) => String(name));
  t.match(sent[0], /^[a-zA-Z0-9_-]{1,128}$/);
  t.same(names.original(String(sent[0])), { name: long });
  t.same(names.original("shell__run"), { name: "run", namespace: "shell" });
  t.same(names.original("patch"), { name: "patch", custom: true });
  t.match((body["tools"] as JsonObject[])[2], {
    input_schema: { properties: { input: { type: "string", description: "start: /.+/" } }, required: ["input"] },
  });
  t.same(changed, ["tools.2: the grammar is described to the model, not enforced"]);
  t.match(body["messages"], [{ content: [{ name: "patch", input: { input: "raw" } }] }]);
});

t.test("a choice names a tool as the tools do", async (t) => {
  const tools: Tool[] = [
    { kind: "function", name: "run", namespace: "shell", at: "tools.0" },
    { kind: "custom", name: "patch", at: "tools.1" },
    { kind: "web_search", at: "tools.2" },
  ];
  const named = (name: string, more: object = {}) =>
    write(plain({ tools, toolChoice: { mode: "named", name, ...more } })).body["tool_choice"];
  t.same(named("run"), { type: "tool", name: "shell__run" });
  t.same(named("patch", { custom: true }), { type: "tool", name: "patch" });
  t.same(named("web_search", { server: true }), { type: "tool", name: "web_search" });
});

t.test("an earlier refusal is text, content of other vendors is not sent", async (t) => {
  const asked = conversation([
    ["user", text("Hi")],
    [
      "assistant",
      { kind: "refusal", text: "No.", at: "r" },
      { kind: "foreign", protocol: "acme", name: "x", json: {}, at: "x" },
    ],
    ["user", text("Please")],
  ]);
  t.same(messages(asked)[1]?.["content"], [{ type: "text", text: "No." }]);
});

t.test("ids that the vendor refuses are changed in the same way on call and result", async (t) => {
  const odd = `functions.Bash:0__thought__${"x".repeat(300)}`;
  const [calls, results] = messages(
    conversation([
      ["assistant", call(odd)],
      ["user", result(odd, text("ok"))],
    ]),
  );
  const id = (calls?.["content"] as JsonObject[])[0]?.["id"];
  t.match(id, /^[a-zA-Z0-9_-]{1,64}$/);
  t.equal((results?.["content"] as JsonObject[])[0]?.["tool_use_id"], id);
});

t.test("images are accepted in four types, files as PDF and text", async (t) => {
  const shown = (part: object) => {
    const media = { kind: "media", media: "image", at: "m", ...part } as Part;
    return (messages(conversation([["user", media]]))[0]?.["content"] as JsonObject[])[0];
  };
  t.same(shown({ mime: "image/png", source: { base64: "iVBO" } }), {
    type: "image",
    source: { type: "base64", media_type: "image/png", data: "iVBO" },
  });
  t.same(shown({ source: { url: "data:image/gif;base64,R0lG" } }), {
    type: "image",
    source: { type: "base64", media_type: "image/gif", data: "R0lG" },
  });
  t.same(shown({ source: { url: "https://a/b" } }), { type: "image", source: { type: "url", url: "https://a/b" } });
  t.throws(
    () => shown({ mime: "image/bmp", source: { base64: "Qk0" } }),
    /m: .*JPEG, PNG, GIF and WebP, not as image\/bmp/,
  );
  t.throws(() => shown({ source: { url: "gs://a/b" } }), /m: .*http/);
  t.throws(() => shown({ source: { id: "file-1", protocol: "acme-chat" } }), /m: .*id/);
  t.same(shown({ media: "file", mime: "application/pdf", filename: "a.pdf", source: { base64: "JVBE" } }), {
    type: "document",
    source: { type: "base64", media_type: "application/pdf", data: "JVBE" },
    title: "a.pdf",
  });
  t.match(shown({ media: "file", mime: "text/csv", source: { base64: Buffer.from("a,b").toString("base64") } }), {
    source: { type: "text", media_type: "text/plain", data: "a,b" },
  });
  for (const mime of ["application/json", "application/vnd.api+json; charset=utf-8", "application/x-yaml"])
    t.match(
      shown({ media: "file", mime, source: { base64: Buffer.from("{}").toString("base64") } }),
      { source: { type: "text", media_type: "text/plain", data: "{}" } },
      mime,
    );
  t.throws(() => shown({ media: "file", mime: "application/zip", source: { base64: "UEs" } }), /m: .*PDF and text/);
  const latin = { base64: Buffer.from("t\xe4xt", "latin1").toString("base64") };
  t.throws(() => shown({ media: "file", mime: "text/plain", source: latin }), /m: .*not in UTF-8/);
  t.throws(() => shown({ media: "audio", source: { base64: "UEs" } }), /m: .*no audio/);
});

t.test("a text file is text for an imitation of the protocol: most refuse documents", async (t) => {
  const file = (more: object, model: string) => {
    const part = { kind: "media", media: "file", at: "m", ...more } as Part;
    const [message] = write(conversation([["user", part]]), {}, model).body["messages"] as { content: JsonObject[] }[];
    return message?.content[0];
  };
  const named = { filename: "a.csv", mime: "text/csv", source: { base64: Buffer.from("a,b").toString("base64") } };
  t.same(file(named, "deepseek-v4-pro"), { type: "text", text: "a.csv\n\na,b" });
  t.same(file({ source: { text: "a" } }, "qwen3-coder"), { type: "text", text: "a" });
  t.match(file(named, "claude-sonnet-5"), { type: "document", source: { type: "text", data: "a,b" }, title: "a.csv" });
  t.match(file({ mime: "application/pdf", source: { base64: "JVBE" } }, "qwen3-coder"), { type: "document" });
});

t.test("an image is sent with the type that it has: the vendor refuses another", async (t) => {
  const sent = (mime: string | undefined, head: string) => {
    const base64 = Buffer.from(`${head}more bytes`, "latin1").toString("base64");
    const image = { kind: "media", media: "image", source: { base64 }, at: "m", ...(mime && { mime }) } as Part;
    const { body, changed } = write(conversation([["user", image]]));
    const [block] = (body["messages"] as { content: { source: JsonObject }[] }[])[0]?.content ?? [];
    return [block?.source["media_type"], ...changed];
  };
  const jpeg = "\xff\xd8\xff\xe0";
  t.same(sent("image/jpeg", jpeg), ["image/jpeg"]);
  t.same(sent("image/jpg", jpeg), ["image/jpeg"]);
  t.match(sent("image/png", jpeg), ["image/jpeg", /^m: sent as image\/jpeg, which it is/]);
  t.match(sent("image/jpeg", "\x89PNG\r\n\x1a\n"), ["image/png", /^m/]);
  t.match(sent("application/octet-stream", "GIF89a"), ["image/gif", /^m/]);
  t.match(sent(undefined, "RIFF\n\0\0\0WEBP"), ["image/webp", /^m/]);
  t.same(sent("image/png", "RIFF\n\0\0\0WAVE"), ["image/png"], "unknown bytes");
  t.throws(() => sent("image/bmp", "BM"), /not as image\/bmp/);
});

t.test("a tool's result keeps its images, and its error flag; images of a failed one follow all results", async (t) => {
  const image: Part = { kind: "media", media: "image", mime: "image/png", source: { base64: "iVBO" }, at: "i" };
  const failed = { ...result("a", text("see"), image), isError: true } as Part;
  const sent = write(
    conversation([
      ["assistant", call("a"), call("b")],
      ["user", failed, result("b", image)],
    ]),
  );
  const source = { type: "base64", media_type: "image/png", data: "iVBO" };
  t.same((sent.body["messages"] as { content: object[] }[])[1]?.content, [
    {
      type: "tool_result",
      tool_use_id: "a",
      content: [
        { type: "text", text: "see" },
        { type: "text", text: "[image attached]" },
      ],
      is_error: true,
    },
    { type: "tool_result", tool_use_id: "b", content: [{ type: "image", source }] },
    { type: "image", source },
  ]);
  t.match(sent.changed, [/media of a failed result/]);
});

t.test("an assistant turn at the end is continued, unless the model is known not to", async (t) => {
  const asked = conversation([
    ["user", text("Hi")],
    ["assistant", text("Ho")],
  ]);
  t.equal(messages(asked).length, 2);
  t.throws(() => write(asked, { prefill: false }), /messages\.1: /);
});

t.test("an assistant turn at the end has no white space at its end, and no thinking by tokens", async (t) => {
  const asked = conversation(
    [
      ["user", text("Hi")],
      ["assistant", text("One.\n"), text(" Two, \n")],
    ],
    { reasoning: { effort: "high" } },
  );
  const { body, changed } = write(asked, { thinking: "budget" });
  t.match(body["messages"], [{}, { content: [{ text: "One.\n" }, { text: " Two," }] }]);
  t.equal(body["thinking"], undefined);
  t.match(changed, [/without white space at its end/, /no thinking: .* while it continues its own turn/]);
  const imitation = write(asked, { thinking: "none" }, "glm-5");
  t.match(imitation.body["messages"], [{}, { content: [{}, { text: " Two, \n" }] }], "imitations may take it");
});

t.test("cache marks stay on their blocks, as far as the vendor accepts them", async (t) => {
  const marked = (i: number, ttl: "5m" | "12h"): Part => ({
    kind: "text",
    text: `${i}`,
    at: `p${i}`,
    cache: { ttl, at: `p${i}.mark` },
  });
  const asked = conversation([
    ["system", marked(0, "5m")],
    ["user", marked(1, "5m"), marked(2, "5m"), marked(3, "12h"), marked(4, "5m")],
  ]);
  const { body, dropped, changed } = write(asked);
  t.same(body["system"], [{ type: "text", text: "0" }]);
  const [hour, minutes] = ["1h", "5m"].map((ttl) => ({ cache_control: { type: "ephemeral", ttl } }));
  t.match(body["messages"], [{ content: [hour, hour, hour, minutes] }], "none is shorter than one behind it");
  const longer = ["p1", "p2"].map((p) => `${p}.mark: its cache mark lasts an hour, as one behind it`);
  t.same([dropped, changed], [["p0.mark"], ["p3: its cache mark lasts an hour", ...longer]]);
  const unset: Part = { kind: "text", text: "0", at: "p0", cache: {} };
  const whole = write({
    ...conversation([["user", unset, marked(1, "5m"), marked(2, "12h")]]),
    cache: { ttl: "30m" },
  });
  t.match(whole.body, { messages: [{ content: [hour, hour, hour] }], ...hour });
  t.equal(whole.changed.length, 4, "each is declared once");
});

t.test("a mark within a result is on the result, where it counts", async (t) => {
  const marked = { ...text("ok"), cache: {} } as Part;
  const asked = conversation([
    ["assistant", call("a")],
    ["user", result("a", marked)],
  ]);
  t.match(messages(asked)[1]?.["content"], [{ content: "ok", cache_control: { type: "ephemeral" } }]);
});

t.test("the description of a schema is left out, which is declared", async (t) => {
  const schema = new RawJson('{"type":"object","properties":{},"additionalProperties":false}');
  const format = { kind: "schema", schema, description: "A city." } as const;
  t.match(write(plain({ format })).changed, [/description/]);
});

t.test("labels, stop sequences, tiers and searches", async (t) => {
  const { body } = write(
    plain({
      user: "u",
      stop: ["END"],
      tier: "default",
      tools: [{ kind: "web_search", allowed: ["a.de"], maxUses: 2, location: { city: "Ulm" }, at: "tools.0" }],
    }),
  );
  t.match(body, {
    metadata: { user_id: "u" },
    stop_sequences: ["END"],
    service_tier: "standard_only",
    tools: [
      {
        type: "web_search_20250305",
        allowed_domains: ["a.de"],
        max_uses: 2,
        user_location: { type: "approximate", city: "Ulm" },
      },
    ],
  });
  t.throws(() => write(plain({ stop: ["\n"] })), /stop: .*white space/);
  t.throws(() => write(plain({ choices: 2 })), /choices: /);
  t.throws(() => write(plain({ store: true })), /store: /);
  t.same(write(plain({ tier: "flex" })).dropped, ["tier"]);
  const search = {
    kind: "web_search",
    size: "low",
    at: "tools.0",
    paths: { size: "tools.0.search_context_size" },
  } as const;
  t.same(
    write(plain({ tools: [search] })).dropped,
    ["tools.0.search_context_size"],
    "the search itself is not dropped",
  );
});

t.test("to count tokens only the prompt is sent", async (t) => {
  const { body, operation } = write(plain({ task: "count", temperature: 0.5, user: "u", stop: ["x"], tools: [f] }));
  t.same(Object.keys(body).sort(), ["messages", "model", "tools"]);
  t.equal(operation.upstream("x"), "/messages/count_tokens");
  t.ok(write(plain({ task: "count", choices: 2, store: true })), "how it is answered does not change the count");
});

t.test("a user is not sent as an e-mail address or a phone number, which the vendor refuses", async (t) => {
  const uses = [{ feature: "user", path: "user" }] as const;
  const sent = (user: string) => {
    const { body, changed } = write(plain({ user, uses: [...uses] }));
    return [(body["metadata"] as { user_id: string }).user_id, changed.length];
  };
  for (const user of ["u-1", "12345678", '{"device":"a","session":"b"}', "@home"]) t.same(sent(user), [user, 0]);
  for (const user of ["jane@example.org", "id:jane.doe@example.org", "+49 (30) 1234567"])
    t.match(sent(user), [/^[0-9a-f]{64}$/, 1], user);
  t.same(sent("jane@example.org"), sent("jane@example.org"));
  t.same(sent("u".repeat(256)), ["u".repeat(256), 0]);
  t.match(sent("u".repeat(257)), [/^[0-9a-f]{64}$/, 1], "longer than it takes");
});

t.test("alternatives at the root of a tool's schema, which the vendor refuses, are described", async (t) => {
  const shared = { $defs: { a: { type: "object" } }, description: "Which." };
  const parameters = new RawJson(
    JSON.stringify({ ...shared, anyOf: [{ $ref: "#/$defs/a" }, { maximum: 1 }], oneOf: [] }),
  );
  const f = { kind: "function", at: "tools.0", name: "f", parameters } as const;
  const { body, changed } = write(plain({ tools: [f] }));
  t.same((body["tools"] as { input_schema: unknown }[])[0]?.input_schema, {
    type: "object",
    properties: {},
    ...shared,
    description: 'Which.\n\n{"oneOf":[],"anyOf":[{"$ref":"#/$defs/a"},{"maximum":1}]}',
  });
  t.match(changed, [/tools\.0: .*oneOf, anyOf at the root/]);
  const strict = write(plain({ tools: [{ ...f, strict: true }] }));
  t.equal((strict.body["tools"] as { strict?: true }[])[0]?.strict, undefined);
  t.match(strict.changed.join(), /has alternatives at its root: it is sent without strict/);
  const inner = new RawJson('{"type":"object","properties":{"a":{"anyOf":[{},{}]}},  "required":["a"]}');
  const { text } = write(plain({ tools: [{ ...f, parameters: inner }] }));
  t.match(text, inner.text, "its original text");
});

t.test("names of arguments that the vendor refuses are others, in calls too", async (t) => {
  const inner = '{"type":"object","properties":{"$top":{"type":"number","default":9007199254740993}}}';
  const parameters = new RawJson(
    `{"type":"object","properties":{"$top":${inner},"filter[id]":{},"a.b":{}},"required":["a.b","$top"]}`,
  );
  const f = { kind: "function", at: "tools.0", name: "f", parameters } as const;
  const call = { kind: "tool_call", id: "c", name: "f", arguments: '{"$top":{"$top":1.0}}', at: "m" } as const;
  const turns: Parameters<typeof conversation>[0] = [
    ["user", text("Hi")],
    ["assistant", call],
    ["user", { kind: "tool_result", callId: "c", parts: [], at: "m" }],
  ];
  const { text: sent, changed } = write(conversation(turns, { tools: [f] }));
  t.match(
    sent,
    `"input_schema":{"type":"object","properties":{"_top":${inner},"filter_id_":{},"a.b":{}},"required":["a.b","_top"]}`,
  );
  t.match(sent, '"input":{"_top":{"$top":1.0}}');
  t.match(changed, [/tools\.0: names of its arguments/]);
});

t.test(
  "a schema with an object of any names is refused for an answer, and sent without strict for a tool",
  async (t) => {
    const schema = new RawJson(
      '{"type":"object","properties":{"tags":{"type":"object","additionalProperties":{"type":"integer"}}},"additionalProperties":false}',
    );
    t.throws(() => write(plain({ format: { kind: "schema", schema, name: "n" } })), {
      message: /cannot enforce a schema that allows members of any name \(properties\.tags\)/,
    });
    const { body, changed } = write(plain({ tools: [{ ...f, parameters: schema, strict: true }] }));
    t.equal((body["tools"] as { strict?: true }[])[0]?.strict, undefined);
    t.match(changed, [/members of any name \(properties\.tags\): it is sent without strict/]);
  },
);

t.test("tools beyond what the vendor enforces in one request are sent without strict", async (t) => {
  const optional = { type: "object", properties: { a: {}, b: { items: { properties: { c: {} } } } }, required: ["a"] };
  const union = { properties: { a: { type: ["string", "null"] }, b: { anyOf: [{}, {}] } }, required: ["a", "b"] };
  const strictOf = (count: number, schema: object, more: Partial<Conversation> = {}) => {
    const parameters = new RawJson(JSON.stringify(schema));
    const tools = Array.from({ length: count }, (_, i) => {
      return { kind: "function", at: `tools.${i}`, name: `f${i}`, parameters, strict: true } as const;
    });
    const { body, changed } = write(plain({ tools, ...more }));
    const sent = body["tools"] as { strict?: true }[];
    const last = changed.filter((notice) => notice.includes("enforces no more schemas")).at(-1);
    return [sent.filter(({ strict }) => strict).length, last?.slice(0, 8)];
  };
  t.same(strictOf(20, { type: "object" }), [20, undefined]);
  t.same(strictOf(21, { type: "object" }), [20, "tools.20"]);
  t.same(strictOf(13, optional), [12, "tools.12"], "24 arguments that may be missing");
  t.same(strictOf(9, union), [8, "tools.8:"], "16 of several types");
  const schema = new RawJson(JSON.stringify(union));
  t.same(strictOf(8, union, { format: { kind: "schema", schema } }), [7, "tools.7:"], "the answer's schema counts");
});

t.test("schemas that are much longer than what the vendor enforces are not searched", async (t) => {
  const longSchema = () => {
    const parameters = new RawJson(`{"type":"object","description":"${"x".repeat(150_000)}","properties":{}}`);
    let reads = 0;
    const value = parameters.value as JsonObject;
    const read = () => {
      reads++;
      return {};
    };
    Object.defineProperty(value, "$defs", { enumerable: true, get: read });
    return { parameters, reads: () => reads };
  };
  const [first, second, third] = [longSchema(), longSchema(), longSchema()];
  const tools = [first, second].map(({ parameters }, i): Tool => {
    return { ...f, name: `f${i}`, at: `tools.${i}`, parameters, strict: true };
  });
  const { body, changed } = write(plain({ tools }));
  t.same(
    (body["tools"] as { strict?: true }[]).map(({ strict }) => strict),
    [true, undefined],
  );
  t.match(changed, [/tools.0: only the named/, /tools.1: the provider enforces no more schemas in one request/]);
  t.ok(first.reads() > 0);
  t.equal(second.reads(), 0);
  const format = { kind: "schema", schema: third.parameters } as const;
  write(plain({ format }));
  t.equal(third.reads(), 0, "nothing is counted without tools");
  const schema = new RawJson(`{"description":"${"x".repeat(300_000)}"}`);
  t.throws(() => write(plain({ format: { kind: "schema", schema } })), {
    message: /cannot enforce a schema of this length/,
  });
});

t.test("a schema for the answer is sent unchanged", async (t) => {
  const schema = new RawJson('{"type":"object","properties":{"a":{"type":"string"}},"additionalProperties":false}');
  const { text: sent } = write(plain({ format: { kind: "schema", schema, name: "n" } }));
  t.ok(sent.includes(`"output_config":{"format":{"type":"json_schema","schema":${schema.text}}}`), sent);
});

const ask = (reasoning: ReasoningConfig, facts: Facts = {}, more: Partial<Conversation> = {}) => {
  const asked = conversation([["user", text("Hi")]], { reasoning, maxTokens: 60_000, ...more });
  const { body, changed, dropped } = write(asked, facts);
  const { thinking, output_config: config } = body;
  return { thinking, config, changed, dropped };
};

t.test("efforts are sent by name to models with effort levels, and to unknown ones", async (t) => {
  const efforts: [Effort, string][] = [
    ["minimal", "low"],
    ["low", "low"],
    ["medium", "medium"],
    ["xhigh", "xhigh"],
    ["max", "max"],
  ];
  for (const [effort, word] of efforts) {
    const { thinking, config, changed } = ask({ effort });
    t.same([thinking, config], [{ type: "adaptive" }, { effort: word }], effort);
    t.equal(changed.length, effort === "minimal" ? 1 : 0);
  }
  t.match(ask({ effort: "none" }), { thinking: { type: "disabled" }, config: undefined });
  t.match(ask({ budget: -1 }), { thinking: { type: "adaptive" }, config: undefined, changed: { length: 0 } });
  t.match(ask({ budget: 8000 }), {
    config: { effort: "medium" },
    changed: ["reasoning_budget: effort medium for 8000 tokens"],
  });
  t.match(ask({ budget: 0 }), { thinking: { type: "disabled" } });
});

t.test("efforts become tokens for models with a thinking budget", async (t) => {
  const budget = (reasoning: ReasoningConfig, more: Partial<Conversation> = {}) =>
    ask(reasoning, { thinking: "budget" }, more);
  t.same(budget({ effort: "low" }).thinking, { type: "enabled", budget_tokens: 4096 });
  t.same(budget({ effort: "max" }).thinking, { type: "enabled", budget_tokens: 48_000 });
  t.match(budget({ budget: 2000 }), { thinking: { budget_tokens: 2000 }, changed: { length: 0 } });
  t.match(budget({ budget: 100 }), {
    thinking: { budget_tokens: 1024 },
    changed: ["reasoning_budget: 1024 tokens for thinking"],
  });
  t.match(budget({ effort: "high" }, { maxTokens: 4000 }), { thinking: { budget_tokens: 3200 } });
  t.match(budget({ effort: "high" }, { maxTokens: 1000 }), { thinking: undefined, changed: [/no thinking/] });
  t.match(budget({ effort: "none" }), { thinking: undefined, changed: { length: 0 } });
});

t.test("a model without thinking is not asked for it", async (t) => {
  for (const facts of [{ thinking: "none" }, { reasons: false }] as const)
    t.match(ask({ effort: "high" }, facts), { thinking: undefined, dropped: ["reasoning_effort"] });
  t.match(ask({ effort: "high" }, { reasons: false, thinking: "adaptive" }), { thinking: { type: "adaptive" } });
  t.match(ask({ effort: "none" }, { thinking: "none" }), { thinking: undefined, dropped: { length: 0 } });
});

t.test("thinking is shown or hidden as the client requests", async (t) => {
  t.same(ask({ effort: "low", show: false }).thinking, { type: "adaptive", display: "omitted" });
  t.same(ask({ effort: "low", summary: "auto" }).thinking, { type: "adaptive", display: "summarized" });
  const enabled = { type: "enabled", budget_tokens: 2000 };
  const budget = (show?: boolean) => ask({ budget: 2000, ...(show !== undefined && { show }) }, { thinking: "budget" });
  t.same(
    [budget(), budget(true)].map(({ thinking }) => thinking),
    [enabled, enabled],
  );
  t.same(budget(false).thinking, { ...enabled, display: "omitted" });
  t.same(ask({ show: true }).thinking, { type: "adaptive", display: "summarized" });
  t.equal(ask({ show: false }).thinking, undefined);
});

t.test("beside a forced call there is no thinking budget, which is declared", async (t) => {
  const more: Partial<Conversation> = {
    tools: [f],
    toolChoice: { mode: "required" },
    uses: [{ feature: "tool_choice", path: "toolConfig" }],
  };
  t.equal(ask({ effort: "low" }, { thinking: "budget" }, more).thinking, undefined);
  t.match(ask({ effort: "none" }, { thinking: "budget" }, more), { thinking: undefined });
  t.match(ask({ effort: "low" }, { thinking: "adaptive" }, more), { thinking: { type: "adaptive" } });
});

t.test("in a tool loop that lost its thinking, thinking by tokens is not requested, and it is declared", async (t) => {
  const signed: Part = {
    kind: "reasoning",
    text: "Hm.",
    opaque: { protocol: NAME, kind: "signature", data: "c2ln" },
    at: "r",
  };
  const call: Part = { kind: "tool_call", id: "a", name: "f", arguments: "{}", at: "c" };
  const result: Part = { kind: "tool_result", callId: "a", parts: [text("ok")], at: "x" };
  const loop = (facts: Facts, ...before: Part[]) => written(facts, before, []);
  const loopThen = (facts: Facts, ...after: unknown[]) => written(facts, [], after);
  const written = (facts: Facts, before: Part[], after: unknown[], more: Partial<Conversation> = {}) => {
    const turns = [["user", text("Hi")], ["assistant", ...before, call], ["user", result], ...after];
    return write(conversation(turns as never, { reasoning: { effort: "high" }, tools: [f], ...more }), facts);
  };
  const thinking = "budget";
  const lost = loop({ thinking });
  t.notOk("thinking" in lost.body);
  t.match(lost.changed, [/^reasoning_effort: no thinking/]);
  t.ok("thinking" in loop({ thinking }, signed).body, "signed thinking is passed on");
  const note = ["system", text("A note.")];
  t.notOk(
    "thinking" in loopThen({ thinking, system_in_place: true }, note).body,
    "a system message does not hide a tool loop",
  );
  for (const before of [[], [text("Let me see."), signed]]) {
    const { body, changed } = loop({ thinking: "adaptive" }, ...before);
    t.match(body["thinking"], { type: "adaptive" }, "adaptive thinking need not begin a turn");
    t.same(changed, []);
  }
  const short = (...before: Part[]) => written({ thinking: "budget" }, before, [], { maxTokens: 4096 }).changed;
  t.same(short(signed), ["reasoning_effort: 3276 tokens for thinking"]);
  t.match(short(), [/^reasoning_effort: no thinking/]);
  t.equal(short().length, 1, "the duration without thinking is omitted");
});

t.test("sampling is dropped beside thinking", async (t) => {
  const { dropped } = ask({ effort: "low" }, {}, { temperature: 0.2, topK: 3, topP: 0.99 });
  t.same(dropped, ["temperature", "top_k"]);
});

t.test("adjacent system messages are one, however many texts they have", async (t) => {
  const many = Array.from({ length: 150_000 }, (_, n) => text(`${n}`));
  const asked = conversation([
    ["user", text("Hi")],
    ["system", text("First.")],
    ["system", ...many],
  ]);
  const { body } = write(asked, { system_in_place: true });
  const messages = body["messages"] as { role: string; content: unknown[] }[];
  t.same(
    messages.map(({ role, content }) => [role, content.length]),
    [
      ["user", 1],
      ["system", 150_001],
    ],
  );
});

t.test("web search is left out, declared, where the provider is not known to have it", async (t) => {
  const search: Tool = { kind: "web_search", at: "tools.1" };
  const asked = (model: string, more: Partial<Conversation> = {}) => {
    const { body, dropped, changed } = write(plain({ tools: [f, search], ...more }), {}, model);
    const names = (body["tools"] as JsonObject[] | undefined)?.map(({ name }) => name);
    return [names, body["tool_choice"], dropped, changed.map((each) => each.split(":")[0])];
  };
  t.same(asked("claude-sonnet-5"), [["f", "web_search"], undefined, [], []]);
  t.same(asked("kimi-k2.5"), [["f"], undefined, ["tools.1"], []]);
  const required = { toolChoice: { mode: "required" } } as const;
  t.same(asked("glm-5", required), [["f"], { type: "any" }, ["tools.1"], []]);
  t.same(asked("glm-5", { ...required, tools: [search] }), [undefined, undefined, ["tools.1"], ["tool_choice"]]);
  const named = { toolChoice: { mode: "named", name: "web_search", server: true } } as const;
  t.same(asked("glm-5", named), [["f"], undefined, ["tools.1"], ["tool_choice"]]);
  for (const host of ["bedrock-mantle.us-east-1.api.aws", "vpce-1.bedrock-runtime.us-east-1.vpce.amazonaws.com"]) {
    const bedrock = new URL(`https://${host}/anthropic/v1`);
    const there = write(plain({ tools: [search] }), {}, "anthropic.claude-sonnet-5", bedrock);
    t.same([there.body["tools"], there.dropped], [undefined, ["tools.1"]], host);
  }
  const azure = new URL("https://acme.services.ai.azure.com/anthropic/v1");
  t.same(write(plain({ tools: [search] }), {}, "own-name", azure).dropped, [], "Claude under another name");
});

t.test("a turn without thoughts has something in their place for models that refuse it without", async (t) => {
  const asked = conversation([
    ["user", text("Hi")],
    ["assistant", text("Hm"), call("a")],
    ["user", result("a", text("ok"))],
  ]);
  const placed = { type: "thinking", thinking: ".", signature: "" };
  const first = (model: string) => {
    const [user, assistant, results] = write(asked, {}, model).body["messages"] as { content: JsonObject[] }[];
    t.same([user?.content.length, results?.content.length], [1, 1], "only the assistant's");
    return assistant?.content[0];
  };
  for (const model of ["deepseek-v4-pro", "deepseek/deepseek-v4-flash", "kimi-k2.5", "kimi-for-coding"])
    t.same(first(model), placed, model);
  for (const model of ["claude-sonnet-5", "deepseek-chat", "glm-5"]) t.match(first(model), { type: "text" }, model);
});

t.test("thoughts without a signature are sent back to imitations of the protocol, not to the vendor", async (t) => {
  const opaque = { protocol: NAME, kind: "signature", data: "", extra: "Hm." };
  const asked = conversation([
    ["user", text("Hi")],
    ["assistant", { kind: "reasoning", text: "Hm.", opaque, at: "thought" }, call("a")],
    ["user", result("a", text("ok"))],
  ]);
  const content = (model: string) => {
    const { body, dropped } = write(asked, {}, model);
    const { content } = (body["messages"] as JsonObject[])[1] as { content: JsonObject[] };
    return [content.map(({ type }) => type), content[0]?.["signature"], dropped];
  };
  t.same(content("kimi-k2.5"), [["thinking", "tool_use"], "", []]);
  t.same(content("claude-sonnet-5"), [["tool_use"], undefined, ["thought"]]);
});
