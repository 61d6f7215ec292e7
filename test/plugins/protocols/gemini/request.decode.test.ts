import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import t from "tap";
import { CallMatcher } from "../../../../plugins/protocols/gemini/request.decode.ts";
import { encodeRequest } from "../../../../plugins/protocols/gemini/request.encode.ts";
import { fields, support } from "../../../../plugins/protocols/gemini/support.ts";
import { GatewayError } from "../../../../src/core/errors.ts";
import type { Conversation, Part, Reasoning, ToolCall, ToolResult } from "../../../../src/translation/conversation.ts";
import type { Opaque } from "../../../../src/translation/events.ts";
import { placeState } from "../../../../src/translation/opaque-state.ts";
import { runAtOnce } from "../../../../src/translation/steps.ts";
import { mergeTurns } from "../../../../src/translation/turns.ts";
import { gathered } from "../../../support/gathered.ts";
import { hostileTexts, runLinear } from "../../../support/linear-work.ts";
import { givenContext, partsOf, read, recordedRequests, refusal, usesOf } from "./requests.ts";

const contents = [{ role: "user", parts: [{ text: "Hi" }] }];

t.test("turns and the instruction are read in order, with the client's paths", async (t) => {
  const { turns, stream, protocol, uses } = read(
    {
      systemInstruction: { role: "user", parts: [{ text: "Be terse." }, { text: "Be kind." }] },
      contents: [...contents, { role: "model", parts: [{ text: "Hello" }] }],
    },
    { streaming: true },
  );
  t.match({ stream, protocol }, { stream: true, protocol: "gemini" });
  t.same(uses, [
    { feature: "cosmetic", path: "systemInstruction.role" },
    { feature: "prefill", path: "contents.1" },
  ]);
  t.match(turns, [
    { role: "system", at: "systemInstruction", parts: [{ text: "Be terse." }, { text: "Be kind." }] },
    { role: "user", at: "contents.0", parts: [{ kind: "text", text: "Hi", at: "contents.0.parts.0" }] },
    { role: "assistant", at: "contents.1", parts: [{ text: "Hello" }] },
  ]);
});

t.test("a turn of the model at the end is declared, and reasoning in pieces is declared once", async (t) => {
  const thoughts = [
    { text: "Let me ", thought: true },
    { text: "see.", thought: true, thoughtSignature: "c2ln" },
  ];
  const body = { contents: [...contents, { role: "model", parts: thoughts }] };
  t.same(usesOf(body), ["reasoning_text contents.1.parts.0", "prefill contents.1"]);
  t.match(read(body).turns[1]?.parts, [{ text: "Let me see.", opaque: { data: "c2ln" } }]);
  t.same(usesOf({ contents }), []);
  const odd = thoughts.map((thought) => ({ ...thought, novel: 1 }));
  t.same(usesOf({ contents: [{ role: "model", parts: odd }, ...contents] }), [
    "reasoning_text contents.0.parts.0",
    "other contents.0.parts.0.novel",
    "other contents.0.parts.1.novel",
  ]);
});

t.test("the pieces of a stream that a chat of the SDK keeps as contents are joined to the original text", async (t) => {
  const piece = (...parts: object[]) => ({ role: "model", parts });
  const pieces = [
    piece({ text: "Hel" }),
    piece({ text: "lo" }),
    piece({ text: "" }),
    piece({ functionCall: { name: "f" } }),
    piece({ text: "a" }, { text: "b" }),
    piece({ text: "c", thoughtSignature: "c2ln" }),
    piece({ text: "d" }),
  ];
  const { turns } = read({ contents: [...contents, ...pieces] });
  t.match(turns[1]?.parts, [
    { text: "Hello", at: "contents.1.parts.0" },
    { kind: "tool_call" },
    { text: "ab" },
    { text: "c", opaque: { data: "c2ln" } },
    { text: "d" },
  ]);
  t.equal(turns[1]?.parts.length, 5);
  const whole = read({ contents: [...contents, piece({ text: "a" }, { text: "b" })] }).turns[1]?.parts;
  t.equal(whole?.length, 2, "texts of one content stay unchanged");
});

