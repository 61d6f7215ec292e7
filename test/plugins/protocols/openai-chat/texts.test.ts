import t from "tap";
import protocol from "../../../../plugins/protocols/openai-chat/index.ts";
import { opaque, texts } from "../../../../plugins/protocols/openai-chat/texts.ts";
import { Body } from "../../../../src/core/body.ts";
import type { TextPlace } from "../../../../src/core/protocol.ts";
import { Envelopes } from "../../../../src/translation/envelope.ts";
import type { Opaque } from "../../../../src/translation/events.ts";
import { removeUnreadable } from "../../../../src/translation/unreadable.ts";
import { type JsonPath, pathEdits } from "../../../../src/wire/paths.ts";
import { splice } from "../../../../src/wire/splice.ts";
import { asList, asObject, type JsonObject } from "../../../../src/wire/values.ts";
import { valueAt } from "../../../support/locate-paths.ts";
import { eventsIn, recorded } from "../../../support/recorded.ts";
import { ODD } from "./request.odd.ts";

const found = (json: unknown, places: Iterable<TextPlace>) =>
  [...places].map(({ kind, path, json: escaped }) => [kind, valueAt(json, path), ...(escaped ? ["json"] : [])]);

t.test("the texts of a request are listed by role", async (t) => {
  const body = {
    messages: [
      { role: "system", content: "S" },
      { role: "developer", content: [{ type: "text", text: "D" }] },
      {
        role: "user",
        name: "n",
        content: ["U1", { type: "input_text", text: "U2" }, { type: "image_url", image_url: "u" }],
      },
      {
        role: "assistant",
        content: [
          { type: "thinking", thinking: [{ type: "text", text: "T1" }, "T2"] },
          { type: "output_text", text: "A" },
          { type: "refusal", refusal: "N1" },
        ],
        refusal: "N2",
        reasoning_content: "R1",
        reasoning_details: [
          { type: "reasoning.text", text: "R2", signature: "s" },
          { type: "reasoning.summary", summary: "R3" },
          { type: "reasoning.encrypted", data: "d" },
        ],
        annotations: [{ type: "url_citation", url_citation: { url: "u", title: "C1", content: "C2" } }],
        tool_calls: [
          { id: "a", type: "function", function: { name: "f", arguments: '{"a":"b"}' } },
          { id: "b", type: "function", function: { name: "f", arguments: { x: ["O1", { y: "O2" }], z: 1 } } },
          { id: "c", type: "custom", custom: { name: "g", input: "I" } },
        ],
      },
      { role: "tool", tool_call_id: "a", content: "P1" },
      { role: "function", name: "f", content: [{ type: "text", text: "P2" }] },
      { role: "assistant", function_call: { name: "f", arguments: "{}" } },
    ],
    prediction: { type: "content", content: "E" },
  };
  t.same(found(body, texts.request(body)), [
    ["system", "S"],
    ["system", "D"],
    ["user", "U1"],
    ["user", "U2"],
    ["reasoning", "T1"],
    ["reasoning", "T2"],
    ["assistant", "A"],
    ["assistant", "N1"],
    ["assistant", "N2"],
    ["reasoning", "R1"],
    ["reasoning", "R2"],
    ["reasoning", "R3"],
    ["assistant", "C1"],
    ["assistant", "C2"],
    ["tool_call", '{"a":"b"}', "json"],
    ["tool_call", "O1"],
    ["tool_call", "O2"],
    ["tool_call", "I"],
    ["tool_result", "P1"],
    ["tool_result", "P2"],
    ["tool_call", "{}", "json"],
    ["user", "E"],
  ]);
});

t.test("members that some vendors fill with one text are marked in answers, and in requests are not", async (t) => {
  const message = {
    content: "A",
    refusal: "N",
    reasoning: "R",
    reasoning_content: "R",
    reasoning_details: [{ type: "reasoning.text", text: "R" }],
    tool_calls: [{ function: { name: "f", arguments: "{}" } }],
  };
  const marks = (places: Iterable<TextPlace>) =>
    [...places].map(({ alternative }) => alternative && `${alternative.of}: ${alternative.member}`);
  const expected = [
    "1 content: content",
    undefined,
    "1 reasoning: reasoning_content",
    "1 reasoning: reasoning",
    "1 reasoning: reasoning_details",
    undefined,
  ];
  t.same(marks(texts.response({ choices: [{ index: 1, message }] })), expected);
  t.same(marks(texts.response({ choices: [{ index: 1, delta: message, text: "A" }] })), [
    ...expected,
    "1 content: text",
  ]);
  const thinking = { type: "thinking", thinking: [{ type: "text", text: "T" }] };
  const parts = { content: [thinking, { type: "text", text: "A" }] };
  t.same(marks(texts.response({ choices: [{ index: 1, message: parts }] })), [undefined, undefined]);
  t.same(new Set(marks(texts.request({ messages: [{ role: "assistant", ...message }] }))), new Set([undefined]));
});

