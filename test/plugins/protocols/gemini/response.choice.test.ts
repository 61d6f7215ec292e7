import t from "tap";
import { decode } from "../../../../plugins/protocols/gemini/response.decode.ts";
import type { Event } from "../../../../src/translation/events.ts";
import { readParts, SOURCE } from "./response.wish.ts";

const opaque = (data: string) => ({
  protocol: "gemini",
  account: "google",
  model: "m",
  kind: "thoughtSignature",
  data,
});
/** What stands between start and end. */
const told = (frames: readonly unknown[][], finishReason?: string, more?: object): Event[] =>
  readParts(frames, finishReason, more).slice(1, -2);

t.test("thoughts and texts are blocks of their own, in their order, and go on across frames", async (t) => {
  t.strictSame(
    told([
      [{ text: "Th", thought: true }],
      [{ text: "ink", thought: true }, { text: "A" }],
      [{ text: "B" }],
      [{ text: "again", thought: true }],
    ]),
    [
      { type: "open", block: 0, choice: 0, kind: "reasoning", summary: true },
      { type: "text", block: 0, text: "Th" },
      { type: "text", block: 0, text: "ink" },
      { type: "close", block: 0 },
      { type: "open", block: 1, choice: 0, kind: "text" },
      { type: "text", block: 1, text: "A" },
      { type: "text", block: 1, text: "B" },
      { type: "close", block: 1 },
      { type: "open", block: 2, choice: 0, kind: "reasoning", summary: true },
      { type: "text", block: 2, text: "again" },
      { type: "close", block: 2 },
    ],
  );
});

t.test("a signature on the last, empty text is carried by a block of its own", async (t) => {
  t.strictSame(told([[{ text: "A" }], [{ text: "", thoughtSignature: "s" }]]), [
    { type: "open", block: 0, choice: 0, kind: "text" },
    { type: "text", block: 0, text: "A" },
    { type: "close", block: 0 },
    { type: "open", block: 1, choice: 0, kind: "text", opaque: opaque("s") },
    { type: "close", block: 1 },
  ]);
});

t.test("a text without words and without a signature is nothing", async (t) => {
  t.strictSame(told([[{ text: "" }], [{ text: "", thought: true }]]), []);
});

t.test("a signature on the first piece of a text is on the text", async (t) => {
  t.strictSame(told([[{ text: "A", thoughtSignature: "s" }], [{ text: "B" }]]), [
    { type: "open", block: 0, choice: 0, kind: "text", opaque: opaque("s") },
    { type: "text", block: 0, text: "A" },
    { type: "text", block: 0, text: "B" },
    { type: "close", block: 0 },
  ]);
});

t.test("each signed thought is a block, so that no signature takes another's place", async (t) => {
  t.strictSame(
    told([
      [
        { text: "A", thought: true, thoughtSignature: "s" },
        { text: "", thought: true, thoughtSignature: "u" },
      ],
    ]),
    [
      { type: "open", block: 0, choice: 0, kind: "reasoning", summary: true },
      { type: "text", block: 0, text: "A" },
      { type: "opaque", block: 0, opaque: opaque("s") },
      { type: "close", block: 0 },
      { type: "open", block: 1, choice: 0, kind: "reasoning", summary: true },
      { type: "opaque", block: 1, opaque: opaque("u") },
      { type: "close", block: 1 },
    ],
  );
});

t.test("parallel calls have ids of their own, their signatures and the very text of their arguments", async (t) => {
  const raw = '{"a": 1.0, "b": 12345678901234567890, "a": "\\u00e9"}';
  const body = `{"candidates":[{"content":{"parts":[{"functionCall":{"name":"f","args":${raw}},"thoughtSignature":"s"},{"functionCall":{"name":"f"}},{"functionCall":{"id":"own","name":"g","args":{}}}]},"finishReason":"STOP"}],"responseId":"r1"}`;
  const events = decode(body, SOURCE);
  t.match(events.at(-2), { type: "finish", reason: "tool_calls", raw: "STOP" });
  t.strictSame(events.slice(1, -2), [
    { type: "open", block: 0, choice: 0, kind: "tool_call", name: "f", id: "call_r1_0", opaque: opaque("s") },
    { type: "arguments", block: 0, text: raw },
    { type: "close", block: 0 },
    { type: "open", block: 1, choice: 0, kind: "tool_call", name: "f", id: "call_r1_1" },
    { type: "close", block: 1 },
    { type: "open", block: 2, choice: 0, kind: "tool_call", name: "g", id: "own" },
    { type: "arguments", block: 2, text: "{}" },
    { type: "close", block: 2 },
  ]);
});