t.test("an instruction may be a text, parts a single one, and a role missing", async (t) => {
  const { turns } = read({ system_instruction: "Be terse.", contents: { parts: { text: "Hi" } } });
  t.match(read({ contents: [{ role: "", parts: [{ text: "Hi" }] }] }).turns, [{ role: "user" }]);
  t.match(turns, [
    { role: "system", at: "system_instruction", parts: [{ text: "Be terse." }] },
    { role: "user", parts: [{ text: "Hi" }] },
  ]);
});

t.test("an unknown role, missing contents and invalid JSON are refused", async (t) => {
  t.match(
    refusal(() => read({ contents: [{ role: "system", parts: [] }] })),
    { param: "contents.0.role" },
  );
  t.match(
    refusal(() => read({})),
    { param: "contents", code: "invalid_field" },
  );
  t.match(
    refusal(() => read('{"contents":')),
    { code: "invalid_json" },
  );
});

t.test("arguments keep their text", async (t) => {
  const args = '{ "a": 1.0, "b": 12345678901234567890,\n"é":"\\u00e9" }';
  const body = `{"contents":[{"role":"model","parts":[{"functionCall":{"name":"f","args":${args}}}]}]}`;
  t.equal((read(body).turns[0]?.parts[0] as ToolCall).arguments, args);
  t.equal((partsOf({ functionCall: { name: "f" } })[0] as ToolCall).arguments, "");
  t.match(
    refusal(() => partsOf({ functionCall: { name: "f", args: "{}" } })),
    {
      param: "contents.0.parts.0.functionCall.args",
    },
  );
});

t.test("calls without ids, the same function twice: ids differ, results follow in order (21)", async (t) => {
  const call = (city: string) => ({ functionCall: { name: "weather", args: { city } } });
  const answer = (output: string) => ({ functionResponse: { name: "weather", response: { output } } });
  const { turns } = read({
    contents: [
      { role: "model", parts: [call("Oslo"), call("Rome")] },
      { role: "user", parts: [answer("cold"), answer("warm")] },
    ],
  });
  const calls = turns[0]?.parts as ToolCall[];
  const results = turns[1]?.parts as ToolResult[];
  t.not(calls[0]?.id, calls[1]?.id);
  t.same(
    results.map(({ callId }) => callId),
    calls.map(({ id }) => id),
  );
  t.match(results[0]?.parts, [{ kind: "text", text: "cold" }]);
});

t.test("a result before its call, or without one, is refused (22)", async (t) => {
  const result = { role: "user", parts: [{ function_response: { name: "f", response: {} } }] };
  const call = { role: "model", parts: [{ function_call: { name: "f" } }] };
  t.match(
    refusal(() => read({ contents: [result, call] })),
    { param: "contents.0.parts.0.function_response" },
  );
});

t.test("results of functions may have the roles user, function or tool, or none", async (t) => {
  const roleOf = (role?: string) => {
    const call = { role: "model", parts: [{ functionCall: { name: "f" } }] };
    return read({ contents: [call, { role, parts: [{ functionResponse: { name: "f", response: {} } }] }] }).turns[1];
  };
  for (const role of ["user", "function", "tool", "", undefined])
    t.match(roleOf(role), { role: "user", parts: [{ kind: "tool_result" }] }, `${role}`);
  t.match(
    refusal(() => roleOf("assistant")),
    { param: "contents.1.role" },
  );
});

t.test("a call is the model's and a result the user's, whatever the role of their content", async (t) => {
  const call = { functionCall: { name: "f", args: {} } };
  const result = { functionResponse: { name: "f", response: { output: "4" } } };
  const kinds = (contents: unknown): unknown =>
    read({ contents }).turns.map(({ role, parts }) => [role, ...parts.map(({ kind }) => kind)]);
  const inModel = [
    { role: "user", parts: [{ text: "Hi" }] },
    { role: "model", parts: [call] },
    { role: "model", parts: [result, { text: "Four." }] },
    { role: "user", parts: [{ text: "Thanks." }] },
  ];
  t.same(kinds(inModel), [
    ["user", "text"],
    ["assistant", "tool_call"],
    ["user", "tool_result"],
    ["assistant", "text"],
    ["user", "text"],
  ]);
  const inUser = [
    { role: "user", parts: [{ text: "Hi" }, { text: "Hm", thought: true }, call, result, { text: "Go." }] },
  ];
  t.same(kinds(inUser), [
    ["user", "text"],
    ["assistant", "reasoning", "tool_call"],
    ["user", "tool_result", "text"],
  ]);
  t.notOk(
    usesOf({ contents: inModel.slice(0, 2).concat({ role: "model", parts: [result] }) })
      .join()
      .match("prefill"),
  );
});

