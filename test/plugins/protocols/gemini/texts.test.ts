import t from "tap";
import protocol from "../../../../plugins/protocols/gemini/index.ts";
import { opaque, texts } from "../../../../plugins/protocols/gemini/texts.ts";
import { Body } from "../../../../src/core/body.ts";
import type { Facts } from "../../../../src/core/marketplace.ts";
import type { TextPlace } from "../../../../src/core/protocol.ts";
import { Envelopes } from "../../../../src/translation/envelope.ts";
import { removeUnreadable } from "../../../../src/translation/unreadable.ts";
import { splice } from "../../../../src/wire/splice.ts";
import type { JsonObject } from "../../../../src/wire/values.ts";
import { gathered } from "../../../support/gathered.ts";
import { locatePaths, valueAt } from "../../../support/locate-paths.ts";
import { eventsIn, recorded } from "../../../support/recorded.ts";
import { recordedRequests } from "./requests.ts";

/** `kind path` of each place, with its piece behind it. */
const places = (found: Iterable<TextPlace>): string[] =>
  [...found].map(({ path, kind, piece }) => `${kind} ${path.join(".")}${piece === undefined ? "" : ` ${piece}`}`);

t.test("texts of a request are in the instruction, the turns, the arguments and the results", async (t) => {
  const contents = [
    { role: "user", parts: [{ text: "Hi" }, { inlineData: { data: "aGk=" } }] },
    {
      role: "model",
      parts: [
        { text: "Hm.", thought: true },
        { text: "Ho" },
        { functionCall: { name: "f", args: { a: "x", b: [1, { c: "y" }] } } },
        { executableCode: { language: "PYTHON", code: "1" } },
        { codeExecutionResult: { output: "1" } },
      ],
    },
    { role: "user", parts: { function_response: { name: "f", response: { output: "z" } } } },
  ];
  t.strictSame(places(texts.request({ system_instruction: { parts: [{ text: "Be terse." }] }, contents })), [
    "system system_instruction.parts.0.text",
    "user contents.0.parts.0.text",
    "reasoning contents.1.parts.0.text",
    "assistant contents.1.parts.1.text",
    "tool_call contents.1.parts.2.functionCall.args.a",
    "tool_call contents.1.parts.2.functionCall.args.b.1.c",
    "tool_call contents.1.parts.3.executableCode.code",
    "tool_result contents.1.parts.4.codeExecutionResult.output",
    "tool_result contents.2.parts.function_response.response.output",
  ]);
});

t.test("texts to be counted or embedded are found, and none where the values are of other types", async (t) => {
  const content = { parts: [{ text: "x" }] };
  t.strictSame(places(texts.request({ generateContentRequest: { systemInstruction: "x", contents: [content] } })), [
    "system generateContentRequest.systemInstruction",
    "user generateContentRequest.contents.0.parts.0.text",
  ]);
  t.strictSame(places(texts.request({ content })), ["user content.parts.0.text"]);
  t.strictSame(places(texts.request({ requests: [{ content }, 1] })), ["user requests.0.content.parts.0.text"]);
  for (const odd of [null, 1, "x", [], {}, { contents: 1 }, { contents: [null, { parts: [1, null, { text: 2 }] }] }])
    t.strictSame([places(texts.request(odd)), places(texts.response(odd))], [[], []]);
});

t.test("texts of a frame are pieces, separate for each candidate", async (t) => {
  const call = {
    name: "f",
    args: { a: "x" },
    partialArgs: [{ jsonPath: "$.s", stringValue: "y" }, { jsonPath: "$.n" }],
  };
  const metadata = { groundingSupports: [{ segment: { text: "Hi" } }] };
  const frame = {
    candidates: [
      { content: { parts: [{ text: "Hm.", thought: true }, { text: "Hi" }] }, groundingMetadata: metadata },
      { index: 7, content: { parts: [{ functionCall: call }] } },
    ],
  };
  t.strictSame(places(texts.response(frame)), [
    "reasoning candidates.0.content.parts.0.text 0.thought",
    "assistant candidates.0.content.parts.1.text 0.text",
    "assistant candidates.0.groundingMetadata.groundingSupports.0.segment.text",
    "tool_call candidates.1.content.parts.0.functionCall.args.a",
    "tool_call candidates.1.content.parts.0.functionCall.partialArgs.0.stringValue 7.call.$.s",
  ]);
});

const answers = recorded("gemini").filter(({ status }) => status === 200);
const skip = answers.length === 0 && "no recordings";

