import { readFileSync } from "node:fs";
import t from "tap";
import protocol from "../../../../plugins/protocols/gemini/index.ts";
import { mediaKind, ProtoFields, rawReason, TextOffsets } from "../../../../plugins/protocols/gemini/wire.ts";
import type { GatewayError } from "../../../../src/core/errors.ts";
import type { FeatureUse } from "../../../../src/translation/conversation.ts";
import { RawJson } from "../../../../src/wire/exact.ts";
import { Frame } from "../../../../src/wire/frame.ts";
import type { JsonObject } from "../../../../src/wire/values.ts";
import { gathered } from "../../../support/gathered.ts";
import { eventsIn, recorded } from "../../../support/recorded.ts";
import { shared } from "../../../support/shared.ts";
import { refusal } from "./requests.ts";

/** The operation's name and the model, or the status of the refusal; "unknown" where there is no such path. */
function read(target: string): string {
  const [path = "", query] = target.split("?", 2);
  const mount = protocol.paths.find((pattern) => path.startsWith(pattern.slice(0, -1)));
  if (!mount) return "unknown";
  try {
    const located = protocol.locate(mount, path.slice(mount.length - 1), new URLSearchParams(query));
    return located ? `${located.operation.name} ${located.model}` : "unknown";
  } catch (error) {
    return String((error as GatewayError).status);
  }
}

t.test("every version and both forms of Vertex name a model", async (t) => {
  t.equal(read("/v1beta/models/gemini-x:generateContent"), "generateContent gemini-x");
  t.equal(read("/v1/models/gemini-x:countTokens"), "countTokens gemini-x");
  t.equal(read("/v1alpha/models/gemini-x:embedContent"), "embedContent gemini-x");
  t.equal(read("/v1beta1/publishers/google/models/gemini-x:generateContent"), "generateContent gemini-x");
  t.equal(read("/v1beta1/publishers/anthropic/models/m:generateContent"), "generateContent anthropic/m");
  t.equal(
    read("/v1beta1/projects/p/locations/global/publishers/google/models/m:batchEmbedContents"),
    "batchEmbedContents m",
  );
  t.equal(read("/v1beta1/projects/p/locations/l/publishers/acme/models/m:generateContent"), "generateContent acme/m");
  t.equal(read("/v1beta1/projects/p/locations/l/endpoints/1:generateContent"), "unknown");
});

t.test("a stream is framed as the query asks", async (t) => {
  const framing = (query: string) =>
    protocol.locate("/v1beta/models/*", "m:streamGenerateContent", new URLSearchParams(query))?.operation;
  t.match(framing("alt=sse"), { name: "streamGenerateContent", framing: "sse", streams: true });
  t.match(framing("$alt=sse"), { name: "streamGenerateContent", framing: "sse", streams: true });
  t.match(framing("alt=sse&$alt=json;enum-encoding=int"), { name: "streamGenerateContent", framing: "sse" });
  t.match(framing("alt=json"), { name: "streamGenerateContentArray", framing: "array", streams: true });
  t.match(framing(""), { name: "streamGenerateContentArray", framing: "array", streams: true });
});

t.test("generation and counting can be requested in any protocol, embeddings cannot", async (t) => {
  const task = (action: string) =>
    protocol.locate("/v1beta/models/*", `m:${action}`, new URLSearchParams())?.operation.task;
  t.same(["generateContent", "streamGenerateContent", "countTokens", "embedContent", "batchEmbedContents"].map(task), [
    "generate",
    "generate",
    "count",
    undefined,
    undefined,
  ]);
  const events = protocol.locate("/v1beta/models/*", "m:streamGenerateContent", new URLSearchParams("alt=sse"));
  t.equal(events?.operation.task, "generate");
});

t.test("escapes are decoded once, and a model may contain slashes", async (t) => {
  t.equal(read("/v1beta/models/gemini-x%3AgenerateContent"), "generateContent gemini-x");
  t.equal(read("/v1/models/anthropic/m:generateContent"), "generateContent anthropic/m");
  t.equal(read("/v1beta/models/a%2Fb%3AgenerateContent"), "generateContent a/b");
  t.equal(read("/v1beta/models/mod%C3%A8le:generateContent"), "generateContent modèle");
  t.equal(read("/v1beta/models/a;b=c:generateContent"), "generateContent a;b=c");
});

