import { isDeepStrictEqual } from "node:util";
import Anthropic from "@anthropic-ai/sdk";
import t from "tap";
import protocol from "../../../../plugins/protocols/anthropic-messages/index.ts";
import { Body } from "../../../../src/core/body.ts";
import type { TextPlace } from "../../../../src/core/protocol.ts";
import { pathEdits } from "../../../../src/wire/paths.ts";
import { splice } from "../../../../src/wire/splice.ts";
import { type JsonObject } from "../../../../src/wire/values.ts";
import { CLIENT_BODIES } from "../../../support/client-bodies.ts";
import { locatePaths, valueAt } from "../../../support/locate-paths.ts";
import { eventsIn, recorded } from "../../../support/recorded.ts";
import { question, requests } from "./speaking.ts";

const texts = protocol.texts as NonNullable<typeof protocol.texts>;
const opaque = protocol.translation.request.opaque as NonNullable<typeof protocol.translation.request.opaque>;

const told = (json: unknown, places: Iterable<TextPlace>): [kind: string, text: unknown][] =>
  [...places].map(({ kind, path }) => [kind, valueAt(json, path)]);

t.test("the texts of a request are listed by role", async (t) => {
  const body = {
    system: [{ type: "text", text: "S" }],
    messages: [
      { role: "user", content: "U1" },
      {
        role: "user",
        content: [
          { type: "document", title: "T", context: "C", source: { type: "text", media_type: "text/plain", data: "D" } },
          { type: "document", source: { type: "content", content: [{ type: "text", text: "B" }] } },
          { type: "document", source: { type: "base64", media_type: "application/pdf", data: "JVBE" } },
          { type: "image", source: { type: "url", url: "https://i" } },
          { type: "search_result", title: "ST", source: "https://s", content: [{ type: "text", text: "SC" }] },
        ],
      },
      {
        role: "assistant",
        content: [
          { type: "thinking", thinking: "R", signature: "c2ln" },
          { type: "redacted_thinking", data: "ZGF0YQ" },
          { type: "text", text: "A", citations: [{ type: "page_location", cited_text: "Q", document_title: "DT" }] },
          { type: "tool_use", id: "i", name: "f", input: { a: "I1", b: [{ c: "I2" }], n: 1 } },
          { type: "web_search_tool_result", content: [{ type: "web_search_result", title: "W", url: "u" }] },
        ],
      },
      { role: "user", content: [{ type: "tool_result", tool_use_id: "i", content: "P1" }] },
      { role: "user", content: [{ type: "tool_result", content: [{ type: "text", text: "P2" }] }] },
      { role: "system", content: "S2" },
    ],
  };
  t.same(told(body, texts.request(body)), [
    ...[
      ["system", "S"],
      ["user", "U1"],
    ],
    ...["T", "C", "D", "B", "ST", "SC"].map((text) => ["user", text]),
    ...[
      ["reasoning", "R"],
      ["assistant", "A"],
      ["assistant", "Q"],
      ["assistant", "DT"],
    ],
    ...[
      ["tool_call", "I1"],
      ["tool_call", "I2"],
      ["tool_result", "W"],
      ["tool_result", "P1"],
      ["tool_result", "P2"],
    ],
    ["system", "S2"],
  ]);
  t.same(told({ system: "S" }, texts.request({ system: "S" })), [["system", "S"]]);
});

t.test("any value in place of content is tolerated", async (t) => {
  const odd = [null, 1, "x", [], {}, [[[]]], [null], { content: 1 }, [{ type: 1, content: {} }]];
  for (const value of odd) {
    const inside = question({ system: value, messages: [value, { role: "user", content: value }] });
    for (const body of [value, inside, { messages: value }, { type: "content_block_delta", delta: value }]) {
      for (const { path } of [...texts.request(body), ...texts.response(body)])
        t.type(valueAt(body, path), "string", JSON.stringify(body));
      if (body === inside)
        t.same([...opaque.find(inside), ...(opaque.consequences?.(inside, [], { model: "m", facts: {} }) ?? [])], []);
    }
  }
});

t.test("endlessly nested JSON takes no more than linear time", async (t) => {
  const deep = (levels: number): unknown =>
    JSON.parse(`${'{"text":"x","content":['.repeat(levels)}1${"]}".repeat(levels)}`);
  const body = question({ messages: [{ role: "user", content: [{ type: "tool_result", content: [deep(20_000)] }] }] });
  const found = [...texts.request(body)].length;
  t.ok(found > 100 && found < 1000, `${found} texts`);
});