t.test("for values of any type, listed places are of strings", async (t) => {
  const wrong: string[] = [];
  const odd = [null, 1, "x", [], {}, [null], [[]], { content: 1 }, [{ delta: 1 }], [{ message: { tool_calls: [1] } }]];
  const bodies = [
    ...ODD,
    ...odd.flatMap((each) => [each, { messages: each }, { choices: each }, { messages: [each] }]),
  ];
  for (const body of bodies) {
    const places = [...texts.request(body), ...texts.response(body)];
    const states = asObject(body) ? [...opaque.find(body as JsonObject)] : [];
    if (![...places, ...states].every(({ path }) => typeof valueAt(body, path) === "string"))
      wrong.push(JSON.stringify(body));
  }
  t.same(wrong, []);
});

t.test("hostile JSON takes no more than linear time", async (t) => {
  let deep: unknown = "x";
  for (let n = 0; n < 100_000; n++) deep = [deep];
  const body = { messages: [{ role: "assistant", tool_calls: [{ function: { name: "f", arguments: deep } }] }] };
  t.same([...texts.request(body)], []);
  const entries = [{ type: "reasoning.encrypted", data: "gw1.x", format: "gw1" }];
  const many = { messages: Array.from({ length: 50_000 }, () => ({ role: "assistant", reasoning_details: entries })) };
  const gone = [...opaque.find(many)].map(({ span }) => span);
  t.equal([...(opaque.consequences?.(many, gone, { model: "m", facts: {} }) ?? [])].length, 50_000);
});

/** Returns a request as a model gets it without the reasoning that it cannot read, or that its client did not send. */
function repaired(body: JsonObject, model: string, host = "api.deepseek.com"): unknown {
  const target = { model, facts: {}, url: new URL(`https://${host}/v1`) };
  const text = Buffer.from(JSON.stringify(body));
  const gone = [...opaque.find(body)].map(({ span }) => span);
  const mayLack = opaque.lost?.mayBeIn(new Body([text], "json"), target) === true;
  const changes = gone.length > 0 ? opaque.consequences?.(body, gone, target) : opaque.lost?.repairs(body, target);
  const list = gone.length > 0 || mayLack ? [...(changes ?? [])] : [];
  const edits = pathEdits(text, {
    remove: [...gone, ...list.flatMap(({ path, json }) => (json === undefined ? [path] : []))],
    replace: list.flatMap(({ path, json }) => (json === undefined ? [] : [[path, json] as const])),
  });
  return JSON.parse(Buffer.concat(splice([text], edits)).toString());
}

t.test("models that refuse a message without its reasoning get something in its place", async (t) => {
  const user = { role: "user", content: "Hi" };
  const turn = (more: JsonObject) => ({ role: "assistant", content: "Ho", ...more });
  const tools = [{ type: "function", function: { name: "f" } }];
  const ask = (...turns: JsonObject[]) => ({ messages: [user, ...turns, user], tools });
  const placed = turn({ reasoning_content: "." });
  const foreign = turn({ reasoning_content: "Hm.", reasoning_details: [{ signature: "gw1.x", format: "gw1" }] });
  for (const model of ["deepseek-v4-pro", "kimi-k2.5"]) {
    t.same(repaired(ask(foreign), model), ask(placed), model);
    t.same(repaired(ask(turn({})), model), ask(placed), "a client that sends none back");
    t.same(
      repaired(ask(turn({ reasoning_content: "" }), turn({ reasoning_content: null })), model),
      ask(placed, placed),
    );
    const own = turn({ reasoning_content: "Hm." });
    t.same(repaired(ask(own), model), ask(own));
    t.same(repaired(ask(own, turn({})), model), ask(own, placed));
    const named = turn({ reasoning: "Hm.", reasoning_details: [{ type: "reasoning.text", text: "Hm." }] });
    t.same(repaired(ask(named), model), ask({ ...named, reasoning_content: "." }), "another server's name for it");
    t.same(repaired(ask(foreign, named), model, "models.example"), ask(placed, named), "which that server knows");
    t.same(repaired(ask(turn({})), model, "models.example"), ask(turn({})), "another server may do without");
    for (const more of [{ tools: [] }, { thinking: { type: "disabled" } }]) {
      const asked = { ...ask(turn({})), ...more };
      t.same(repaired(asked, model), asked, "which the vendor does not require");
    }
  }
  t.same(repaired(ask(turn({})), "deepseek-chat"), ask(turn({})));
  t.same(repaired(ask(foreign), "gpt-5"), ask(turn({})));
});

