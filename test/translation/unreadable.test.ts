import t from "tap";
import type { TranslatedProtocol } from "../../src/translation/codec.ts";
import { Envelopes } from "../../src/translation/envelope.ts";
import type { Opaque } from "../../src/translation/events.ts";
import { removeUnreadable } from "../../src/translation/unreadable.ts";
import type { JsonPath } from "../../src/wire/paths.ts";
import { splice } from "../../src/wire/splice.ts";
import { tiny } from "../support/tiny.ts";

const envelopes = new Envelopes("a secret of this test");
const seal = (more: Partial<Opaque> = {}): string =>
  envelopes.seal({ protocol: "tiny", account: "them", kind: "signature", data: "raw=", ...more });

const instead = ({ kind, data }: Opaque) => (kind === "summary" ? JSON.stringify(data) : undefined);

/** A protocol whose blocks may bear a state, and that wants a first block with `thinking`. */
const protocol: TranslatedProtocol = {
  ...tiny,
  translation: {
    ...tiny.translation,
    request: {
      ...tiny.translation.request,
      opaque: {
        find: ({ blocks }) =>
          (blocks as { state?: string; part?: boolean; url?: string }[]).flatMap(({ state, part, url }, i) =>
            state === undefined
              ? []
              : [
                  {
                    path: ["blocks", i, "state"],
                    span: part ? ["blocks", i, "state"] : ["blocks", i],
                    isFound: url !== undefined,
                    replacement: instead,
                  },
                ],
          ),
        consequences: (_body, gone: readonly JsonPath[], { facts }) =>
          gone.length > 1 || facts.thinking === "budget" ? [{ path: ["thinking"], why: "there is no state" }] : [],
      },
    },
  },
};

function sent(text: string, strict = false, thinking?: "budget") {
  const to = { protocol, account: "them", model: "m", facts: thinking ? { thinking } : {} };
  const { edits, losses } = removeUnreadable(Buffer.from(text), JSON.parse(text), envelopes, to, strict);
  const left = Buffer.concat(splice([Buffer.from(text)], edits)).toString();
  return { left, dropped: losses.dropped, notices: losses.notices };
}

t.test("the provider's own state is returned raw, in its place", async (t) => {
  const { left, notices } = sent(`{ "blocks" : [{"state" : "${seal()}" , "n":1.0}] }`);
  t.equal(left, '{ "blocks" : [{"state" : "raw=" , "n":1.0}] }');
  t.same(notices, []);
});

t.test(
  "state of another account or protocol is removed with what cannot stay without it, and all other bytes stay",
  async (t) => {
    for (const foreign of [seal({ account: "others" }), seal({ protocol: "other" })]) {
      const { left, notices } = sent(
        `{"blocks":[ {"n":1.0},{"state":"${foreign}"}, {"n": 12345678901234567890} ],"x":1}`,
      );
      t.equal(left, '{"blocks":[ {"n":1.0},{"n": 12345678901234567890} ],"x":1}');
      t.match(notices, [/Reasoning that another provider made/]);
    }
  },
);

t.test("a part that can stay without its state stays", async (t) => {
  t.equal(
    sent(`{"blocks":[{"part":true,"state":"${seal({ account: "others" })}"}]}`).left,
    '{"blocks":[{"part":true}]}',
  );
});

t.test("reasoning that never had a state loses the mark of its origin", async (t) => {
  t.equal(sent(`{"blocks":[{"state":"${seal({ kind: "unsigned", data: "" })}","n":1}]}`).left, '{"blocks":[{"n":1}]}');
});

t.test("plain text replaces a state that any provider may read", async (t) => {
  const summary = seal({ protocol: "gateway", kind: "summary", data: 'a "word"' });
  const { left, notices } = sent(`{"blocks":[ {"state":"${summary}", "n":1},{} ]}`, true);
  t.equal(left, '{"blocks":[ "a \\"word\\"",{} ]}');
  t.same(notices, []);
});

t.test("a setting that requires what was removed is removed too, and the client is notified", async (t) => {
  const text = `{"thinking":{"tokens":9},"blocks":[{"state":"${seal({ account: "others" })}"}]}`;
  t.match(sent(text, false, "budget"), {
    left: '{"blocks":[]}',
    notices: [/^Reasoning/, /^thinking: there is no state/],
  });
  t.equal(sent(text).left, '{"thinking":{"tokens":9},"blocks":[]}');
});

t.test("a loss is a refusal where nothing may be lost", async (t) => {
  const foreign = seal({ account: "others" });
  t.throws(() => sent(`{"blocks":[{"state":"${foreign}"}]}`, true), {
    code: "not_translatable",
    message: /^blocks\.0/,
  });
  t.doesNotThrow(() => sent(`{"blocks":[{"state":"${seal()}"}]}`, true));
});

t.test("the notices for reasoning and for what a search found differ", async (t) => {
  const foreign = seal({ account: "others" });
  const text = `{"blocks":[{"state":"${foreign}"},{"url":"a","state":"${foreign}"},{"url":"b","state":"${foreign}"}]}`;
  t.match(sent(text).notices, [
    /^Reasoning that/,
    /^What another provider's search has found was left out/,
    /^thinking/,
  ]);
  t.throws(() => sent(`{"blocks":[{"url":"a","state":"${foreign}"}]}`, true), {
    message: /^blocks\.0: What another provider's search has found can be read only by that provider/,
  });
});

t.test("strings that are not envelopes are left to the provider, and forged ones are refused", async (t) => {
  t.equal(sent('{"blocks":[{"state":"c2ln"}]}').left, '{"blocks":[{"state":"c2ln"}]}');
  t.throws(() => sent('{"blocks":[{"state":"gw1stateAAAA"}]}'), { code: "invalid_field" });
});