const answers = recorded("anthropic").filter(({ status }) => status < 300);
const skip = answers.length === 0 && "the recordings are absent";
/** Two answers in one file. */
const SPLICED = "anthropic/vercel-ai__anthropic.anthropic-tool-search-deferred-regex.stream__0";

/** What the vendor's SDK adds a stream up to. */
async function accumulated(body: string): Promise<JsonObject> {
  const fetch = async () => new Response(body, { headers: { "content-type": "text/event-stream" } });
  const client = new Anthropic({ apiKey: "key", maxRetries: 0, fetch });
  const message = await client.messages.stream({ model: "m", max_tokens: 1, messages: [] }).finalMessage();
  return JSON.parse(JSON.stringify(message)) as JsonObject;
}

/** The texts of a message by their kind; those that a call was given as the strings of its arguments. */
function byKind(found: readonly (readonly [kind: string, text: string])[]): Record<string, string[]> {
  const kinds: Record<string, string[]> = {};
  for (const [kind, text] of found) {
    kinds[kind] ??= [];
    if (text !== "") kinds[kind].push(text);
  }
  for (const list of Object.values(kinds)) list.sort();
  return kinds;
}

/** The strings in JSON text. */
function stringsIn(text: string): string[] {
  const found: string[] = [];
  JSON.parse(text === "" ? "{}" : text, (_, value: unknown) => {
    if (typeof value === "string") found.push(value);
    return value;
  });
  return found;
}

t.test("the pieces of every recorded stream add up to the texts of the whole answer", { skip }, async (t) => {
  const streams = answers.filter(({ id, kinds }) => kinds.includes("stream") && id !== SPLICED);
  t.ok(streams.length > 100, `${streams.length} streams`);
  const different: string[] = [];
  for (const { id, body } of streams) {
    const message = await accumulated(body);
    // Where an answer was cut within a call, the SDK guesses at the rest.
    const cut = message["stop_reason"] === "max_tokens";
    const pieces = new Map<string, { kind: string; json: boolean; text: string }>();
    const whole: [kind: string, text: string][] = [];
    for (const frame of eventsIn(body)) {
      const json = frame.json();
      for (const { path, kind, piece, json: escaped } of texts.response(json)) {
        const text = String(valueAt(json, path));
        if (piece === undefined) whole.push([kind, text]);
        else {
          const known = pieces.get(piece) ?? { kind, json: escaped === true, text: "" };
          pieces.set(piece, { ...known, text: known.text + text });
        }
      }
    }
    const grown = [...pieces.values()].flatMap(({ kind, json, text }): [string, string][] =>
      json ? (cut ? [] : stringsIn(text)).map((each) => [kind, each]) : [[kind, text]],
    );
    const expected = (told(message, texts.response(message)) as [string, string][]).filter(
      ([kind]) => !cut || kind !== "tool_call",
    );
    if (!isDeepStrictEqual(byKind([...grown, ...whole]), byKind(expected))) different.push(id);
  }
  t.same(different, []);
});

/** The recorded requests, as JSON text, and those of a coding agent. */
const bodies = (): { id: string; text: string }[] => [
  { id: "a coding agent's", text: CLIENT_BODIES["anthropic-messages"].body },
  ...requests().map(({ id, body }) => ({ id, text: JSON.stringify(body, null, 1) })),
];

t.test("every text of a recorded request can be changed in place, and nothing else changes", async (t) => {
  const wrong: string[] = [];
  let count = 0;
  for (const { id, text } of bodies()) {
    const body = JSON.parse(text) as JsonObject;
    const places = [...texts.request(body)];
    count += places.length;
    const bytes = Buffer.from(text);
    const edits = pathEdits(bytes, { replace: places.map(({ path }) => [path, '"MASKED"'] as const) });
    const found = locatePaths(
      bytes,
      places.map(({ path }) => path),
    );
    const changed = Buffer.concat(splice([bytes], edits)).toString();
    const masked = JSON.parse(changed) as JsonObject;
    const fine = places.every(({ path }) => valueAt(masked, path) === "MASKED") && found.length === places.length;
    const back = pathEdits(Buffer.from(changed), {
      replace: places.map(({ path }) => [path, JSON.stringify(valueAt(body, path))] as const),
    });
    const again = JSON.parse(Buffer.concat(splice([Buffer.from(changed)], back)).toString()) as JsonObject;
    if (!fine || JSON.stringify(again) !== JSON.stringify(body)) wrong.push(id);
  }
  t.same(wrong, []);
  t.ok(count > 1, `${count} texts`);
});

