import t from "tap";
import { type TranslatedProtocol } from "../../src/translation/codec.ts";
import type { Turn } from "../../src/translation/conversation.ts";
import { Envelopes } from "../../src/translation/envelope.ts";
import type { Opaque } from "../../src/translation/events.ts";
import { type ClientRequest, readRequest, writeRequest } from "../../src/translation/request.ts";
import { COUNT, SAY, tiny } from "../support/tiny.ts";

const envelopes = new Envelopes("a secret of the tests");
const received = (body: object): ClientRequest => ({
  protocol: tiny,
  operation: SAY,
  streaming: false,
  text: JSON.stringify(body),
  caller: "",
});
/** The tiny protocol, which tells what it is given and changes nothing. */
const quiet: TranslatedProtocol = {
  ...tiny,
  translation: {
    ...tiny.translation,
    request: {
      ...tiny.translation.request,
      *encode({ turns }, { facts }) {
        yield;
        return { operation: SAY, body: JSON.stringify({ facts, turns: turns.map(({ parts }) => parts) }) };
      },
    },
  },
};
/** The tiny protocol with another translation. */
const asClient = (translation: TranslatedProtocol["translation"]): TranslatedProtocol => ({ ...tiny, translation });
const to = { protocol: tiny, account: "one", model: "vendor-model", facts: { sampling: false } };

t.test("a request is decoded, checked and encoded, with its losses", async (t) => {
  const conversation = readRequest(received({ say: "hi", seed: 1 }), envelopes);
  const { encoded, losses } = writeRequest(conversation, to, false);
  t.match(JSON.parse(encoded.body), {
    model: "vendor-model",
    facts: { sampling: false },
    turns: [[{ kind: "text", text: "hi" }]],
  });
  t.same(losses.dropped, ["seed"]);
  t.same(losses.notices, ["say: whispered"]);
});

t.test("an envelope is opened and sent only to the account it came from", async (t) => {
  const state = envelopes.seal({ protocol: "tiny", account: "one", kind: "own", data: "x" });
  const conversation = readRequest(received({ say: "hi", state }), envelopes);
  const turns = (account: string) => {
    const { encoded, losses } = writeRequest(conversation, { ...to, account }, false);
    return { turns: (JSON.parse(encoded.body) as { turns: { kind: string }[][] }).turns, notices: losses.notices };
  };
  t.match(turns("one"), { turns: [[{ opaque: { data: "x" } }], [{}]], notices: ["say: whispered"] });
  const { turns: left, notices } = turns("two");
  t.equal(left.length, 1);
  t.match(notices, [/Reasoning that another provider made/, "say: whispered"]);
  t.throws(() => writeRequest(conversation, { ...to, account: "two" }, true), {
    code: "not_translatable",
    param: "state",
    message: /^state: Reasoning that another provider made can be read only by that provider/,
  });
});

t.test("state stored here for a call is no loss of the client's, also in strict mode", async (t) => {
  const keeping = new Envelopes("a secret of the tests");
  keeping.remember("key", "a", { protocol: "tiny", account: "one", kind: "own", data: "x" });
  const { decode } = quiet.translation.request;
  const recalling: TranslatedProtocol["translation"]["request"]["decode"] = function* (asked) {
    const conversation = yield* decode(asked);
    const opaque = asked.recall("a");
    const part = { kind: "reasoning" as const, at: "kept", ...(opaque && { opaque }) };
    return { ...conversation, turns: [{ role: "assistant", at: "kept", parts: [part] }, ...conversation.turns] };
  };
  const request = { ...quiet.translation.request, decode: recalling };
  const asked = {
    ...received({ say: "hi" }),
    protocol: { ...quiet, translation: { ...quiet.translation, request } },
    caller: "key",
  };
  const { encoded, losses } = writeRequest(
    readRequest(asked, keeping),
    { ...to, protocol: quiet, account: "two" },
    true,
  );
  t.equal((JSON.parse(encoded.body) as { turns: unknown[] }).turns.length, 1);
  t.match(losses.notices, [/Reasoning that another provider made/]);
});

t.test("an image without the signature of another provider causes no notice, except in strict mode", async (t) => {
  const { decode } = quiet.translation.request;
  const drawn = (recalled?: true) => {
    const opaque: Opaque = {
      protocol: "tiny",
      account: "one",
      kind: "own",
      data: "x",
      ...(recalled && { recalled }),
    };
    const media = { kind: "media", media: "image", source: { base64: "iVBO" }, mime: "image/png" } as const;
    const turn: Turn = { role: "assistant", at: "drawn", parts: [{ ...media, at: "drawn.0", opaque }] };
    const request: TranslatedProtocol["translation"]["request"] = {
      ...quiet.translation.request,
      assistantMedia: true,
      *decode(asked) {
        const decoded = yield* decode(asked);
        return { ...decoded, turns: [turn, ...decoded.turns] };
      },
    };
    const protocol: TranslatedProtocol = { ...quiet, translation: { ...quiet.translation, request } };
    const conversation = readRequest({ ...received({ say: "hi" }), protocol }, envelopes);
    return (strict: boolean) => {
      const { encoded, losses } = writeRequest(conversation, { ...to, protocol, account: "two" }, strict);
      const { turns } = JSON.parse(encoded.body) as { turns: { kind: string; opaque?: object }[][] };
      t.match(turns[0], [{ kind: "media", opaque: undefined }]);
      return losses.notices;
    };
  };
  t.same(drawn()(false), []);
  t.same(drawn(true)(true), [], "what was stored here is no loss");
  t.throws(() => drawn()(true), { code: "not_translatable", param: "drawn.0", message: /: The signature that/ });
});