t.test("arguments that come in pieces are the text of one object", async (t) => {
  const goesOn = { willContinue: true };
  const piece = (jsonPath: string, stringValue: string, more: object = {}) => [
    { functionCall: { partialArgs: [{ jsonPath, stringValue, ...more }], ...goesOn } },
  ];
  const events = told([
    [{ functionCall: { name: "weather", ...goesOn }, thoughtSignature: "s" }],
    piece("$.city", 'New "Yo', goesOn),
    piece("$.city", "rk"),
    piece("$.unit", "C", goesOn),
    piece("$.unit", ""),
    [{ functionCall: {} }],
  ]);
  t.strictSame(events[0], {
    type: "open",
    block: 0,
    choice: 0,
    kind: "tool_call",
    name: "weather",
    id: "call_r1_0",
    opaque: opaque("s"),
  });
  const text = events.map((each) => (each.type === "arguments" ? each.text : "")).join("");
  t.equal(text, '{"city":"New \\"York","unit":"C"}');
  t.strictSame(events.at(-1), { type: "close", block: 0 });
});

t.test("arguments that break off are closed as they came", async (t) => {
  const events = told(
    [
      [
        {
          functionCall: {
            name: "f",
            willContinue: true,
            partialArgs: [{ jsonPath: "$.a", stringValue: "x", willContinue: true }],
          },
        },
      ],
    ],
    "MAX_TOKENS",
  );
  t.strictSame(events.slice(1), [
    { type: "arguments", block: 0, text: '{"a":"x' },
    { type: "close", block: 0 },
  ]);
});

t.test("media are blocks; drafts among the thoughts are for their own protocol", async (t) => {
  t.match(
    told([
      [
        { inlineData: { mimeType: "image/png", data: "iVBO" } },
        { fileData: { mimeType: "text/csv", fileUri: "gs://a" } },
        { inlineData: { mimeType: "image/png", data: "x" }, thought: true },
      ],
    ]),
    [
      { type: "open", block: 0, kind: "media", media: "image", mime: "image/png" },
      { type: "media", block: 0, base64: "iVBO" },
      { type: "close", block: 0 },
      { type: "open", block: 1, kind: "media", media: "file", mime: "text/csv" },
      { type: "media", block: 1, url: "gs://a" },
      { type: "close", block: 1 },
      { type: "open", block: 2, kind: "server", name: "inlineData" },
      { type: "server", block: 2 },
      { type: "close", block: 2 },
    ],
  );
});

t.test("server tools and parts that are not known yet are whole, under their own name", async (t) => {
  const parts = [
    { executableCode: { language: "PYTHON", code: "1" }, thoughtSignature: "s" },
    { codeExecutionResult: { outcome: "OUTCOME_OK", output: "1" } },
    { toolCall: { toolType: "GOOGLE_SEARCH_WEB", args: { n: 1 } } },
    { toolResponse: { toolType: "GOOGLE_SEARCH_WEB" } },
    { hologram: { depth: 3 } },
  ];
  const events = told([parts]);
  t.match(
    events.filter(({ type }) => type === "open"),
    [
      { name: "executableCode", result: false },
      { name: "codeExecutionResult", result: true },
      { name: "toolCall", result: false },
      { name: "toolResponse", result: true },
      { name: "hologram", result: false },
    ],
  );
  t.strictSame(
    events.flatMap((each) => (each.type === "server" ? [each.json.value] : [])),
    parts,
  );
});

t.test("likelihoods stand on the text they are of", async (t) => {
  const logprobsResult = { chosenCandidates: [{ token: "Hi", logProbability: -0.5 }] };
  t.match(told([[{ text: "Hi" }]], "STOP", { logprobsResult }), [
    { type: "open" },
    { type: "text", logprobs: [{ token: "Hi", logprob: -0.5, bytes: [72, 105], top_logprobs: [] }] },
    { type: "close" },
  ]);
  t.match(told([[]], "STOP", { logprobsResult }), [{ type: "unsaid", path: "candidates.0.logprobsResult" }]);
});

t.test("sources are cited before their text closes, also where a signature follows in the same frame", async (t) => {
  const groundingMetadata = {
    groundingChunks: [{ web: { uri: "https://a", title: "A" } }],
    groundingSupports: [{ segment: { startIndex: 7, endIndex: 14, text: "Zürich" }, groundingChunkIndices: [0] }],
    searchEntryPoint: { renderedContent: "<div>" },
  };
  t.match(told([[{ text: "grüß Zürich" }], [{ text: "", thoughtSignature: "s" }]], "STOP", { groundingMetadata }), [
    { type: "open", block: 0 },
    { type: "text", block: 0 },
    { type: "citation", block: 0, citation: { url: "https://a", title: "A", start: 5, end: 11 } },
    { type: "close", block: 0 },
    { type: "open", block: 1 },
    { type: "unsaid", path: "candidates.0.groundingMetadata.searchEntryPoint" },
    { type: "close", block: 1 },
  ]);
});

