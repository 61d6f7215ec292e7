import t from "tap";
import openaiChat from "../../../../plugins/protocols/openai-chat/index.ts";
import type { Translation } from "../../../../src/translation/codec.ts";
import type { Conversation } from "../../../../src/translation/conversation.ts";
import type { Opaque } from "../../../../src/translation/events.ts";
import { ToolNames } from "../../../../src/translation/names.ts";
import { place, readable } from "../../../../src/translation/placing.ts";
import { dice } from "../../../support/random-answers.ts";
import { exactly, withUnheardOf } from "../unheard-of.ts";
import { asked, exchanges, seal, terms } from "./fixture.ts";
import { ODD } from "./request.odd.ts";

const { request } = openaiChat.translation as Translation;

type Json = Record<string, unknown>;

const read = (text: string): Conversation => request.decode(asked(text, { native: true }));
/** A request as it is written again for its own protocol. */
const again = (text: string): string => request.encode(read(text), { ...terms(), model: "m" }).body;

const VALUES: readonly unknown[] = ["x", "", 7, 0, null, true, false, [], {}, [{ a: [1] }], { b: { c: null } }];

/** The value with one of its members, anywhere, of another kind. */
function bent(value: Json, cast: (limit: number) => number): Json {
  const copy = structuredClone(value);
  const places: [owner: Json, name: string][] = [];
  const walk = (owner: unknown): void => {
    if (typeof owner !== "object" || owner === null) return;
    for (const [name, member] of Object.entries(owner)) {
      if (owner !== copy || (name !== "messages" && name !== "model")) places.push([owner as Json, name]);
      walk(member);
    }
  };
  walk(copy);
  const found = places[cast(places.length)];
  if (found) found[0][found[1]] = VALUES[cast(VALUES.length)];
  return copy;
}

const recorded = exchanges("openai-chat").flatMap(({ id, request: body }) =>
  body ? [[id, { ...body, model: "m" }] as const] : [],
);
const bodies = [
  ...ODD.map((body, n) => [`odd ${n}: ${JSON.stringify(body).slice(0, 300)}`, body] as const),
  ...recorded,
];

t.test("odd requests are written again as they came", async (t) => {
  for (const [name, body] of bodies) t.equal(exactly(again(JSON.stringify(body))), exactly(JSON.stringify(body)), name);
});

t.test("members that nobody knows stay where they are, at every level", async (t) => {
  for (const [n, [name, body]] of bodies.entries()) {
    const cast = dice(n);
    for (let i = 0; i < 3; i++) {
      const text = withUnheardOf(JSON.stringify(body), cast);
      t.equal(exactly(again(text)), exactly(text), name);
    }
  }
});

t.test("what cannot be read stays as it is: the vendor judges", async (t) => {
  for (const [n, [name, body]] of bodies.entries()) {
    const cast = dice(n);
    for (let i = 0; i < (n < ODD.length ? 40 : 3); i++) {
      const text = JSON.stringify(bent(body, cast));
      t.equal(exactly(again(text)), exactly(text), `${name} ${i}`);
    }
  }
});

t.test("what the vocabulary has words for is written from it", async (t) => {
  const worded =
    /^(?:n|seed|stop|store|temperature|tools|functions|top_[pk]|user|max_\w+|metadata|modalities|service_tier|verbosity)$/;
  for (const [id, body] of recorded) {
    const conversation = read(JSON.stringify(body));
    const { rest } = conversation.native as { rest: Json };
    t.same(
      Object.keys(rest).filter((name) => worded.test(name) && rest[name] !== null),
      [],
      id,
    );
    t.notOk(
      conversation.turns.some(({ parts }) => parts.some(({ kind }) => kind === "foreign")),
      id,
    );
  }
});

const state: Opaque = { protocol: "gemini", account: "other", kind: "thoughtSignature", data: "sig" };
const details = [{ type: "reasoning.text", text: "so", signature: seal(state), format: "gw1", index: 0 }];

/** A request of an account that cannot read what another provider made. */
function cleaned(messages: readonly unknown[]): unknown {
  const conversation = read(JSON.stringify({ model: "m", messages }));
  place(conversation);
  const left = readable(conversation, { protocol: "openai-chat", account: "acme" }, () => undefined);
  const { body } = request.encode(left, { ...terms(), names: new ToolNames() });
  return (JSON.parse(body) as { messages: unknown }).messages;
}

t.test("another provider's state goes, and what stands beside it stays", async (t) => {
  const call = { id: "a", function: { name: "one", arguments: "{}", more: 1 }, odd: [1] };
  const google = { thought_signature: seal({ ...state, on: { call: "a" } }), more: 2 };
  t.same(
    cleaned([
      { role: "assistant", reasoning_details: details, tool_calls: [{ ...call, extra_content: { google, acme: 3 } }] },
      { role: "tool", tool_call_id: "a", content: [{ type: "new", a: 1 }], status: "ok" },
    ]),
    [
      { role: "assistant", tool_calls: [{ ...call, extra_content: { google: { more: 2 }, acme: 3 } }] },
      { role: "tool", tool_call_id: "a", content: [{ type: "new", a: 1 }], status: "ok" },
    ],
  );
});

t.test("state of the same account is the vendor's own again", async (t) => {
  const vendors = { google: { thought_signature: "own" } };
  const own: Opaque = {
    protocol: "openai-chat",
    account: "acme",
    kind: "extra_content",
    data: JSON.stringify(vendors),
  };
  const google = { thought_signature: seal({ ...own, on: { call: "a" } }) };
  const call = { id: "a", type: "function", function: { name: "one", arguments: "{}" } };
  t.same(
    cleaned([{ role: "assistant", content: null, tool_calls: [{ ...call, extra_content: { google, acme: 3 } }] }]),
    [{ role: "assistant", content: null, tool_calls: [{ ...call, extra_content: { ...vendors, acme: 3 } }] }],
  );
});