t.test("a result is the content of output, of error, or the whole object", async (t) => {
  const result = (response: unknown, more = {}) =>
    read({
      contents: [
        { role: "model", parts: [{ functionCall: { name: "f" } }] },
        { role: "user", parts: [{ functionResponse: { name: "f", response, ...more } }] },
      ],
    }).turns[1]?.parts[0] as ToolResult;
  t.match(result({ output: "text" }), { parts: [{ text: "text" }], json: undefined, isError: undefined });
  t.match(result({ output: 42 }), { parts: [{ text: "42" }] });
  t.match(result({ output: ["a", 1] }), { parts: [{ text: '["a",1]' }] });
  t.match(result({ output: { a: 1 } }), { parts: { length: 0 }, json: '{"a":1}' });
  t.match(result({ a: 1, output: "b" }), { parts: { length: 0 }, json: '{"a":1,"output":"b"}' });
  t.match(result({}), { parts: { length: 0 }, json: "{}" });
  t.match(result(undefined), { parts: { length: 0 }, json: undefined });
  t.match(result({ error: "broken" }), { parts: [{ text: "broken" }], isError: true });
  const parts = [{ inlineData: { mimeType: "image/png", data: "aGk=" } }];
  t.match(result({ a: 1 }, { parts }), { parts: [{ text: '{"a":1}' }, { kind: "media", mime: "image/png" }] });
});

t.test("a signature stays on its part, an empty text included (19, 20)", async (t) => {
  const signed = { thoughtSignature: "c2ln" };
  const opaque = { protocol: "gemini", kind: "thoughtSignature", data: "c2ln" };
  const { turns } = read({
    contents: [
      {
        role: "model",
        parts: [
          { text: "Hm.", thought: true },
          { functionCall: { name: "f" }, ...signed },
          { functionCall: { name: "f" } },
          { text: "", ...signed },
        ],
      },
    ],
  });
  t.match(turns[0]?.parts, [
    { kind: "reasoning", text: "Hm.", opaque: undefined },
    { kind: "tool_call", opaque },
    { kind: "tool_call", opaque: undefined },
    { kind: "text", text: "", opaque },
  ]);
  t.match(partsOf({ thought: true, thought_signature: "c2ln" }), [{ kind: "reasoning", text: undefined, opaque }]);
});

t.test("the vendor's bypass is not a signature", async (t) => {
  for (const thoughtSignature of ["skip_thought_signature_validator", btoa("skip_thought_signature_validator"), ""])
    t.equal((partsOf({ functionCall: { name: "f" }, thoughtSignature })[0] as ToolCall).opaque, undefined);
});

t.test("state of another protocol is reasoning of its own before the part, and is read once", async (t) => {
  const thoughtSignature = "gw1.some-protocol.signature.x";
  const opaque = { protocol: "some-protocol", kind: "signature", data: "x" };
  t.match(partsOf({ functionCall: { name: "f" }, thoughtSignature }), [
    { kind: "reasoning", text: "", opaque },
    { kind: "tool_call", opaque: undefined },
  ]);
  t.match(
    partsOf({ text: "Hm.", thought: true, thoughtSignature }, { functionCall: { name: "f" }, thoughtSignature }),
    [{ kind: "reasoning", text: "Hm.", opaque }, { kind: "tool_call" }],
  );
});