t.test("a model's name may contain colons: the last one comes before the action", async (t) => {
  for (const [path, found] of [
    ["/v1beta/models/llama3:8b:generateContent", "generateContent llama3:8b"],
    ["/v1beta/models/llama3%3A8b%3agenerateContent", "generateContent llama3:8b"],
    ["/v1/models/ollama/qwen3:30b-a3b:q4:streamGenerateContent", "streamGenerateContentArray ollama/qwen3:30b-a3b:q4"],
    ["/v1beta/models/llama3:8b:countTokens", "countTokens llama3:8b"],
  ] as const)
    t.equal(read(path), found);
});

t.test("an invalid name is refused with 400", async (t) => {
  const names = [
    "",
    "a:",
    "a:generateContent",
    "a:generateContent:b",
    "a::b",
    "..",
    ".",
    "a/../b",
    "a//b",
    "/a",
    "a/",
    "a%",
    "a%zz",
    "a%252fb",
    "a%00b",
    "a%0d%0aX:%20y",
  ];
  for (const name of [...names, "a%23b", "a%3fkey=x", "a\\b", "%2e%2e%2fb", "%ff"])
    t.equal(read(`/v1beta/models/${name}:generateContent`), "400", name);
  t.equal(read("/v1beta/models/%2e%2e/%2e%2e/files"), "400");
});

t.test("an unsupported action is refused with 404 and the list of those supported", async (t) => {
  const locate = () => protocol.locate("/v1beta/models/*", "m:deleteModel", new URLSearchParams());
  t.throws(locate, {
    code: "path_not_found",
    message: /deleteModel is not served.*generateContent, streamGenerateContent, countTokens/,
  });
});

t.test("a name alone, also one with a colon, has no action", async (t) => {
  t.equal(read("/v1/models/gemini-x"), "unknown");
  t.equal(read("/v1/models/qwen:7b"), "unknown");
});

t.test("the provider is called with the vendor's name, escaped except for its slashes", async (t) => {
  const upstream = (action: string, model: string) =>
    protocol.locate("/v1beta/models/*", `m:${action}`, new URLSearchParams())?.operation.upstream(model);
  t.equal(upstream("generateContent", "gemini-x"), "/models/gemini-x:generateContent");
  t.equal(upstream("generateContent", "llama3:8b"), "/models/llama3%3A8b:generateContent");
  t.equal(upstream("streamGenerateContent", "acme/a b?c"), "/models/acme/a%20b%3Fc:streamGenerateContent");
});

const vectors = shared("vectors/own/path-vectors.json");

t.test("paths of the shared vectors are read as expected", { skip: !vectors && "no vectors" }, async (t) => {
  const all = JSON.parse(readFileSync(vectors as string, "utf8")) as { target: string; expect: string }[];
  const own = all.filter(({ target }) => target.startsWith("/v1beta/models/"));
  t.ok(own.length > 0);
  // Said of the query or of the whole request, which the engine looks at.
  const elsewhere = (expect: string) => expect.startsWith("400 duplicate");
  for (const { target, expect } of own) {
    const found = read(target);
    if (elsewhere(expect)) continue;
    if (expect === "allow" || expect.startsWith("key used") || expect.startsWith("canonicalise"))
      t.match(found, /^(stream)?[gG]enerateContent(Array)? gemini-x$/, target);
    else if (expect.startsWith("400")) t.equal(found, "400", target);
    else if (expect.startsWith("404")) t.equal(found, "404", target);
    else t.match(found, / a;b=c$/, target);
  }
});

t.test("the kind of media is read from their type, in either case", async (t) => {
  const types = ["image/png", "Audio/L16;rate=24000", "video/mp4", "application/pdf", "imagery/x", "", undefined];
  t.strictSame(types.map(mediaKind), ["image", "audio", "video", "file", "file", "file", "file"]);
});

const event = (value: unknown) => new Frame("event", Buffer.from(`data: ${JSON.stringify(value)}\r\n\r\n`));
const endingOf = (value: unknown) => protocol.ending(event(value));
const text = (words: string) => ({ content: { role: "model", parts: [{ text: words }] }, index: 0 });

t.test("a finish reason or a blocked prompt completes an answer", async (t) => {
  t.equal(endingOf({ candidates: [{ ...text("x"), finishReason: "STOP" }] }), "complete");
  t.equal(endingOf({ candidates: [text("x"), { finishReason: "SAFETY", index: 1 }] }), "complete");
  t.equal(endingOf({ promptFeedback: { blockReason: "PROHIBITED_CONTENT" } }), "complete");
  t.equal(endingOf({ candidates: [{ finishReason: "FINISH_REASON_UNSPECIFIED" }] }), undefined);
  t.equal(endingOf({ candidates: [{ ...text("x"), finishReason: null }] }), undefined);
  t.equal(endingOf({ candidates: [{ ...text("x"), finishReason: 1 }] }), "complete");
  t.equal(endingOf({ candidates: [{ ...text("x"), finishReason: 0 }] }), undefined);
});