gathered(t, "the pieces of every recorded stream are the texts of its blocks", { skip }, async (t) => {
  let compared = 0;
  for (const { id, kinds, body } of answers) {
    if (!kinds.includes("stream") && !kinds.includes("json_array_stream")) continue;
    const frames = kinds.includes("stream")
      ? eventsIn(body).flatMap((frame) => (frame.text === undefined ? [] : [frame.json()]))
      : (JSON.parse(body) as unknown[]);
    const joined = new Map<string, string>();
    for (const json of frames)
      for (const { path, piece } of texts.response(json))
        if (piece !== undefined) joined.set(piece, `${joined.get(piece) ?? ""}${valueAt(json, path)}`);
    const decoder = protocol.translation.response.decoder({ account: "google", model: "m" });
    const events = frames.flatMap((json) => {
      const out: Parameters<typeof decoder.frame>[1] = [];
      decoder.frame(eventsIn(`data: ${JSON.stringify(json)}\n\n`)[0] as Parameters<typeof decoder.frame>[0], out);
      return out;
    });
    const pieces = new Map<number, string>();
    const said = new Map<string, string>();
    for (const event of events) {
      if (event.type === "open" && (event.kind === "text" || event.kind === "reasoning"))
        pieces.set(event.block, `${event.choice}.${event.kind === "text" ? "text" : "thought"}`);
      if (event.type !== "text" || event.text === "") continue;
      const piece = pieces.get(event.block) ?? "";
      said.set(piece, `${said.get(piece) ?? ""}${event.text}`);
    }
    for (const [piece, text] of said) t.equal(joined.get(piece), text, `${id} ${piece}`);
    compared += said.size;
  }
  t.ok(compared > 50, `${compared} texts`);
});

gathered(t, "every place of a recorded request is a string in its bytes", { skip }, async (t) => {
  for (const { id, body } of recordedRequests()) {
    const found = [...texts.request(body)].map(({ path }) => path);
    const bytes = Buffer.from(JSON.stringify(body));
    const strings = locatePaths(bytes, found).filter(({ start }) => bytes[start] === 0x22);
    t.equal(strings.length, found.length, id);
  }
});

const envelopes = new Envelopes("a secret of this test");
const foreign = envelopes.seal({ protocol: "some-protocol", account: "other", kind: "signature", data: "c2ln" });
const ours = envelopes.seal({ protocol: "gemini", account: "them", kind: "thoughtSignature", data: "c2ln" });

/** A request's text without what the provider cannot read, and what was told of it. */
function cleaned(json: string, facts: Facts = { thinking: "budget" }, model = "theirs", strict = false) {
  const text = Buffer.from(json);
  const to = { protocol, account: "them", model, facts };
  const { edits, losses } = removeUnreadable(text, JSON.parse(json) as JsonObject, envelopes, to, strict);
  return { json: Buffer.concat(splice([text], edits)).toString(), notices: losses.notices };
}

t.test("reasoning is removed with its state, a call and a text stay, and so do all other bytes", async (t) => {
  const thought = `{"text":"Hm.", "thought":true,"thoughtSignature":"${foreign}"}`;
  const request = (...parts: string[]) =>
    `{ "contents":[{"parts":[{"text":"Hi"}]}, {"role":"model", "parts":[ ${parts.join(" , ")} ]} ], "novel":1.0 }`;
  const call = (more = "") => `{"functionCall":{"name":"f","args":{"n":1.0}}${more}}`;
  const text = (more = "") => `{"text":"Ho"${more}}`;
  const state = `, "thought_signature" : "${foreign}"`;
  t.equal(cleaned(request(thought, text())).json, request(text()));
  t.equal(cleaned(request(call(state), text(state))).json, request(call(), text()));
  t.equal(cleaned(request(call(), `{"text":"","thoughtSignature":"${foreign}"}`)).json, request(call()));
  const media = '{"inlineData":{"mimeType":"image/png","data":"aGk="}';
  t.equal(cleaned(request(`${media}${state}}`)).json, request(`${media}}`));
  const pieces = '{"text":"Let me ","thought":true} , {"text":"see.","thought":true}';
  t.equal(cleaned(request(pieces, thought, text())).json, request(text()), "a thought in pieces is removed completely");
  t.equal(cleaned(request(pieces, text(state))).json, request(text()), "its signature may be on what follows it");
  t.equal(cleaned(request(pieces, call(state))).json, request(call()));
  t.equal(cleaned(request(call(state), pieces, text())).json, request(call(), pieces, text()), "one of its own stays");
  const end = `{"text":"","thoughtSignature":"${foreign}"}`;
  for (const [part, left] of [
    [call(state), [call()]],
    [end, []],
  ] as const) {
    t.equal(cleaned(request(pieces, text(), part)).json, request(text(), ...left), "or after texts");
    t.equal(
      cleaned(request(pieces, text(), pieces, text(), part)).json,
      request(pieces, text(), text(), ...left),
      "the last thought only",
    );
  }
  t.equal(cleaned(request(pieces, text(), thought)).json, request(pieces, text()), "an earlier thought stays");
  const streamed = (...contents: string[]) =>
    `{"contents":[{"role":"user","parts":[{"text":"Hi"}]}${contents.map((parts) => `,{"role":"model","parts":[${parts}]}`).join("")}]}`;
  t.equal(
    cleaned(streamed('{"text":"Let me ","thought":true}', '{"text":"see.","thought":true}', text(), text(), end)).json,
    streamed(text(), text()),
    "each piece as a content, then texts",
  );
  t.equal(
    cleaned(streamed('{"text":"Let me ","thought":true}', '{"text":"see.","thought":true}', text(state))).json,
    streamed(text()),
    "also where a client kept each piece as a content",
  );
});