t.test("an opaque string that is not an envelope is the client's own protocol's", async (t) => {
  const { turns } = readRequest(received({ say: "hi", state: "native" }), envelopes);
  t.match(turns[0]?.parts[0], { opaque: { protocol: "tiny", kind: "own", data: "native", account: undefined } });
});

t.test("a forged envelope is a 400", async (t) => {
  t.throws(() => readRequest(received({ say: "hi", state: "gw1stateforged" }), envelopes), {
    code: "invalid_field",
    status: 400,
  });
});

t.test("losses are refused in strict mode", async (t) => {
  const conversation = readRequest(received({ say: "hi", seed: 1 }), envelopes);
  t.throws(() => writeRequest(conversation, to, true), { code: "not_translatable", param: "seed" });
});

t.test("changes made by the decoder are declared, and refused in strict mode", async (t) => {
  const conversation = { ...readRequest(received({ say: "hi" }), envelopes), changed: [{ path: "say", why: "sung" }] };
  t.match(writeRequest(conversation, to, false).losses.notices, ["say: sung"]);
  t.throws(() => writeRequest(conversation, to, true), { code: "not_translatable", param: "say", message: /sung/ });
});

t.test("what does not change a prompt's tokens is no loss where they are only counted", async (t) => {
  const conversation = readRequest({ ...received({ say: "hi", seed: 1 }), operation: COUNT }, envelopes);
  t.same(writeRequest(conversation, to, false).losses.dropped, []);
});

t.test("an output limit is lowered to the model's maximum, and that is declared", async (t) => {
  const longest = (
    maxTokens: number | undefined,
    output: number | undefined,
    task: "generate" | "count" = "generate",
  ) => {
    let asked: number | undefined;
    const encode: TranslatedProtocol["translation"]["request"]["encode"] = function* (conversation) {
      yield;
      asked = conversation.maxTokens;
      return { operation: SAY, body: "{}" };
    };
    const request = { ...tiny.translation.request, encode };
    const protocol = { ...tiny, translation: { ...tiny.translation, request } };
    const conversation = { ...readRequest(received({ say: "hi" }), envelopes), task };
    if (maxTokens !== undefined)
      Object.assign(conversation, { maxTokens, uses: [{ feature: "max_tokens", path: "my.max" }] });
    const facts = output === undefined ? {} : { output };
    const { losses } = writeRequest(conversation, { ...to, protocol, facts }, false);
    return { asked, notices: losses.notices };
  };
  t.same(longest(64_000, 8192), { asked: 8192, notices: ["my.max: the model's answers are at most 8192 tokens long"] });
  t.same(longest(8192, 8192), { asked: 8192, notices: [] });
  t.same(longest(undefined, 8192), { asked: undefined, notices: [] });
  t.same(longest(64_000, undefined), { asked: 64_000, notices: [] });
  t.same(longest(64_000, 8192, "count"), { asked: 64_000, notices: [] });
});

t.test("a body that turns out to be invalid JSON is the client's fault", async (t) => {
  const text = `{"say":"${"x".repeat(300)}\n"}`;
  t.throws(() => readRequest({ ...received({}), text }, envelopes), { code: "invalid_json", status: 400 });
});

t.test("a call without a result is a 400, except where tokens are only counted", async (t) => {
  const call = { kind: "tool_call", id: "a", name: "f", arguments: "", at: "calls.0" } as const;
  const translation: TranslatedProtocol["translation"] = {
    ...tiny.translation,
    request: {
      ...tiny.translation.request,
      *decode(asked) {
        const decoded = yield* tiny.translation.request.decode(asked);
        return { ...decoded, turns: [{ role: "assistant", at: "calls", parts: [call] }] };
      },
    },
  };
  t.throws(() => readRequest({ ...received({ say: "" }), protocol: asClient(translation) }, envelopes), {
    code: "invalid_field",
    message: /^calls\.0/,
  });
  t.doesNotThrow(() =>
    readRequest({ ...received({ say: "" }), protocol: asClient(translation), operation: COUNT }, envelopes),
  );
});

t.test("a result whose call a vendor stores is checked with that", async (t) => {
  const translation: TranslatedProtocol["translation"] = {
    ...tiny.translation,
    request: {
      ...tiny.translation.request,
      *decode(asked) {
        const decoded = yield* tiny.translation.request.decode(asked);
        return {
          ...decoded,
          turns: [{ role: "user", at: "m", parts: [{ kind: "tool_result", callId: "a", parts: [], at: "m.0" }] }],
          uses: [{ feature: "stored_state", path: "previous" }],
        };
      },
    },
  };
  t.doesNotThrow(() => readRequest({ ...received({ say: "" }), protocol: asClient(translation) }, envelopes));
});