t.test("reasoning of other servers is removed where a vendor refuses it", async (t) => {
  const ask = (...turns: JsonObject[]) => ({
    messages: [{ role: "user", content: "Hi", reasoning: "kept" }, ...turns],
  });
  const turn = (more: JsonObject) => ({ role: "assistant", content: "Ho", ...more });
  const detail = { type: "reasoning.text", text: "Hm." };
  const every = turn({ reasoning_content: "Hm.", reasoning: "Hm.", reasoning_details: [detail] });
  const foreign = turn({ reasoning_content: "Hm.", reasoning_details: [{ signature: "gw1.x", format: "gw1" }] });
  const [mistral, groq] = ["api.mistral.ai", "api.groq.com"];
  t.same(repaired(ask(every, turn({ reasoning_content: null })), "m", mistral), ask(turn({}), turn({})));
  for (const host of [groq, "api.cerebras.ai"])
    t.same(repaired(ask(every), "m", host), ask(turn({ reasoning: "Hm." })), "which their own models have");
  t.same(repaired(ask(foreign, every), "m", mistral), ask(turn({}), turn({})));
  t.same(repaired(ask(every), "m", "models.example"), ask(every));
  const { edits, losses } = removeUnreadable(
    Buffer.from(JSON.stringify(ask(every))),
    ask(every),
    new Envelopes("a secret"),
    { protocol, account: "them", model: "m", facts: {}, url: new URL(`https://${groq}`) },
    false,
  );
  t.equal(edits.length > 0, true);
  t.match(losses.notices.join(), "the provider refuses other models' reasoning");
});

t.test("every text of a recorded request can be changed in place, and nothing else changes", async (t) => {
  const wrong: string[] = [];
  for (const { id, request } of recorded("openai-chat")) {
    if (!request) continue;
    const text = JSON.stringify(request, null, 1);
    const paths = [...texts.request(request)].map(({ path }) => path);
    const change = (from: string, json: (path: JsonPath) => string) =>
      Buffer.concat(
        splice(
          [Buffer.from(from)],
          pathEdits(Buffer.from(from), { replace: paths.map((path) => [path, json(path)] as const) }),
        ),
      ).toString();
    const masked = change(text, () => '"MASKED"');
    const fine = paths.every((path) => valueAt(JSON.parse(masked), path) === "MASKED");
    if (!fine || change(masked, (path) => JSON.stringify(valueAt(request, path))) !== text) wrong.push(id);
  }
  t.same(wrong, []);
});

/** Members whose deltas repeat them instead of adding to them. */
const WHOLE = new Set(["role", "id", "type", "name", "format", "signature", "url", "title"]);

/** Adds a delta to what there is: texts grow, elements of lists belong together by their index. */
function grow(into: JsonObject, delta: JsonObject): JsonObject {
  for (const [name, given] of Object.entries(delta)) {
    const before = into[name];
    // Mistral's content is a text in some chunks and a list in others.
    const mixed = name === "content" && Array.isArray(before) && typeof given === "string";
    const value = mixed ? [{ type: "text", text: given }] : given;
    if (typeof value === "string" && typeof before === "string" && !WHOLE.has(name)) into[name] = before + value;
    else if (Array.isArray(value)) {
      const list = (typeof before === "string" ? [{ type: "text", text: before }] : asList(before)) as JsonObject[];
      for (const each of value as JsonObject[]) {
        const same = list.findIndex(
          ({ index, type }) => index !== undefined && index === each["index"] && type === (each["type"] ?? type),
        );
        const known = list[same];
        if (known) grow(known, each);
        else list.push(structuredClone(each));
      }
      into[name] = list;
    } else if (asObject(value) && asObject(before)) grow(before as JsonObject, value as JsonObject);
    else if (value !== null && (value !== "" || before === undefined)) into[name] = structuredClone(value);
  }
  return into;
}