/** A request without the state of another provider: its bytes, and why settings went with it. */
function without(text: string, foreign: (state: string) => boolean = () => true, model = "m") {
  const body = JSON.parse(text) as JsonObject;
  const gone = [...opaque.find(body)]
    .filter(({ path }) => foreign(String(valueAt(body, path))))
    .map(({ span }) => span);
  const more = [...(opaque.consequences?.(body, gone, { model, facts: {} }) ?? [])];
  const bytes = Buffer.from(text);
  const edits = pathEdits(bytes, {
    remove: [...gone, ...more.flatMap(({ path, json }) => (json === undefined ? [path] : []))],
    replace: more.flatMap(({ path, json }) => (json === undefined ? [] : [[path, json] as const])),
  });
  const left = Buffer.concat(splice([bytes], edits)).toString();
  return {
    left,
    gone,
    told: more.flatMap(({ path, why }) => (why === undefined ? [] : [`${path.join(".")}: ${why}`])),
  };
}

const state = (member: string, type: string) => `{ "type" : "${type}" , "${member}" : "gw1.state" }`;

t.test("thinking is removed with its state, and no other byte changes", async (t) => {
  const ask = (first: string, second: string) =>
    `{ "messages": [ {"role":"user","content":"Hi"} ,\n {"role":"assistant", "content":[ ${first}{"type":"tool_use","id":"a","name":"f",` +
    `"input":{"n": 1.0}}${second} ]} , {"role":"user","content":[{"type":"tool_result","tool_use_id":"a"}]}], "max_tokens":9007199254740993 }`;
  for (const block of [state("data", "redacted_thinking"), state("signature", "thinking")]) {
    t.equal(without(ask(`${block}, `, "")).left, ask("", ""));
    t.equal(without(ask("", ` ,${block}`)).left, ask("", ""));
    t.equal(without(ask(`${block}, ${block}, `, ` ,${block}`)).left, ask("", ""));
  }
});

t.test("citations and search results are removed with keys that the vendor did not make", async (t) => {
  const ask = (citations: string, results: string) =>
    `{"messages":[{"role":"user","content":"Hi"},{"role":"assistant","content":[ {"type":"text","text":"a","citations":[${citations}]},` +
    `{"type":"web_search_tool_result","tool_use_id":"s","content":[${results}]}]}]}`;
  const own = '{ "url":"https://a", "encrypted_index": "own" }';
  const result = (key: string) => `{ "type":"web_search_result", "encrypted_content" : "${key}"}`;
  const foreign = own.replace("own", "gw1.state");
  const isForeign = (key: string) => key.startsWith("gw1.");
  t.equal(without(ask(`${own},${foreign}`, result("own")), isForeign).left, ask(own, result("own")));
  t.equal(without(ask(foreign, "")).left, ask("", ""));
  t.equal(without(ask(own, result("own"))).left, ask("", ""), "where the vendor has refused them");
  const failed =
    '{"messages":[{"role":"assistant","content":[{"type":"web_search_tool_result","content":{"type":"error"}}]}]}';
  t.equal(without(failed).left, failed);
});

t.test("a message without remaining blocks is removed, one that had none stays", async (t) => {
  const turn = (role: string, ...blocks: string[]) => `{"role":"${role}","content":[${blocks.join(",")}]}`;
  const only = turn("assistant", state("data", "redacted_thinking"), state("signature", "thinking"));
  const ask = (...turns: string[]) => `{"messages":[${turns.join(",")}]}`;
  const user = turn("user", '{"type":"text","text":"Hi"}');
  t.equal(without(ask(user, only, user, turn("assistant"))).left, ask(user, user, turn("assistant")));
  t.equal(without(ask(only)).left, ask());
});