t.test("a turn without remaining parts is removed, and so is an instruction", async (t) => {
  const thought = `{"text":"","thought":true,"thoughtSignature":"${foreign}"}`;
  const one = '{"contents":[{"parts":[{"text":"Hi"}]}';
  t.equal(cleaned(`${one},{"role":"model","parts":[${thought}]}]}`).json, `${one}]}`);
  t.equal(cleaned(`${one},{"role":"model","parts":${thought}}]}`).json, `${one}]}`);
  t.equal(cleaned(`{"systemInstruction":{"parts":[${thought}]},"contents":[]}`).json, '{"contents":[]}');
  const counted = (turns: string) => `{"generateContentRequest":{"contents":[{"parts":[{"text":"Hi"}]}${turns}]}}`;
  t.equal(cleaned(counted(`,{"role":"model","parts":[${thought}]}`)).json, counted(""));
});

t.test("the provider's own state is returned unchanged, wherever it is", async (t) => {
  const parts = (state: string) =>
    `{"contents":[{"role":"model","parts":[{"text":"x","thought":true,"thoughtSignature":"${state}"},{"functionCall":{"name":"f"},"thought_signature":"${state}"},{"text":"","thoughtSignature":"${state}"}]}]}`;
  t.same(cleaned(parts(ours), {}), { json: parts("c2ln"), notices: [] });
  t.same(cleaned(parts("c2ln"), {}), { json: parts("c2ln"), notices: [] });
});

t.test(
  "the first call of each step since the user's turn gets the bypass where the model requires a signature",
  async (t) => {
    const user = '{"role":"user","parts":[{"text":"Hi"}]}';
    const result = '{"role":"user","parts":[{"functionResponse":{"name":"f","response":{}}}]}';
    const call = (signature?: string) =>
      `{"functionCall":{"name":"f"}${signature === undefined ? "" : `,"thoughtSignature":"${signature}"`}}`;
    const model = (...parts: string[]) => `{"role":"model","parts":[${parts.join(",")}]}`;
    const request = (...contents: string[]) => `{"contents":[${contents.join(",")}]}`;
    const text = '{"text":"Ho"}';
    const BYPASS = "skip_thought_signature_validator";
    const { json, notices } = cleaned(
      request(
        user,
        model(call(foreign)),
        result,
        model(text),
        user,
        model(call(foreign), call()),
        result,
        model(call("bmF0aXZl")),
        result,
        model(call()),
        result,
      ),
      { thinking: "level" },
    );
    t.equal(
      json,
      request(
        user,
        model(call()),
        result,
        model(text),
        user,
        model(call(BYPASS), call()),
        result,
        model(call("bmF0aXZl")),
        result,
        model(call(BYPASS)),
        result,
      ),
    );
    t.match(notices, [/Reasoning that another/, /^contents\.5\.parts\.0\.thoughtSignature: the call has no thought/]);
    t.equal(notices.length, 2);
  },
);

