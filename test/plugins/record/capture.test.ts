import t from "tap";
import { Capture } from "../../../plugins/record/capture.ts";
import Record from "../../../plugins/record.ts";
import type { Head } from "../../../src/core/head.ts";
import type { ResponseExchange } from "../../../src/core/phases.ts";
import type { RecordedExchange } from "../../../src/core/recorded.ts";
import { drive } from "../../../src/testing.ts";
import { Frame } from "../../../src/wire/frame.ts";
import { countTurns } from "../../support/turns.ts";
import { until } from "../../support/until.ts";

t.test("a stream that a pattern without bounds cannot search in time is left out, and blocks nobody", async (t) => {
  const file = `${t.testdir()}/recorded.db`;
  const options = { sample: 1, file, patterns: ["[a-z]+@[a-z]+"], body_kilobytes: 4096 };
  const driven = await drive(Record, { options });
  t.teardown(() => driven.close());
  const text = "a".repeat(100_000);
  const turns = await countTurns(t, async () => {
    const { headers } = await driven.ask({ protocol: "openai-chat", stream: true, text: "Hello" }, { text });
    let kept: RecordedExchange | undefined;
    await until(async () => {
      kept = await driven.plugin.recorded?.(headers["x-request-id"] ?? "");
      return kept !== undefined;
    }, "the record");
    t.equal(kept?.answer?.body, "(It could not be searched for secrets, and is left out.)");
  });
  t.ok(turns > 20, `${turns} turns`);
});

t.test("the same for one event with a long text: its search is ended, and not only that of the next one", async (t) => {
  const search = () => void /[a-z]+@[a-z]+/.test("a".repeat(200_000));
  const exchange = { replaceResponseText: () => search } as unknown as ResponseExchange;
  const head = { status: 200, headers: { lines: [] }, framing: "sse" } as unknown as Head;
  const capture = new Capture(exchange, head, 1_000_000, [], []);
  capture.stage(new Frame("event", Buffer.alloc(200_000)));
  await capture.clean();
  t.equal(Buffer.from(capture.message().body).toString(), "(It could not be searched for secrets, and is left out.)");
});
