import t from "tap";
import protocol from "../../../../plugins/protocols/gemini/index.ts";
import { Frame } from "../../../../src/wire/frame.ts";
import { eventsIn, recorded } from "../../../support/recorded.ts";

const event = (value: unknown) => new Frame("event", Buffer.from(`data: ${JSON.stringify(value)}\r\n\r\n`));
const endingOf = (value: unknown) => protocol.ending(event(value));
const text = (words: string) => ({ content: { role: "model", parts: [{ text: words }] }, index: 0 });

t.test("a finish reason or a blocked prompt completes an answer", async (t) => {
  t.equal(endingOf({ candidates: [{ ...text("x"), finishReason: "STOP" }] }), "complete");
  t.equal(endingOf({ candidates: [text("x"), { finishReason: "SAFETY", index: 1 }] }), "complete");
  t.equal(endingOf({ promptFeedback: { blockReason: "PROHIBITED_CONTENT" } }), "complete");
  t.equal(endingOf({ candidates: [{ finishReason: "FINISH_REASON_UNSPECIFIED" }] }), undefined);
  t.equal(endingOf({ candidates: [{ ...text("x"), finishReason: null }] }), undefined);
  t.equal(endingOf({ candidates: [{ ...text("x"), finishReason: 1 }] }), "complete");
  t.equal(endingOf({ candidates: [{ ...text("x"), finishReason: 0 }] }), undefined);
});

t.test("an error fails it, as an event, on its own or as an element", async (t) => {
  const error = { error: { code: 503, message: "The model is overloaded.", status: "UNAVAILABLE" } };
  t.equal(endingOf(error), "error");
  t.equal(protocol.ending(new Frame("event", Buffer.from(JSON.stringify(error, null, 2)))), "error");
  t.equal(protocol.ending(new Frame("element", Buffer.from(`,\r\n${JSON.stringify(error)}\n]`))), "error");
});

t.test("an answer that talks of these members goes on", async (t) => {
  t.equal(endingOf({ candidates: [text('{"finishReason":"STOP"} {"error":{}}')] }), undefined);
  const call = {
    functionCall: { name: "report", args: { finishReason: "STOP", error: { code: 1 }, blockReason: "x" } },
  };
  t.equal(endingOf({ candidates: [{ content: { parts: [call] } }] }), undefined);
});

t.test("everything else goes on", async (t) => {
  t.equal(endingOf({ candidates: [text("x")] }), undefined);
  t.equal(endingOf({ candidates: [{ finishReason: "" }], error: null }), undefined);
  t.equal(protocol.ending(new Frame("event", protocol.ping)), undefined);
  t.equal(protocol.ending(new Frame("event", Buffer.from('data: {"finishReason":"STOP" broken\n\n'))), undefined);
  t.equal(protocol.ending(new Frame("piece", Buffer.from('{"candidates":[{"finishReason":"STOP"}]}'))), undefined);
  t.equal(protocol.ending(new Frame("end", Buffer.alloc(0))), undefined);
});

t.test("usage is where usageMetadata is", async (t) => {
  t.ok(protocol.holdsUsage(event({ usageMetadata: { promptTokenCount: 1 } })));
  t.ok(protocol.holdsUsage(new Frame("element", Buffer.from('[{\n  "usageMetadata": {\n}}'))));
  t.notOk(protocol.holdsUsage(event({ candidates: [text('"usageMetadata": {}')] })));
  t.notOk(protocol.holdsUsage(new Frame("event", protocol.ping)));
});

const answers = recorded("gemini").filter(({ status }) => status < 300);
const skip = answers.length === 0 && "no recordings";

t.test("the last event of every recorded stream says that it is complete", { skip }, async (t) => {
  for (const { id, kinds, body } of answers) {
    if (!kinds.includes("stream") || kinds.includes("json_array_stream")) continue;
    t.equal(protocol.ending(eventsIn(body).at(-1) as Frame), "complete", id);
  }
});

t.test("the last element of every recorded array says that it is complete", { skip }, async (t) => {
  for (const { id, kinds, body } of answers) {
    if (!kinds.includes("json_array_stream")) continue;
    const elements = (JSON.parse(body) as unknown[]).map((value, i, all) => {
      const bytes = Buffer.from(
        `${i === 0 ? "[" : "\n,\r\n"}${JSON.stringify(value, null, 2)}${i === all.length - 1 ? "\n]" : ""}`,
      );
      return new Frame("element", bytes);
    });
    t.equal(protocol.ending(elements.at(-1) as Frame), "complete", id);
    t.ok(
      elements.every((element) => protocol.holdsUsage(element)),
      id,
    );
  }
});
