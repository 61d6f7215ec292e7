/** Requests in the provider's own protocol, of conversations that providers of other protocols had a part in. */

import t from "tap";
import { type Facts } from "../../src/core/marketplace.ts";
import { type TranslatedProtocol } from "../../src/translation/codec.ts";
import { Envelopes } from "../../src/translation/envelope.ts";
import type { Opaque } from "../../src/translation/events.ts";
import { removeUnreadable } from "../../src/translation/unreadable.ts";
import { splice } from "../../src/wire/splice.ts";
import { type JsonObject } from "../../src/wire/values.ts";
import { SPOKEN } from "../support/translations.ts";
import type { ProtocolName } from "../support/vendor-sdks.ts";
import { at } from "./sharp-cases.ts";

const envelopes = new Envelopes("a secret of this test");
const sealed = (protocol: ProtocolName, more: Partial<Opaque> = {}): string =>
  envelopes.seal({ protocol, account: "them", kind: "signature", data: "c2ln", ...more });

function cleaned(
  name: ProtocolName,
  body: JsonObject,
  { facts = {}, strict = false }: { facts?: Facts; strict?: boolean },
) {
  const text = Buffer.from(JSON.stringify(body));
  const to = { protocol: SPOKEN[name] as TranslatedProtocol, account: "them", model: "theirs", facts };
  const { edits, losses } = removeUnreadable(text, body, envelopes, to, strict);
  const left = JSON.parse(Buffer.concat(splice([text], edits)).toString()) as JsonObject;
  return { body: left, dropped: losses.dropped, notices: losses.notices };
}

/** A loop of calls at Claude, with a first block of the assistant's. */
const loop = (state: JsonObject | undefined, thinking: JsonObject, ...after: JsonObject[]): JsonObject => ({
  model: "theirs",
  max_tokens: 4000,
  messages: [
    { role: "user", content: "Hi" },
    { role: "assistant", content: [...(state ? [state] : []), { type: "tool_use", id: "c1", name: "f", input: {} }] },
    { role: "user", content: [{ type: "tool_result", tool_use_id: "c1", content: "ok" }] },
    ...after,
  ],
  thinking,
});
const onCall = { type: "redacted_thinking", data: sealed("gemini", { on: { call: "c1" } }) };
const enabled = { type: "enabled", budget_tokens: 1024 };
const THOUGHTLESS = /^thinking: no thinking: the thoughts before the last tool calls/;

t.test(
  "thinking with a token budget is dropped with another provider's reasoning that it would need, and this is declared",
  async (t) => {
    for (const after of [[], [{ role: "system", content: "A note." }]]) {
      const asked = loop(onCall, enabled, ...after);
      const { body, dropped, notices } = cleaned("anthropic-messages", asked, {});
      t.same({ thinking: enabled, ...body }, loop(undefined, enabled, ...after));
      t.notOk("thinking" in body);
      t.match(
        { dropped, notices },
        { dropped: { length: 0 }, notices: [/Reasoning that another provider made/, THOUGHTLESS] },
      );
      t.throws(() => cleaned("anthropic-messages", asked, { strict: true }), {
        code: "not_translatable",
        param: "messages.1.content.0",
      });
    }
    const adaptive = cleaned("anthropic-messages", loop(onCall, { type: "adaptive" }), {});
    t.same(adaptive.body, loop(undefined, { type: "adaptive" }), "which the vendor does not require");
  },
);

t.test(
  "nothing changes where the provider's own state is returned, or where the reasoning was lost before the gateway",
  async (t) => {
    const own = { type: "redacted_thinking", data: sealed("anthropic-messages", { kind: "redacted" }) };
    for (const [sent, expected] of [
      [own, { ...own, data: "c2ln" }],
      [undefined, undefined],
    ]) {
      const { body, notices } = cleaned("anthropic-messages", loop(sent, enabled), { strict: true });
      t.same(body, loop(expected, enabled));
      t.same(notices, []);
    }
  },
);

/** A loop of calls at Gemini, with a first part of the model's. */
const turns = (first: JsonObject | undefined, more: JsonObject = {}): JsonObject => ({
  contents: [
    { role: "user", parts: [{ text: "Hi" }] },
    { role: "model", parts: [...(first ? [first] : []), { functionCall: { id: "c1", name: "f", args: {} }, ...more }] },
    { role: "user", parts: [{ functionResponse: { id: "c1", name: "f", response: { output: "ok" } } }] },
  ],
});
const SIGNATURE = "contents.1.parts.0.thoughtSignature";
const BYPASS = "skip_thought_signature_validator";

t.test("a call of another provider's carries the bypass signature where the model requires a signature", async (t) => {
  const thought = { text: "Hm.", thought: true, thoughtSignature: sealed("anthropic-messages") };
  const onTheCall = { thoughtSignature: sealed("anthropic-messages") };
  for (const asked of [turns(thought), turns(undefined, onTheCall)]) {
    const { body, notices } = cleaned("gemini", asked, { facts: { thinking: "level" } });
    t.same(body, turns(undefined, { thoughtSignature: BYPASS }));
    t.match(notices, [
      /Reasoning that another provider made/,
      /^contents\.1\.parts\.\d\.thoughtSignature: the call has no thought/,
    ]);
    t.throws(() => cleaned("gemini", asked, { strict: true }), { code: "not_translatable", param: /^contents\.1/ });
    t.same(cleaned("gemini", asked, { facts: { thinking: "budget" } }).body, turns(undefined), "no model requires it");
  }
});

t.test("a call keeps its signature where the request contains nothing of other providers", async (t) => {
  for (const [sent, expected] of [
    [sealed("gemini"), "c2ln"],
    ["ZnJvbSBHb29nbGU=", "ZnJvbSBHb29nbGU="],
    [BYPASS, BYPASS],
    [undefined, undefined],
  ]) {
    const asked = turns(undefined, sent === undefined ? {} : { thoughtSignature: sent });
    const { body, notices } = cleaned("gemini", asked, { strict: true });
    t.equal(at(body, SIGNATURE), expected);
    t.same(notices, []);
  }
});