t.test("state of a thought before texts is returned to it, or before the texts where it was not sent", async (t) => {
  const opaque: Opaque = { protocol: "some-protocol", kind: "signature", data: "x", on: "reasoning" };
  const { on: _, ...placed } = opaque;
  const turnOf = (...parts: object[]) => {
    const conversation = read({ contents: [{ role: "model", parts }] }, { open: () => opaque });
    placeState(conversation);
    return conversation.turns[0]?.parts ?? [];
  };
  const thoughtSignature = "sealed";
  const thought = { text: "Hm.", thought: true };
  const call = { functionCall: { name: "f" } };
  const parts = [{ text: "A" }, { text: "B" }, { ...call, thoughtSignature }];
  const after = [{ kind: "text" }, { kind: "text" }, { kind: "tool_call", opaque: undefined }];
  t.match(turnOf(thought, ...parts), [{ kind: "reasoning", text: "Hm.", opaque: placed }, ...after]);
  t.notOk("on" in ((turnOf(thought, ...parts)[0] as Reasoning).opaque ?? {}));
  t.match(turnOf(...parts), [{ kind: "reasoning", text: "", opaque: placed }, ...after]);
  const end = turnOf(call, { text: "A" }, { text: "", thoughtSignature });
  t.match(
    end,
    [{ kind: "tool_call" }, { kind: "reasoning", opaque: placed }, { kind: "text", text: "A" }],
    "not before the call of an earlier step",
  );
  t.equal(end.length, 3, "the empty text is only the state's place");
  const said = { text: "A", thoughtSignature };
  t.match(turnOf(thought, said), [
    { kind: "reasoning", text: "Hm.", opaque: placed },
    { kind: "text", text: "A" },
  ]);
  t.match(turnOf(said), [
    { kind: "reasoning", text: "", opaque: placed },
    { kind: "text", text: "A", opaque: undefined },
  ]);
});

t.test("the time for base64 with padding in its middle grows no faster than the base64", async (t) => {
  const [data] = hostileTexts(["="], "aGk", "_") as [string];
  runLinear(() => t.match(partsOf({ inlineData: { mimeType: "image/png", data } }), [{ media: "image" }]));
});

t.test("media are classified by their type, and base64 is the default", async (t) => {
  t.match(
    partsOf(
      { inlineData: { mimeType: "image/png", data: "aGk=" } },
      { inline_data: { mime_type: "audio/wav", data: "_-8" } },
      { inlineData: { mimeType: "application/pdf", data: "aGk=", displayName: "a.pdf" } },
      { fileData: { fileUri: "https://example.com/a.png", mimeType: "image/png" } },
      { fileData: { fileUri: "gs://bucket/a.mp4", mimeType: "video/mp4" } },
    ),
    [
      { media: "image", mime: "image/png", source: { base64: "aGk=" } },
      { media: "audio", source: { base64: "/+8=" } },
      { media: "file", filename: "a.pdf" },
      { media: "image", source: { url: "https://example.com/a.png" } },
      { media: "video", source: { id: "gs://bucket/a.mp4", protocol: "gemini" } },
    ],
  );
});

t.test("an address of a video needs no type", async (t) => {
  for (const fileUri of ["https://www.youtube.com/watch?v=x", "https://youtu.be/x"]) {
    t.match(partsOf({ fileData: { fileUri } }), [{ media: "video", mime: undefined, source: { url: fileUri } }]);
    t.same(usesOf({ contents: [{ parts: [{ fileData: { fileUri } }] }] }), ["video contents.0.parts.0"]);
  }
  t.match(partsOf({ fileData: { fileUri: "https://example.com/youtu.be/x" } }), [{ media: "file" }]);
});