t.test("an error fails it, as an event, on its own or as an element", async (t) => {
  const error = { error: { code: 503, message: "The model is overloaded.", status: "UNAVAILABLE" } };
  t.equal(endingOf(error), "error");
  t.equal(protocol.ending(new Frame("event", Buffer.from(JSON.stringify(error, null, 2)))), "error");
  t.equal(protocol.ending(new Frame("element", Buffer.from(`,\r\n${JSON.stringify(error)}\n]`))), "error");
});

t.test("an answer whose text mentions these members continues", async (t) => {
  t.equal(endingOf({ candidates: [text('{"finishReason":"STOP"} {"error":{}}')] }), undefined);
  const call = {
    functionCall: { name: "report", args: { finishReason: "STOP", error: { code: 1 }, blockReason: "x" } },
  };
  t.equal(endingOf({ candidates: [{ content: { parts: [call] } }] }), undefined);
});

t.test("a frame with neither an end nor an error continues the stream", async (t) => {
  t.equal(endingOf({ candidates: [text("x")] }), undefined);
  t.equal(endingOf({ candidates: [{ finishReason: "" }], error: null }), undefined);
  t.equal(protocol.ending(new Frame("event", protocol.ping)), undefined);
  t.equal(protocol.ending(new Frame("event", Buffer.from('data: {"finishReason":"STOP" broken\n\n'))), undefined);
  t.equal(protocol.ending(new Frame("piece", Buffer.from('{"candidates":[{"finishReason":"STOP"}]}'))), undefined);
  t.equal(protocol.ending(new Frame("end", Buffer.alloc(0))), undefined);
});

t.test("usage is where usageMetadata is", async (t) => {
  t.ok(protocol.holdsUsage(event({ usageMetadata: { promptTokenCount: 1 } })));
  t.ok(protocol.holdsUsage(new Frame("element", Buffer.from('[{\n  "usageMetadata": {\n}}'))));
  t.notOk(protocol.holdsUsage(event({ candidates: [text('"usageMetadata": {}')] })));
  t.notOk(protocol.holdsUsage(new Frame("event", protocol.ping)));
});

const answers = recorded("gemini").filter(({ status }) => status < 300);
const skip = answers.length === 0 && "no recordings";

gathered(t, "the last event of every recorded stream says that it is complete", { skip }, async (t) => {
  for (const { id, kinds, body } of answers) {
    if (!kinds.includes("stream") || kinds.includes("json_array_stream")) continue;
    t.equal(protocol.ending(eventsIn(body).at(-1) as Frame), "complete", id);
  }
});

t.test("the last element of every recorded array marks it as complete", { skip }, async (t) => {
  for (const { id, kinds, body } of answers) {
    if (!kinds.includes("json_array_stream")) continue;
    const elements = (JSON.parse(body) as unknown[]).map((value, i, all) => {
      const bytes = Buffer.from(
        `${i === 0 ? "[" : "\n,\r\n"}${JSON.stringify(value, null, 2)}${i === all.length - 1 ? "\n]" : ""}`,
      );
      return new Frame("element", bytes);
    });
    t.equal(protocol.ending(elements.at(-1) as Frame), "complete", id);
    t.ok(
      elements.every((element) => protocol.holdsUsage(element)),
      id,
    );
  }
});

/** Text of characters of one to four bytes, halves of pairs among them, long enough for many marks. */
const MIXED = "aé€😀\ud83d b\ude00".repeat(2000);

t.test("a position in characters is converted to one in bytes", async (t) => {
  const offsets = new TextOffsets("Größe 😀!");
  t.equal(offsets.byteLength, 13);
  for (const [character, byte] of [
    [0, 0],
    [3, 4],
    [5, 7],
    [6, 8],
    [8, 12],
    [9, 13],
  ] as const) {
    t.equal(offsets.bytesBefore(character), byte);
    t.equal(offsets.charactersBefore(byte), character);
  }
});