t.test("sources that no text is left for are said to be lost", async (t) => {
  const groundingMetadata = { groundingChunks: [{ web: { uri: "https://a" } }] };
  t.match(told([[{ functionCall: { name: "f" } }]], "STOP", { groundingMetadata }).at(-1), {
    type: "unsaid",
    path: "candidates.0.groundingMetadata",
  });
});

t.test("likelihoods that come with no word, or an empty one, follow the text before", async (t) => {
  const logprobsResult = { chosenCandidates: [{ token: "", logProbability: -3 }] };
  for (const parts of [[{ text: "" }], []])
    t.match(told([[{ text: "Hi" }], parts], "STOP", { logprobsResult }), [
      { type: "open", block: 0 },
      { type: "text", text: "Hi" },
      { type: "text", block: 0, text: "", logprobs: [{ token: "", logprob: -3 }] },
      { type: "close" },
    ]);
});

t.test("a signature that comes with a later piece of a call follows it, and says where it belongs", async (t) => {
  const begin = { functionCall: { id: "c1", name: "f", willContinue: true } };
  const piece = { functionCall: { partialArgs: [{ jsonPath: "$.a", numberValue: 1 }], willContinue: true } };
  const end = { functionCall: {} };
  const state = { ...opaque("s"), on: { call: "c1" } };
  const call: Event[] = [
    { type: "open", block: 0, choice: 0, kind: "tool_call", name: "f", id: "c1" },
    { type: "arguments", block: 0, text: '{"a":1' },
    { type: "arguments", block: 0, text: "}" },
    { type: "close", block: 0 },
  ];
  const late: Event[] = [
    { type: "open", block: 1, choice: 0, kind: "reasoning", redacted: true },
    { type: "opaque", block: 1, opaque: state },
    { type: "close", block: 1 },
  ];
  const signed = { thoughtSignature: "s" };
  t.strictSame(told([[begin], [{ ...piece, ...signed }], [end]]), [...call, ...late]);
  t.strictSame(told([[begin], [piece], [{ ...end, ...signed }]]), [...call, ...late]);
  const early = told([[{ ...begin, ...signed }], [piece], [{ ...end, thoughtSignature: "again" }]]);
  t.match(early[0], { opaque: opaque("s") });
  t.equal(early.length, 4);
});

t.test("a part without anything says nothing; one that only bears a signature is a text without words", async (t) => {
  t.strictSame(told([[{}, { thought: true }]]), []);
  t.strictSame(told([[{ text: "Hi" }, {}, { text: "!" }]]), [
    { type: "open", block: 0, choice: 0, kind: "text" },
    { type: "text", block: 0, text: "Hi" },
    { type: "text", block: 0, text: "!" },
    { type: "close", block: 0 },
  ]);
  t.strictSame(told([[{ thoughtSignature: "s" }]]), [
    { type: "open", block: 0, choice: 0, kind: "text", opaque: opaque("s") },
    { type: "close", block: 0 },
  ]);
});

t.test("media without bytes and without an address are for their own protocol", async (t) => {
  for (const part of [{ inlineData: { mimeType: "image/png" } }, { fileData: { mimeType: "image/png" } }])
    t.match(told([[part]]), [{ type: "open", kind: "server" }, { type: "server" }, { type: "close" }]);
});

t.test("what nobody knows of a candidate, a part or a call is said to be lost, once", async (t) => {
  const parts = [
    { text: "a", novel: 1, partMetadata: {} },
    { text: "b", novel: 2, absent: null },
    { functionCall: { name: "f", novel: 3 } },
    { functionCall: { args: { a: 1 } } },
    { functionCall: {} },
    { inlineData: { mimeType: "image/png", data: "AA==", displayName: "n" }, videoMetadata: {} },
  ];
  const events = told([parts], "STOP", {
    novel: 4,
    urlContextMetadata: null,
    safetyRatings: [],
    groundingMetadata: { webSearchQueries: ["q"], groundingChunks: [] },
  });
  t.strictSame(
    events.flatMap((event) => (event.type === "unsaid" ? [event.path] : [])),
    [
      "content.parts.novel",
      "content.parts.functionCall.novel",
      "content.parts.functionCall",
      "content.parts.inlineData.displayName",
      "content.parts.videoMetadata",
      "novel",
      "groundingMetadata.webSearchQueries",
    ].map((path) => `candidates.0.${path}`),
  );
});