t.test("the media resolution is set by the part or for all of them", async (t) => {
  const inlineData = { mimeType: "image/png", data: "aGk=" };
  const parts = [{ inlineData, mediaResolution: { level: "media_resolution_low" } }, { inlineData }];
  const { turns, uses } = read({
    contents: [{ parts }],
    generationConfig: { mediaResolution: "MEDIA_RESOLUTION_HIGH" },
  });
  t.match(turns[0]?.parts, [{ detail: "low" }, { detail: "high" }]);
  const call = { functionCall: { name: "f", args: {} } };
  const result = { functionResponse: { name: "f", response: {}, parts: [{ inlineData }] } };
  t.match(
    read({
      contents: [{ role: "model", parts: [call] }, { parts: [result] }],
      generationConfig: { mediaResolution: "MEDIA_RESOLUTION_LOW" },
    }).turns[1]?.parts,
    [{ kind: "tool_result", parts: [{ kind: "text" }, { kind: "media", detail: "low" }] }],
  );
  t.same(
    uses.filter(({ feature }) => feature === "media_detail").map(({ path }) => path),
    ["contents.0.parts.0.mediaResolution", "generationConfig.mediaResolution"],
  );
  const [text] =
    read({
      contents: [{ parts: [{ inlineData: { mimeType: "text/plain", data: "aGk=" } }] }],
      generationConfig: { mediaResolution: "MEDIA_RESOLUTION_LOW" },
    }).turns[0]?.parts ?? [];
  t.notHas(text, { detail: "low" }, "a text has none");
});

t.test("parts that only the vendor understands are kept complete", async (t) => {
  const code = { executable_code: { language: "PYTHON", code: "1" }, thoughtSignature: "c2ln" };
  t.match(partsOf(code), [{ kind: "foreign", protocol: "gemini", name: "executable_code", json: code }]);
});

t.test("everything except plain text is declared with its path", async (t) => {
  const inlineData = { mimeType: "image/png", data: "aGk=" };
  const parts = [
    { inlineData },
    { file_data: { file_uri: "https://example.com/a.pdf", mime_type: "application/pdf" } },
    { fileData: { fileUri: "files/x", mimeType: "video/mp4" }, videoMetadata: { fps: 1 } },
    { text: "Hm.", thought: true },
    { codeExecutionResult: { outcome: "OUTCOME_OK" } },
    { text: "x", partMetadata: { a: 1 } },
  ];
  t.same(usesOf({ contents: [{ parts }] }), [
    "image_base64 contents.0.parts.0",
    "file_url contents.0.parts.1",
    "file_id contents.0.parts.2",
    "video contents.0.parts.2",
    "video contents.0.parts.2.videoMetadata",
    "reasoning_text contents.0.parts.3",
    "foreign_block contents.0.parts.4",
    "cosmetic contents.0.parts.5.partMetadata",
  ]);
});

t.test("the members at top level", async (t) => {
  const body = {
    contents,
    labels: { team: "a" },
    serviceTier: "STANDARD",
    store: true,
    cachedContent: "cachedContents/x",
    safety_settings: [
      { category: "C", threshold: "BLOCK_NONE" },
      { category: "D", threshold: "BLOCK_LOW_AND_ABOVE" },
    ],
    modelArmorConfig: {},
    newThing: 1,
  };
  const { metadata, tier, store } = read(body);
  t.same({ metadata, tier, store }, { metadata: { team: "a" }, tier: "default", store: true });
  t.same(usesOf(body), [
    "tier serviceTier",
    "cache_handle cachedContent",
    "store store",
    "metadata labels",
    "safety safety_settings.1",
    "cosmetic safety_settings",
    "safety modelArmorConfig",
    "other newThing",
  ]);
});

t.test("enums may be numbers, as Google's older clients send them over REST", async (t) => {
  const body = {
    contents: [{ parts: [{ inlineData: { mimeType: "image/png", data: "aGk=" } }] }],
    tools: [{ functionDeclarations: [{ name: "f", parameters: { type: 6, properties: { a: { type: 1 } } } }] }],
    toolConfig: { functionCallingConfig: { mode: 2, allowedFunctionNames: ["f"] } },
    safetySettings: [4, 5, 0, 3].map((threshold) => ({ category: 7, threshold })),
    generationConfig: { mediaResolution: 1 },
  };
  t.match(read(body), {
    turns: [{ parts: [{ detail: "low" }] }],
    toolChoice: { mode: "named", name: "f" },
  });
  t.same(
    usesOf(body).filter((use) => use.startsWith("safety")),
    ["safety safetySettings.3"],
  );
  const unknown = { contents, toolConfig: { functionCallingConfig: { mode: 9 } } };
  t.match(
    refusal(() => read(unknown)),
    { param: "toolConfig.functionCallingConfig.mode" },
  );
});