/** The texts of each choice by the member that they stand in, each put together. */
function byMember(places: Iterable<readonly [member: string, text: string]>): Record<string, string> {
  const members: Record<string, string> = {};
  for (const [member, text] of places) members[member] = (members[member] ?? "") + text;
  for (const [member, text] of Object.entries(members)) if (text === "") delete members[member];
  return members;
}

const recordedStreams = recorded("openai-chat").filter(({ kinds, status }) => status < 300 && kinds.includes("stream"));

t.test(
  "the pieces of every recorded stream add up to the texts of the whole answer",
  { skip: recordedStreams.length === 0 && "the recordings are absent" },
  async (t) => {
    const different: string[] = [];
    for (const { id, body } of recordedStreams) {
      const choices: JsonObject[] = [];
      const pieces = new Map<string, { member: string; text: string }>();
      for (const frame of eventsIn(body)) {
        const json = frame.json() as JsonObject | undefined;
        for (const choice of asList(json?.["choices"]) as { index: number; delta?: JsonObject; text?: string }[]) {
          const all = choices[choice.index] ?? { index: choice.index, message: {} };
          choices[choice.index] = all;
          grow(all["message"] as JsonObject, choice.delta ?? {});
          if (choice.text !== undefined) all["text"] = `${all["text"] ?? ""}${choice.text}`;
        }
        for (const { path, kind, piece } of texts.response(json)) {
          const at = asList(json?.["choices"])[Number(path[1])] as { index: number } | undefined;
          const member = path[0] === "choices" ? `${at?.index} ${path[3] ?? path[2]} ${kind}` : String(path[0]);
          const name = piece ?? `${member} ${pieces.size}`;
          const known = pieces.get(name) ?? { member, text: "" };
          pieces.set(name, { member, text: known.text + String(valueAt(json, path)) });
        }
      }
      const whole = { choices };
      const expected = [...texts.response(whole)].map(({ path, kind }) => {
        const member = `${choices[Number(path[1])]?.["index"]} ${path[3] ?? path[2]} ${kind}`;
        return [member, String(valueAt(whole, path))] as const;
      });
      const got = [...pieces.values()].filter(({ member }) => member !== "search_results");
      const one = byMember(got.map(({ member, text }) => [member, text] as const));
      if (JSON.stringify(Object.entries(one).sort()) !== JSON.stringify(Object.entries(byMember(expected)).sort()))
        different.push(
          `${id}: ${JSON.stringify(one).slice(0, 300)} ${JSON.stringify(byMember(expected)).slice(0, 300)}`,
        );
    }
    t.same(different, []);
  },
);

const envelopes = new Envelopes("a secret of this test");
const to = { protocol, account: "them", model: "theirs", facts: {} };
const foreign = (more: Partial<Opaque> = {}): string =>
  envelopes.seal({ protocol: "anthropic-messages", account: "other", kind: "signature", data: "c2ln", ...more });

/** A request as it goes to a provider that did not make the state in it. */
function cleaned(text: string, strict = false): string {
  const bytes = Buffer.from(text);
  const { edits } = removeUnreadable(bytes, JSON.parse(text) as JsonObject, envelopes, to, strict);
  return Buffer.concat(splice([bytes], edits)).toString();
}

/** A conversation with such a message of the assistant's. */
const around = (...messages: string[]) =>
  `{ "messages" : [{"role":"user","content":"Hi"} , ${messages.join(" , ")}], "seed":9007199254740993, "odd" : 1.50 }`;
const call = (extra = "") => `{"id":"call:1","type":"function","function":{"name":"f","arguments":"{ }"}${extra}}`;
const entry = (json: string) => `{${json},"format":"gw1","index":0}`;
const spoken = '"role":"assistant" , "content":"So."';