t.test("positions in a long text are counted as from its start each time", async (t) => {
  const offsets = new TextOffsets(MIXED);
  const encoded = Buffer.from(MIXED);
  t.equal(offsets.byteLength, encoded.length);
  for (let at = 0; at <= MIXED.length; at += 7) {
    const bytes = Buffer.byteLength(MIXED.slice(0, at));
    if (offsets.bytesBefore(at) !== bytes) t.fail(`${at} characters are ${bytes} bytes`);
  }
  for (let at = 0; at <= encoded.length; at += 7) {
    const characters = encoded.toString("utf8", 0, at).length;
    if (offsets.charactersBefore(at) !== characters) t.fail(`${at} bytes are ${characters} characters`);
  }
});

t.test("an empty text has one position", async (t) => {
  const offsets = new TextOffsets("");
  t.strictSame([offsets.byteLength, offsets.bytesBefore(0), offsets.charactersBefore(0)], [0, 0, 0]);
});

const fields = (of: JsonObject, at = "", uses: FeatureUse[] = []) => new ProtoFields(of, at, uses);

t.test("a member is found in camel case and in snake case, and its path is the client's", async (t) => {
  const members = fields({ topP: 0.5, max_output_tokens: 7 }, "generation_config");
  t.equal(members.number("topP"), 0.5);
  t.equal(members.number("maxOutputTokens"), 7);
  t.equal(members.path("maxOutputTokens"), "generation_config.max_output_tokens");
  t.equal(members.path("topP"), "generation_config.topP");
});

t.test("numbers may be strings, and integers keep their digits where that is requested", async (t) => {
  const members = fields({ topK: "40", seed: new RawJson("12345678901234567890"), wide: new RawJson("1e3") });
  t.equal(members.number("topK"), 40);
  t.equal(members.integer("topK"), 40);
  t.match(members.integer("seed"), { text: "12345678901234567890" });
  t.equal(members.number("wide"), 1000);
});

t.test("enums may be in either case, and an unspecified one is declared where requested", async (t) => {
  const uses: FeatureUse[] = [];
  const members = fields({ thinking_level: "low", mode: "MODE_UNSPECIFIED", level: "unspecified" }, "", uses);
  t.equal(members.enumValue("thinkingLevel"), "LOW");
  t.equal(members.enumValue("mode"), undefined);
  t.equal(members.enumValue("level", "cosmetic"), undefined);
  members.declareUnread();
  t.strictSame(uses, [{ feature: "cosmetic", path: "level" }]);
});

t.test("a single element is read as a list of it", async (t) => {
  const list = (json: JsonObject) => fields(json).objects("parts");
  t.match(list({ parts: { text: "x" } }), [{ members: { text: "x" }, ownPath: "parts" }]);
  t.match(list({ parts: [{ text: "x" }] }), [{ members: { text: "x" }, ownPath: "parts.0" }]);
});

t.test("a value of another type is refused with its path", async (t) => {
  const members = fields({ top_k: "many", args: [], list: "x", odd: [1] }, "at");
  const path = (run: () => unknown) => refusal(run)?.param;
  t.strictSame(
    [
      path(() => members.number("topK")),
      path(() => members.raw("args")),
      path(() => members.objects("list")),
      path(() => members.objects("odd")),
    ],
    ["at.top_k", "at.args", "at.list", "at.odd.0"],
  );
});

t.test("a reason that is unspecified, 0 or missing is none", async (t) => {
  for (const nothing of [undefined, null, 0, "", "FINISH_REASON_UNSPECIFIED", "BLOCKED_REASON_UNSPECIFIED", {}])
    t.equal(rawReason(nothing), undefined);
  t.equal(rawReason("STOP"), "STOP");
  t.equal(rawReason(2), "2");
});

t.test("answer forms without usage are refused where something is generated", async (t) => {
  const at = (action: string, query: string) => read(`/v1beta/models/m:${action}?${query}`);
  for (const action of ["generateContent", "streamGenerateContent", "embedContent"])
    for (const query of [
      "fields=candidates.content",
      "$fields=candidates",
      "alt=proto",
      "$alt=proto",
      "$alt=proto;enum-encoding=int",
      "alt=media",
      "callback=f",
    ])
      t.equal(at(action, query), "400", `${action} ${query}`);
  for (const query of [
    ...["alt=sse", "alt=json", "$alt=json", "fields=*", "prettyPrint=false"],
    // As the vendor's own clients generated for REST send it.
    "$alt=json;enum-encoding=int",
    "%24alt=json%3Benum-encoding%3Dint",
  ])
    t.equal(at("generateContent", query), "generateContent m", query);
  t.equal(at("countTokens", "fields=totalTokens"), "countTokens m");
});