t.test("tokens are counted for contents or for a whole request", async (t) => {
  const whole = { generateContentRequest: { model: "models/x", contents, systemInstruction: "Be terse." } };
  t.match(read(whole, { task: "count" }), { task: "count", turns: [{ role: "system" }, { role: "user" }] });
  t.match(read({ contents }, { task: "count" }), { task: "count", turns: [{ role: "user" }] });
  const bad = { generate_content_request: { contents: [{ parts: [{ text: 1 }] }] } };
  t.match(
    refusal(() => read(bad, { task: "count" })),
    { param: "generate_content_request.contents.0.parts.0.text" },
  );
});

t.test("a part of two kinds is refused with its path", async (t) => {
  const two: readonly [part: object, must: RegExp][] = [
    [{ text: "x", functionCall: { name: "f", args: {} } }, /text and functionCall/],
    [{ text: "", inline_data: { mime_type: "image/png", data: "aGk=" } }, /text and inlineData/],
    [{ executableCode: { code: "1" }, codeExecutionResult: {} }, /executableCode and codeExecutionResult/],
  ];
  for (const [part, message] of two)
    t.match(
      refusal(() => partsOf(part)),
      { param: "contents.0.parts.0", code: "invalid_field", message },
    );
  const parts = [{ inlineData: { mimeType: "image/png", data: "aGk=" }, fileData: { fileUri: "https://a/b.png" } }];
  const results = [{ functionCall: { name: "f" } }, { functionResponse: { name: "f", response: {}, parts } }];
  t.match(
    refusal(() => partsOf(...results)),
    { param: "contents.0.parts.1.functionResponse.parts.0" },
  );
  t.match(partsOf({ text: null, functionCall: { name: "f" } }), [{ kind: "tool_call" }]);
});

t.test("an unknown member is declared by its path, wherever it is", async (t) => {
  const more = { newThing: 1 };
  const data = { mimeType: "image/png", data: "aGk=" };
  const others = (body: object) => usesOf(body).filter((uses) => uses.startsWith("other "));
  const parts = [
    { text: "x", ...more },
    { functionCall: { name: "f", ...more }, ...more },
    { functionResponse: { name: "f", response: {}, parts: [{ inlineData: { ...data, ...more }, ...more }], ...more } },
    { inlineData: data, mediaResolution: { level: "MEDIA_RESOLUTION_LOW", ...more } },
  ];
  const at = "other contents.0.parts";
  t.same(others({ contents: [{ parts, ...more }] }).sort(), [
    "other contents.0.newThing",
    `${at}.0.newThing`,
    `${at}.1.functionCall.newThing`,
    `${at}.1.newThing`,
    `${at}.2.functionResponse.newThing`,
    `${at}.2.functionResponse.parts.0.inlineData.newThing`,
    `${at}.2.functionResponse.parts.0.newThing`,
    `${at}.3.mediaResolution.newThing`,
  ]);
  const category = { category: "C", threshold: "OFF" };
  t.same(
    others({
      systemInstruction: { parts: { text: "x", ...more }, ...more },
      safetySettings: [{ ...category, ...more }],
      toolConfig: { functionCallingConfig: { streamFunctionCallArguments: true, ...more } },
      generationConfig: { responseModalities: ["TEXT", "SMELL"] },
    }),
    [
      "other systemInstruction.newThing",
      "other systemInstruction.parts.newThing",
      "other toolConfig.functionCallingConfig.newThing",
      "other generationConfig.responseModalities",
      "other safetySettings.0.newThing",
    ],
  );
});

t.test("labels are strings, whatever their names", async (t) => {
  const labels = '{"fooBar":"1","foo_bar":"2","__proto__":"3","none":null}';
  const { metadata = {} } = read(`{"contents":[],"labels":${labels}}`);
  t.same(Object.entries(metadata), [
    ["fooBar", "1"],
    ["foo_bar", "2"],
    ["__proto__", "3"],
  ]);
  t.match(
    refusal(() => read({ contents: [], labels: { a: 1 } })),
    { param: "labels" },
  );
});