t.test("a thinking budget is removed with thinking that a tool loop would need, and this is reported", async (t) => {
  const ask = (thinking: string, thought: string, after = "") =>
    `{"messages":[{"role":"user","content":"Hi"},{"role":"assistant","content":[${thought}{"type":"tool_use","id":"a"}]},` +
    `{"role":"user","content":[{"type":"tool_result","tool_use_id":"a"}]}${after}]${thinking}}`;
  const enabled = ',"thinking":{"type":"enabled","budget_tokens":1024}';
  const foreign = `${state("signature", "thinking")},`;
  const lost = [/^thinking: no thinking: the thoughts before the last tool calls/];
  const note = ',{"role":"system","content":"A note."}';
  t.match(without(ask(enabled, foreign)), { left: ask("", ""), told: lost });
  t.match(without(ask(enabled, foreign, note)), { left: ask("", "", note), told: lost });
  const own = '{"type":"thinking","thinking":"Hm.","signature":"c2ln"},';
  const first = without(ask(enabled, own + foreign), (text) => text.startsWith("gw1."));
  t.match(first, { left: ask(enabled, own), told: { length: 0 } }, "the turn begins with the provider's own thinking");
  const adaptive = ',"thinking":{"type":"adaptive"}';
  t.match(
    without(ask(adaptive, foreign)),
    { left: ask(adaptive, ""), told: { length: 0 } },
    "which the vendor does not require",
  );
  const over = ',{"role":"assistant","content":[{"type":"text","text":"Ho"}]},{"role":"user","content":"So?"}';
  t.match(
    without(ask(enabled, foreign, over)),
    { left: ask(enabled, "", over), told: { length: 0 } },
    "the loop is over",
  );
});

t.test("models that refuse a turn without thinking get something in its place", async (t) => {
  const placed = '{"type":"thinking","thinking":".","signature":""}';
  const [call, own] = ['{"type":"tool_use","id":"a","input":{"n":1.0}}', '{"type":"thinking","thinking":"Hm."}'];
  const ask = (content: string, thinking = "enabled") =>
    `{"messages":[{"role":"user","content":"Hi"},{"role":"assistant","content":${content}}],"thinking":{"type":"${thinking}"}}`;
  const foreign = state("signature", "thinking");
  for (const model of ["deepseek-v4-pro", "kimi-k2.5", "kimi-for-coding"]) {
    const left = (content: string) => without(ask(content), undefined, model).left;
    t.equal(left(`[${foreign}, ${call}]`), ask(`[${placed}, ${call}]`), model);
    t.equal(left(`[${foreign},${foreign},${call}]`), ask(`[${placed},${call}]`));
    t.equal(left(`[ ${call},${foreign}]`), ask(`[${placed}, ${call}]`));
    t.equal(left(`[${own},${foreign},${call}]`), ask(`[${own},${call}]`));
    t.equal(left(`[${call}]`), ask(`[${placed},${call}]`), "a turn that had none");
    t.equal(left('"Ho"'), ask(`[${placed},{"type":"text","text":"Ho"}]`));
    t.equal(left('""'), ask('""'));
    t.equal(left(`[${foreign}]`), '{"messages":[{"role":"user","content":"Hi"}],"thinking":{"type":"enabled"}}');
    const off = ask(`[${foreign},${call}]`, "disabled");
    t.equal(without(off, undefined, model).left, ask(`[${call}]`, "disabled"), "it does not think");
  }
  t.equal(without(ask(`[${foreign},${call}]`), undefined, "glm-5").left, ask(`[${call}]`));
});

t.test("a turn without thinking is found before the request is parsed, and repaired", async (t) => {
  const [user, call] = [
    { role: "user", content: "thinking" },
    { type: "tool_use", id: "a" },
  ];
  const turn = (...content: object[]) => ({ role: "assistant", content });
  const thought = turn({ type: "thinking", thinking: "Hm.", signature: "" }, call);
  const target = (model: string, host: string) => ({ model, facts: {}, url: new URL(`https://${host}/anthropic`) });
  const mayLack = (messages: object[], model = "kimi-k2.5", thinking?: object, host = "api.moonshot.ai") =>
    opaque.lost?.mayBeIn(new Body([Buffer.from(JSON.stringify({ messages, thinking }))], "json"), target(model, host));
  for (const lacking of [
    [user, turn(call)],
    [user, turn(call), user, thought],
    [user, thought, user, turn(call), user],
  ]) {
    t.equal(mayLack(lacking), true);
    t.equal(mayLack(lacking, "glm-5"), false);
    t.equal(mayLack(lacking, "kimi-k2.5", { type: "disabled" }), false);
    t.equal(mayLack(lacking, "kimi-k2.5", undefined, "models.example"), false, "another server may do without");
    t.same([...(opaque.lost?.repairs({ messages: lacking }, target("kimi-k2.5", "models.example")) ?? [])], []);
    const index = lacking.findIndex((message) => "content" in message && message.content.length === 1);
    const repairs = [...(opaque.lost?.repairs({ messages: lacking }, target("kimi-k2.5", "api.moonshot.ai")) ?? [])];
    t.match(repairs, [{ path: ["messages", index, "content", -1], json: /thinking/ }]);
  }
  for (const fine of [[user], [user, thought], [user, thought, user, turn({ type: "redacted_thinking", data: "x" })]])
    t.equal(mayLack(fine), false);
});