t.test(
  "a call that lost its signature before the gateway gets the bypass where the model is known to refuse it",
  async (t) => {
    const user = '{ "role":"user","parts":[{"text":"Hi"}]}';
    const result = '{"role":"user", "parts":[{"functionResponse":{"name":"f","response":{"n":1.0}}}]}';
    const call = (signature = "") => `{"functionCall": {"name":"f" , "args":{"n":1.0}}${signature}}`;
    const request = (...signatures: string[]) =>
      `{ "systemInstruction":{"parts":[{"text":"Be brief."}]}, "contents":[${user}, {"role":"model","parts":[${call()}]}, ${result},
      {"role":"model","parts":[{"text":"Ho"}]},${user}${signatures.map((each) => `,{"role":"model","parts":[{"text":"Ho"},${call(each)},${call()}]},${result}`).join("")}],"novel":1.0}`;
    const bypass = ',"thoughtSignature":"skip_thought_signature_validator"';
    const own = ', "thoughtSignature":"bmF0aXZl"';
    const lost = request("", own, "");
    for (const [facts, model] of [
      [{}, "gemini-3-pro-preview"],
      [{ thinking: "adaptive" }, "models/gemini-3.5-flash"],
      [{ thinking: "level" }, "theirs"],
    ] as const) {
      const { json, notices } = cleaned(lost, facts, model);
      t.equal(json, request(bypass, own, bypass), model);
      t.match(notices, [/^contents\.5\.parts\.1\.thoughtSignature: the call has no thought signature/]);
    }
    for (const [facts, model, strict] of [
      [{}, "gemini-2.5-pro"],
      [{}, "theirs"],
      [{ thinking: "budget" }, "gemini-3-pro-preview"],
      [{ thinking: "none" }, "gemini-3-pro-preview"],
      [{}, "gemini-3-pro-preview", true],
    ] as const)
      t.same(cleaned(lost, facts, model, strict), { json: lost, notices: [] }, `${model} ${JSON.stringify(facts)}`);
    for (const complete of [request(), request(own), request(bypass, own)])
      t.same(cleaned(complete, {}, "gemini-3-pro-preview"), { json: complete, notices: [] });
  },
);

t.test("only requests with calls to such models are parsed to look for lost signatures", async (t) => {
  const mayLack = (json: string, model: string, facts: Facts = {}) =>
    protocol.translation.request.opaque.lost?.mayBeIn(new Body([Buffer.from(json)], "json"), { model, facts });
  const asks = '{"contents":[{"parts":[{"functionCall":{}}]}]}';
  t.equal(mayLack(asks, "gemini-3-pro-preview"), true);
  t.equal(mayLack(asks.replace("functionCall", "function_call"), "theirs", { thinking: "level" }), true);
  t.equal(mayLack(asks, "gemini-2.5-pro"), false);
  const keeps = asks.replace("}}", '},"thoughtSignature":"s"}');
  t.equal(mayLack(keeps, "gemini-3-pro-preview"), false, "signatures are kept");
  t.equal(mayLack('{"contents":[{"parts":[{"text":"Hi"}]}],"tools":["functionCall"]}', "gemini-3-pro-preview"), false);
  t.equal(mayLack("{}", "gemini-3-pro-preview"), false);
});

gathered(t, "outside of the places of an envelope every recorded request stays to the byte", { skip }, async (t) => {
  let count = 0;
  for (const { id, body } of recordedRequests()) {
    const text = JSON.stringify(body);
    for (const { path, span } of opaque.find(body)) {
      const bytes = Buffer.from(text);
      const [place] = locatePaths(bytes, [path]);
      if (!place) throw new Error(id);
      const sent = Buffer.concat([
        bytes.subarray(0, place.start),
        Buffer.from(`"${foreign}"`),
        bytes.subarray(place.end),
      ]);
      const left = JSON.parse(cleaned(sent.toString()).json) as unknown;
      t.notMatch(JSON.stringify(left), foreign, id);
      t.same(left, without(body, span), `${id} ${span.join(".")}`);
      count++;
    }
  }
  t.ok(count > 30, `${count} places`);
});

/** The value without what stands at a path, and without the turn that is left empty by that. */
function without(body: unknown, path: readonly (string | number)[]): unknown {
  const copy = structuredClone(body);
  const [name] = path.slice(-1) as [string | number];
  const holder = valueAt(copy, path.slice(0, -1));
  if (Array.isArray(holder)) holder.splice(Number(name), 1);
  else delete (holder as JsonObject)[name];
  if (Array.isArray(holder) && holder.length === 0 && path.length > 2) return without(body, path.slice(0, -2));
  return copy;
}