t.test("calls without ids get unique ones, the same each time", async (t) => {
  const ids = () => {
    const calls = new CallMatcher(new Set(["call_1"]));
    return [calls.addCall("f", undefined), calls.addCall("f", "call_1"), calls.addCall("f", undefined)];
  };
  t.same(ids(), ["call_0", "call_1", "call_2"]);
  t.same(ids(), ids());
});

t.test("an id that two calls share belongs to one, and results find their calls in order", async (t) => {
  const calls = new CallMatcher(new Set(["f"]));
  const made = [calls.addCall("f", "f"), calls.addCall("f", "f")];
  t.equal(new Set(made).size, 2);
  t.same([calls.matchResult("f", "f"), calls.matchResult("f", "f")], made);
});

t.test("results find their calls by id, by name and order, and in the latest step first", async (t) => {
  const calls = new CallMatcher(new Set(["x"]));
  calls.beginTurn("assistant");
  const old = calls.addCall("f", undefined);
  calls.beginTurn("user");
  calls.beginTurn("assistant");
  const [first, other, second] = [
    calls.addCall("f", undefined),
    calls.addCall("g", "x"),
    calls.addCall("f", undefined),
  ];
  calls.beginTurn("user");
  t.equal(calls.matchResult("g", "x"), other);
  t.equal(calls.matchResult("f", undefined), first);
  t.equal(calls.matchResult("f", "an id of its own"), second);
  t.equal(calls.matchResult("f", undefined), old);
});

t.test("a result without an id does not take the call whose id another result has", async (t) => {
  const calls = new CallMatcher(new Set(["x", "y"]), new Set(["x"]));
  const [x, y] = [calls.addCall("f", "x"), calls.addCall("f", "y")];
  t.equal(calls.matchResult("f", undefined), y);
  t.equal(calls.matchResult("f", "x"), x);
  const reused = new CallMatcher(new Set(["x"]), new Set(["x"]));
  reused.beginTurn("assistant");
  const old = reused.addCall("f", "x");
  reused.beginTurn("user");
  t.equal(reused.matchResult("f", undefined), old, "no other call waits for it");
});

t.test("each call has one result", async (t) => {
  const calls = new CallMatcher(new Set());
  const id = calls.addCall("f", undefined);
  t.equal(calls.matchResult("f", undefined), id);
  t.equal(calls.matchResult("f", undefined), undefined);
});

const recorded = recordedRequests();
const skip = recorded.length === 0 && "no recordings";

const SNAKE = (name: string): string => name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
/** ProtoFields whose inside is the client's own, or a tool's that only the vendor runs. */
const CLOSED =
  /^(?:args|response|parameters|.*schema|labels|tool_?(?:call|response)|executable_?code|code_?execution.*)$/i;

/** The value with its members in snake case. */
function snaked(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(snaked);
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(
    Object.entries(value).map(([name, member]) => [SNAKE(name), CLOSED.test(name) ? member : snaked(member)]),
  );
}

/** A conversation with its paths in snake case. */
const flat = (conversation: Conversation): unknown =>
  JSON.parse(JSON.stringify(conversation), (name, value) =>
    ["at", "turnsAt", "path", "name"].includes(name) && typeof value === "string" ? SNAKE(value) : value,
  );

gathered(t, "every recorded request says the same in snake case", { skip }, async (t) => {
  for (const { id, task, body } of recorded)
    t.same(flat(without(read(snaked(body), { task }))), flat(without(read(body, { task }))), id);
});

/** Without what only this protocol understands, which is kept in the spelling it came in. */
function without(conversation: Conversation): Conversation {
  const turns = conversation.turns.map((turn) => ({ ...turn, parts: turn.parts.filter((p) => p.kind !== "foreign") }));
  return { ...conversation, turns, tools: conversation.tools.filter((tool) => tool.kind !== "server") };
}

gathered(t, "everything said of a recorded request stands in the table of fields", { skip }, async (t) => {
  const known = new Set(fields.map(([, feature]) => feature));
  const uses = new Set(recorded.flatMap(({ body, task }) => read(body, { task }).uses.map(({ feature }) => feature)));
  for (const feature of uses) t.ok(known.has(feature), feature);
  for (const feature of known) t.ok(Object.hasOwn(support, feature), feature);
});

