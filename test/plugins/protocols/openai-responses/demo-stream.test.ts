import t from "tap";
import protocol from "../../../../plugins/protocols/openai-responses/index.ts";
import { eventsOf } from "../../../support/openai-recordings.ts";
import { demoOf } from "../../../support/openai-sdks.ts";

interface Event {
  type: string;
  sequence_number: number;
  response?: { id: string; output: unknown[] };
  item?: { id: string };
  item_id?: string;
  delta?: string;
}

const stream = (model: string, more: object = {}) => {
  const body = { model, input: "Hi you", stream: true, ...more };
  return eventsOf(
    demoOf(protocol, "/v1/responses", body)
      .frames.map((frame) => String(frame.bytes))
      .join(""),
  );
};

const MODELS = ["echo", "reasoning", "tool", "long", "error-stream"];
const tools = [{ type: "function", name: "f", parameters: { type: "object" } }];

t.test("events are named by their type and numbered from 0 without a gap", async (t) => {
  for (const model of MODELS) {
    const events = stream(model, { tools }).map((frame) => ({ name: frame.event, ...(frame.json() as Event) }));
    t.same(
      events.map(({ name }) => name),
      events.map(({ type }) => type),
    );
    t.same(
      events.map(({ sequence_number }) => sequence_number),
      [...events.keys()],
    );
  }
});

t.test("ids never change, and deltas belong to an item that was added", async (t) => {
  for (const model of MODELS) {
    const events = stream(model, { tools }).map((frame) => frame.json() as Event);
    t.equal(new Set(events.flatMap(({ response }) => (response ? [response.id] : []))).size, 1);
    const added = new Set<string | undefined>();
    for (const event of events) {
      if (event.type === "response.output_item.added") added.add(event.item?.id);
      if (event.item_id !== undefined) t.ok(added.has(event.item_id));
    }
  }
});

t.test("the order of a text's events is the vendor's", async (t) => {
  t.same(
    stream("echo").map(({ event }) => event?.replace("response.", "")),
    [
      "created",
      "in_progress",
      "output_item.added",
      "content_part.added",
      "output_text.delta",
      "output_text.delta",
      "output_text.done",
      "content_part.done",
      "output_item.done",
      "completed",
    ],
  );
});

t.test("the order of a reasoning's events is the vendor's", async (t) => {
  const names = stream("reasoning").map(({ event }) => event?.replace("response.", ""));
  t.same([...new Set(names)].slice(2, 9), [
    "output_item.added",
    "reasoning_summary_part.added",
    "reasoning_summary_text.delta",
    "reasoning_summary_text.done",
    "reasoning_summary_part.done",
    "output_item.done",
    "content_part.added",
  ]);
});

t.test("only the last event ends a stream, and only it holds usage", async (t) => {
  for (const model of ["echo", "reasoning", "tool"]) {
    const frames = stream(model, { tools });
    t.same(frames.map(protocol.ending).filter(Boolean), ["complete"]);
    t.equal(protocol.ending(frames.at(-1) as (typeof frames)[number]), "complete");
    t.same(
      frames.flatMap((frame, n) => (protocol.holdsUsage(frame) ? [n] : [])),
      [frames.length - 1],
    );
  }
  t.same(stream("error-stream").map(protocol.ending).filter(Boolean), ["error", "error"]);
});

t.test("slow waits before each piece of text and nowhere else", async (t) => {
  const { frames } = demoOf(protocol, "/v1/responses", { model: "slow", input: "x", stream: true });
  t.same(
    frames.map(({ after }) => after ?? 0).filter((after) => after > 0),
    [1500, 300, 300, 300, 300, 300],
  );
});