t.test("reasoning is removed with its state, and no other byte changes", async (t) => {
  const whole = entry(`"type":"reasoning.text","text":"Hm.","signature":"${foreign()}"`);
  const summary = entry('"type":"reasoning.summary","summary":"Hm."');
  const encrypted = entry(`"type":"reasoning.encrypted","data":"${foreign({ on: "text" })}"`);
  for (const details of [whole, encrypted, `${summary},${encrypted}`, `${whole} , ${encrypted}`]) {
    const list = `"reasoning_details": [${details}]`;
    t.equal(cleaned(around(`{${spoken}, ${list} }`)), around(`{${spoken} }`));
    t.equal(cleaned(around(`{ ${list}, ${spoken}}`)), around(`{ ${spoken}}`));
    t.equal(cleaned(around(`{${spoken},"reasoning_content":"Hm.", ${list} , "x":1}`)), around(`{${spoken},"x":1}`));
  }
});

t.test("the provider's own reasoning stays beside the removed one", async (t) => {
  const own = '{"type":"reasoning.text","text":"Ho.","signature":"own","index":1}';
  const lost = entry(`"type":"reasoning.text","text":"Hm.","signature":"${foreign()}"`);
  for (const details of [`${own},${lost}`, `${lost},${own}`])
    t.equal(
      cleaned(around(`{${spoken},"reasoning_details":[${details}]}`)),
      around(`{${spoken},"reasoning_details":[${own}]}`),
    );
});

t.test("a signature on a call is removed alone, with the objects that contain nothing else", async (t) => {
  const signature = `"thought_signature":"${foreign({ on: { call: "call:1" } })}"`;
  const message = (extra = "") => `{"role":"assistant","content":null,"tool_calls":[${call(extra)}]}`;
  for (const [google, left] of [
    [`{"google":{${signature}}}`, undefined],
    [`{"google":{${signature}}, "acme":3}`, '{"acme":3}'],
    [`{"google":{${signature} , "more":2}, "acme":3}`, '{"google":{"more":2}, "acme":3}'],
  ])
    t.equal(
      cleaned(around(message(`,"extra_content":${google}`))),
      around(message(left === undefined ? "" : `,"extra_content":${left}`)),
    );
  const own = message(',"extra_content":{"google":{"thought_signature":"own"}}');
  t.equal(cleaned(around(own)), around(own));
});

t.test("a message that contains only such reasoning is removed with it", async (t) => {
  const list = `"reasoning_details":[${entry(`"type":"reasoning.encrypted","data":"${foreign()}"`)}]`;
  const next = '{"role":"user","content":"So?"}';
  for (const content of ["", '"content":null,', '"content":"",', '"content":[],', '"content":null,"tool_calls":[],'])
    t.equal(cleaned(around(`{"role":"assistant",${content}${list}}`, next)), around(next), content);
  for (const content of [
    '"content":null,"refusal":"No."',
    `"content":null,"tool_calls":[${call()}]`,
    '"audio":{"id":"a"}',
  ])
    t.equal(cleaned(around(`{"role":"assistant",${content},${list}}`)), around(`{"role":"assistant",${content}}`));
  const empty = '{"role":"assistant","content":""}';
  t.equal(cleaned(around(empty)), around(empty), "a message that had no reasoning stays");
});

t.test("losses are refused with the client's path in strict mode", async (t) => {
  const list = `"reasoning_details":[${entry(`"type":"reasoning.encrypted","data":"${foreign()}"`)}]`;
  t.throws(() => cleaned(around(`{${spoken},${list}}`), true), {
    code: "not_translatable",
    param: "messages.1.reasoning_details.0",
  });
});

t.test("state in any message of a recorded request is removed without a trace", async (t) => {
  const wrong: string[] = [];
  let count = 0;
  for (const { id, request } of recorded("openai-chat")) {
    for (const [i, message] of (asList(request?.["messages"]) as JsonObject[]).entries()) {
      const thoughts = ["reasoning_details", "reasoning_content", "reasoning"].some((name) => message[name]);
      if (message["role"] !== "assistant" || thoughts || (!message["content"] && !message["tool_calls"])) continue;
      const body = structuredClone(request) as { messages: JsonObject[] };
      const bearing = body.messages[i] as JsonObject;
      bearing["reasoning_details"] = [{ type: "reasoning.encrypted", data: foreign(), format: "gw1", index: 0 }];
      for (const each of asList(bearing["tool_calls"]) as JsonObject[])
        each["extra_content"] ??= { google: { thought_signature: foreign() } };
      if (cleaned(JSON.stringify(body)) !== JSON.stringify(request)) wrong.push(`${id} ${i}`);
      count++;
    }
  }
  t.same(wrong, []);
  t.comment(`${count} messages`);
});