/** What the vendor is told, without where the client said it and without ids, which are made where none were told. */
function meaning(conversation: Conversation): unknown {
  const { turns, tools, reasoning, format, toolChoice, temperature, stop, maxTokens, seed } = without(conversation);
  const ids = new Map<string, number>();
  const number = (id: string) => ids.get(id) ?? ids.set(id, ids.size).size - 1;
  const spoken = turns.map((turn) => ({ ...turn, parts: turn.parts.filter(says) }));
  const uses = {
    turns: mergeTurns(spoken.filter(({ parts }) => parts.length > 0)),
    tools: [...tools].sort((a, b) => (a.kind < b.kind ? -1 : 1)),
    reasoning: (reasoning?.effort ?? reasoning?.budget ?? reasoning?.show) ? reasoning : undefined,
    format: format?.kind === "text" ? undefined : format,
    toolChoice,
  };
  return JSON.parse(JSON.stringify({ ...uses, temperature, stop, maxTokens, seed }), (name, value) => {
    if (name === "at" || name === "detail" || name === "filename") return undefined;
    return name === "id" || name === "callId" ? number(String(value)) : value;
  });
}

const says = (part: Part): boolean => part.kind !== "text" || part.text !== "" || part.opaque !== undefined;

gathered(t, "every recorded request, written as another client's, says the same to the vendor", { skip }, async (t) => {
  for (const { id, body } of recorded.filter(({ task, body }) => task === "generate" && !hasOtherForms(body))) {
    const first = read(body);
    // The vendor refused that one.
    if ((first.temperature ?? 0) > 2) continue;
    const again = runAtOnce(encodeRequest({ ...first, protocol: "some-client" }, givenContext().context)).body;
    t.same(meaning(read(again)), meaning(first), id);
  }
});

/** Bodies that mean the same in another form, which is the one that is written. */
const hasOtherForms = (body: unknown): boolean =>
  // Answers' stored files; VALIDATED, which is AUTO for others; a schema's own order, which JSON Schema does not name.
  /"(?:gs:|https:\/\/generativelanguage)|VALIDATED/.test(JSON.stringify(body));

const JUNK = [null, 0, -1, 1e300, "", "x", true, [], [null], [[]], {}, { a: null }, { parts: "x" }];

/** The value with one place of it replaced; `at` counts down to it. */
function broken(value: unknown, junk: unknown, at: { left: number }): unknown {
  if (at.left-- === 0) return junk;
  if (Array.isArray(value)) return value.map((each) => broken(each, junk, at));
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([name, member]) => [name, broken(member, junk, at)]));
}

t.test("a request changed in any place is decoded or refused with its path", { skip }, async (t) => {
  const rich = recorded.filter(({ body }) => /function_?response/i.test(JSON.stringify(body))).slice(0, 12);
  let refused = 0;
  for (const { id, task, body } of rich)
    for (let place = 1; place < 120; place++) {
      const junk = JUNK[place % JUNK.length];
      const error = caught(() => read(broken(body, junk, { left: place }), { task }));
      if (error === undefined) continue;
      refused++;
      if (!(error instanceof GatewayError) || error.code !== "invalid_field" || error.param === undefined)
        t.fail(`${id} with ${JSON.stringify(junk)} at ${place}: ${error}`);
    }
  t.ok(refused > 100);
});

function caught(run: () => unknown): unknown {
  try {
    run();
    return undefined;
  } catch (error) {
    return error;
  }
}

t.test("nothing of a request is kept once it is read, however its tools are called", async (t) => {
  setFlagsFromString("--expose-gc");
  const gc = runInNewContext("gc") as () => void;
  const readMany = () => {
    for (let i = 0; i < 20; i++) partsOf({ toolCall: { toolType: `tool_${i}_${"x".repeat(1_000_000)}` } });
  };
  gc();
  const before = process.memoryUsage().heapUsed;
  readMany();
  gc();
  const kept = process.memoryUsage().heapUsed - before;
  t.ok(kept < 10_000_000, `${kept} bytes`);
});