t.test(
  "a thinking budget is removed where a tool loop lost its thinking before the gateway, and this is reported",
  async (t) => {
    const use = (id: string) => ({ type: "tool_use", id, name: "f", input: {} });
    const result = (id: string) => ({ role: "user", content: [{ type: "tool_result", tool_use_id: id }] });
    const answer = (...content: object[]) => ({ role: "assistant", content });
    const [user, said] = [
      { role: "user", content: "Hi" },
      { type: "text", text: "Let me look." },
    ];
    const [thought, hidden] = [
      { type: "thinking", thinking: "Hm.", signature: "c2ln" },
      { type: "redacted_thinking", data: "x" },
    ];
    const enabled = { type: "enabled", budget_tokens: 1024 };
    const repairs = (messages: object[], thinking: object | undefined = enabled, model = "claude-sonnet-4-5") =>
      [...(opaque.lost?.repairs({ messages, thinking }, { model, facts: {} }) ?? [])].map(({ path, json }) => [
        path,
        json,
      ]);
    const removed = [[["thinking"], undefined]];
    t.same(repairs([user, answer(said, use("a")), result("a")]), removed);
    t.same(repairs([user, answer(use("a")), result("a"), answer(said, use("b")), result("b")]), removed);
    t.same(repairs([user, answer(thought, said), user, answer(use("a")), result("a")]), removed, "an earlier turn's");
    t.same(repairs([user, answer(use("a")), result("a"), { role: "system", content: "A note." }]), removed);
    for (const [why, ...messages] of [
      ["it begins with thinking", user, answer(thought, use("a")), result("a")],
      ["or redacted thinking", user, answer(hidden, use("a")), result("a")],
      [
        "the model goes on without further thoughts",
        user,
        answer(thought, use("a")),
        result("a"),
        answer(use("b")),
        result("b"),
      ],
      ["the loop is over", user, answer(use("a")), result("a"), answer(said), user],
      ["no call", user, answer(said), user],
    ] as const)
      t.same(repairs(messages as object[]), [], why);
    const loop = [user, answer(use("a")), result("a")];
    t.same(repairs(loop, { type: "adaptive" }), [], "which the vendor does not require");
    t.same(repairs(loop, { type: "disabled" }), []);
    t.same(repairs(loop, enabled, "kimi-k2"), [], "an imitation may allow it");
    const mayLack = (body: object, model = "claude-sonnet-4-5") =>
      opaque.lost?.mayBeIn(new Body([Buffer.from(JSON.stringify(body))], "json"), { model, facts: {} });
    t.equal(mayLack({ messages: loop, thinking: enabled }), true);
    t.equal(mayLack({ messages: [user], thinking: enabled }), false, "which need not be parsed");
    const first = answer(thought, use("a"));
    t.equal(mayLack({ messages: [user, first, result("a")], thinking: enabled }), false, "thoughts are kept");
    t.equal(mayLack({ messages: loop }), false);
    t.equal(mayLack({ messages: loop, thinking: enabled }, "kimi-k2"), false);
  },
);

t.test("state in any place of a recorded request is found and removed without a trace", async (t) => {
  const wrong: string[] = [];
  let count = 0;
  for (const { id, text } of bodies()) {
    const messages = (JSON.parse(text) as JsonObject)["messages"] as { role: string; content: unknown }[];
    for (const [i, { role, content }] of messages.entries()) {
      if (role !== "assistant" || !Array.isArray(content)) continue;
      // Its own state stays; a block of another's is put before each of its blocks.
      for (const j of content.keys()) {
        const body = JSON.parse(text) as { messages: { content: unknown[] }[]; thinking?: unknown };
        body.messages[i]?.content.splice(j, 0, { type: "thinking", thinking: "Hm.", signature: "gw1.state" });
        const { left } = without(JSON.stringify(body), (each) => each.startsWith("gw1."));
        const expected = JSON.parse(text) as JsonObject;
        const kept = JSON.parse(left) as JsonObject;
        if (!("thinking" in kept)) delete expected["thinking"];
        if (left !== JSON.stringify({ ...expected })) wrong.push(`${id} ${i} ${j}`);
        count++;
      }
    }
  }
  t.same(wrong, []);
  t.ok(count > 0, `${count} places`);
});
