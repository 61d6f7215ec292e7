import t from "tap";
import { encode } from "../../../../plugins/protocols/openai-responses/response.encode.ts";
import type { Event, FinishReason } from "../../../../src/translation/events.ts";
import { type JsonObject } from "../../../../src/wire/values.ts";
import { accumulated, answer, args, bodyOf, outputOf, text, valuesOf, wishing, written } from "./answers.ts";

const asking = () => wishing({ input: [{ role: "user", content: "Hi" }, { type: "compaction_trigger" }] });
const summary = (reason?: FinishReason): Event[] =>
  answer([[{ kind: "text" }, text("They "), text("said hi.")]], reason);

t.test("an answer becomes exactly one item, whose envelope holds its text", async (t) => {
  const events = answer([
    [{ kind: "reasoning" }, text("Hm.")],
    [{ kind: "text" }, text("They "), text("said hi.")],
    [{ kind: "server", name: "search", result: false }],
    [{ kind: "text" }, text("")],
    [{ kind: "text" }, text("And bye.")],
  ]);
  const told = asking();
  const frames = written(events, told);
  const item = {
    id: "cmp_up-1_0",
    type: "compaction",
    encrypted_content: "gw1.summary.They said hi.\n\nAnd bye..",
  };
  t.same(
    valuesOf(frames).map(({ type, item }) => [type, item]),
    [
      ["response.created", undefined],
      ["response.in_progress", undefined],
      ["response.output_item.added", { ...item, encrypted_content: "" }],
      ["response.output_item.done", item],
      ["response.completed", undefined],
    ],
  );
  t.same(outputOf(frames), [item]);
  t.same(told.lost, ["output.reasoning", "output.server"]);
});

t.test("streamed and whole are the same to the vendor's SDK", async (t) => {
  const whole = JSON.parse(encode(summary(), asking().context)) as JsonObject;
  t.same(await accumulated(bodyOf(written(summary(), asking()))), whole);
  t.match(whole, { status: "completed", output: [{ type: "compaction" }], usage: { total_tokens: 16 } });
});

t.test("a summary that was cut is told as incomplete", async (t) => {
  const cut = valuesOf(written(summary("length"), asking())).at(-1);
  t.match(cut, {
    type: "response.incomplete",
    response: { incomplete_details: { reason: "max_output_tokens" }, output: [{ type: "compaction" }] },
  });
  const reasons = { length: "max_output_tokens", content_filter: "content_filter", refusal: "content_filter" };
  for (const [reason, told] of Object.entries(reasons)) {
    const none = answer([[{ kind: "reasoning" }, text("Hm.")]], reason as FinishReason);
    t.match(
      valuesOf(written(none, asking())).at(-1),
      { type: "response.incomplete", response: { incomplete_details: { reason: told }, output: [] } },
      `${reason}, before there was a word of it`,
    );
  }
});

t.test("an answer without a summary is an error, never an empty compaction", async (t) => {
  const call = { kind: "tool_call", id: "call_1", name: "find" } as const;
  const empty: Record<string, Event[]> = {
    nothing: answer([]),
    "white space": answer([[{ kind: "text" }, text(" \n")]]),
    "thoughts alone": answer([[{ kind: "reasoning" }, text("Hm.")]]),
    "a refusal": answer([[{ kind: "refusal" }, text("No.")]]),
    "a call": answer([[call, args("{}")]], "tool_calls"),
    "a call behind a text": answer(
      [
        [{ kind: "text" }, text("Let me look.")],
        [call, args("{}")],
      ],
      "tool_calls",
    ),
    "a call that cannot be read": summary("malformed_call"),
    "a pause": summary("pause"),
  };
  for (const [what, events] of Object.entries(empty)) {
    t.throws(() => written(events, asking()), { code: "upstream_invalid" }, what);
    t.throws(() => encode(events, asking().context), { code: "upstream_invalid" }, `${what}, whole`);
  }
});

t.test("of several answers the first is told", async (t) => {
  const events = summary().flatMap((event): Event[] =>
    event.type === "open"
      ? [event, { ...event, block: 1, choice: 1 }, { type: "text", block: 1, text: "Hi." }]
      : [event],
  );
  t.match(outputOf(written(events, asking())), [{ encrypted_content: "gw1.summary.They said hi.." }]);
});

t.test("a stream's summary is held, and so are empty texts: 8 MiB of them and no more", async (t) => {
  const piece = text("a".repeat(1 << 20));
  const long = answer([[{ kind: "text" }, ...Array.from({ length: 9 }, () => piece)]]);
  t.throws(() => written(long, asking()), { code: "upstream_invalid", message: /8 MiB/ });
  const many = answer(Array.from({ length: 100_000 }, () => [{ kind: "text" }] as const));
  t.throws(() => written(many, asking()), { code: "upstream_invalid", message: /8 MiB/ });
});
