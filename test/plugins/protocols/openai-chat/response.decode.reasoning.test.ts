import t from "tap";
import openaiChat from "../../../../plugins/protocols/openai-chat/index.ts";
import type { Translation } from "../../../../src/translation/codec.ts";
import type { Event } from "../../../../src/translation/events.ts";
import { runAtOnce } from "../../../../src/translation/steps.ts";
import { runLinear } from "../../../support/linear-work.ts";
import { chunk, context, frameOf, only, source, streamed, written } from "./fixture.ts";

const readDeltas = (...deltas: object[]): Event[] =>
  streamed(
    openaiChat.translation as Translation,
    [...deltas.map((delta) => chunk(delta)), chunk({}, "stop")].map(frameOf),
  );

t.test(
  "entries that repeat the streamed reasoning at the end are state without text, however they are cut",
  async (t) => {
    const entry = (index: number, more: object) => ({ type: "reasoning.text", index, ...more });
    const plain = ["think ", "hard", "\n\nagain"].map((text) => ({ reasoning_content: text }));
    const first = entry(0, { text: "think hard", signature: "s0" });
    const second = entry(1, { text: "again", signature: "s1" });
    const pieces = ["th", "ink hard"].map((text) => ({ reasoning_details: [entry(0, { text })] }));
    const together = [{ reasoning_details: [first, second] }];
    const apart = [...pieces, { reasoning_details: [entry(0, { signature: "s0" })] }, { reasoning_details: [second] }];
    for (const details of [together, apart])
      for (const between of [[], [{ content: "a" }]]) {
        const events = readDeltas(...plain, ...between, ...details, { content: "b" });
        const texts = only(events, "text").map(({ text }) => text);
        t.same(texts, ["think ", "hard", "\n\nagain", ...(between.length > 0 ? ["a"] : []), "b"]);
        const states = only(events, "opaque").map(({ opaque }) => opaque.data);
        t.equal(states.shift(), "think hard\n\nagain");
        t.same(
          states.map((state) => JSON.parse(state)),
          [first, second],
        );
      }
    // Text that goes on differently is another one.
    for (const cut of [["think twice"], ["think ", "twi", "ce"]]) {
      const events = readDeltas(...plain, ...cut.map((text) => ({ reasoning_details: [entry(0, { text })] })));
      const [, last] = only(events, "open").map(({ block }) => block);
      const texts = only(events, "text").flatMap(({ block, text }) => (block === last ? [text] : []));
      t.equal(texts.join(""), "think twice");
    }
  },
);

t.test("reasoning that entries repeat in very many pieces is compared in linear time", async (t) => {
  const count = 100_000;
  const many = (delta: object) => Array.from({ length: count }, () => frameOf(chunk(delta)));
  const frames = [
    ...many({ reasoning: "hmm" }),
    ...many({ reasoning_details: [{ type: "reasoning.text", index: 0, text: "hmm" }] }),
    frameOf(chunk({}, "stop")),
  ];
  runLinear(() => {
    const events = streamed(openaiChat.translation as Translation, frames);
    t.equal(only(events, "text").length, count);
    t.match(events.at(-1), { type: "end" });
  });
});

const said = (events: readonly Event[]): string =>
  only(events, "text")
    .map(({ text }) => text)
    .join("|");

t.test("an entry with the text of the open block is that block's state", async (t) => {
  const entry = { type: "reasoning.text", index: 0, text: "think hard", format: "x" };
  for (const member of ["reasoning", "reasoning_content"])
    for (const details of [
      [{ reasoning_details: [{ ...entry, signature: "s" }] }],
      [{ reasoning_details: [entry] }, { reasoning_details: [{ type: "reasoning.text", index: 0, signature: "s" }] }],
    ]) {
      const events = readDeltas({ [member]: "think " }, { [member]: "hard" }, ...details, { content: "b" });
      t.equal(said(events), "think |hard|b");
      t.match(only(events, "open"), [{ kind: "reasoning" }, { kind: "text" }]);
      const [state, ...more] = only(events, "opaque");
      t.same(more, []);
      t.match(state, { block: 0, opaque: { kind: "reasoning_details" } });
      t.same(JSON.parse(state?.opaque.data ?? ""), { ...entry, signature: "s" });
    }
});

t.test("OpenRouter's deltas, which have each text as reasoning and as an entry, are read once", async (t) => {
  const entry = (more: object) => ({ type: "reasoning.text", index: 0, format: "anthropic-claude-v1", ...more });
  const both = (text: string) => ({ content: "", reasoning: text, reasoning_details: [entry({ text })] });
  const events = readDeltas(
    both("think "),
    both("think "),
    both("hard"),
    { content: "", reasoning: null, reasoning_details: [entry({ signature: "s" })] },
    { content: "b", reasoning: null, reasoning_details: [] },
  );
  t.equal(said(events), "think |think |hard|b");
  const [state, ...more] = only(events, "opaque");
  t.same(more, []);
  t.same(JSON.parse(state?.opaque.data ?? ""), entry({ signature: "s", text: "think think hard" }));
});

t.test("reasoning that this gateway wrote as Chat is read once, with its state, streamed or whole", async (t) => {
  const translation = openaiChat.translation as Translation;
  const whole = "think hard";
  const opaque = { protocol: "anthropic-messages", kind: "signature", data: "sig" };
  const answer = (pieces: readonly string[], summary: boolean): Event[] => [
    { type: "start", id: "r", model: "m" },
    { type: "open", block: 0, choice: 0, kind: "reasoning", ...(summary && { summary }) },
    ...pieces.map((text): Event => ({ type: "text", block: 0, text })),
    { type: "opaque", block: 0, opaque },
    { type: "close", block: 0 },
    { type: "open", block: 1, choice: 0, kind: "text" },
    { type: "text", block: 1, text: "b" },
    { type: "close", block: 1 },
    { type: "finish", choice: 0, reason: "stop", raw: "stop" },
    { type: "end" },
  ];
  for (const summary of [false, true])
    for (const stream of [false, true])
      for (let cut = 0; cut < whole.length; cut++) {
        const pieces = [whole.slice(0, cut), whole.slice(cut)].filter((text) => text !== "");
        const told = answer(pieces, summary);
        const frames = () => written(translation, told).map(({ data }) => frameOf(String(data)));
        const events = stream
          ? streamed(translation, frames())
          : runAtOnce(
              translation.response.decode(Buffer.from(runAtOnce(translation.response.encode(told, context()))), source),
            );
        t.equal(said(events).replaceAll("|", ""), `${whole}b`, `${stream ? "streamed" : "whole"}, cut at ${cut}`);
        const states = only(events, "opaque").map(({ opaque: { data } }) => data);
        const signed = states.filter((data) => data.includes("gw1."));
        t.equal(signed.length, 1, "its state is kept");
      }
});
