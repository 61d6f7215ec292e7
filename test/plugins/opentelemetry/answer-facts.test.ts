import { Frame } from "model-gateway";
import t from "tap";
import { AnswerFacts } from "../../../plugins/opentelemetry/answer-facts.ts";

const event = (json: object, name?: string) =>
  new Frame("event", Buffer.from(`${name ? `event: ${name}\n` : ""}data: ${JSON.stringify(json)}\n\n`));
const END = new Frame("end", Buffer.alloc(0));

function factsOf(...frames: Frame[]) {
  const facts = new AnswerFacts();
  for (const frame of [...frames, END]) facts.observe(frame);
  const { id, model, finishReasons } = facts;
  return [id, model, finishReasons];
}

t.test("the model and the finish reason are read from streams of all protocols", async (t) => {
  t.same(
    factsOf(
      event({ type: "message_start", message: { id: "msg_1", model: "m-1" } }, "message_start"),
      event({ type: "content_block_delta", delta: { text: "stop_reason" } }),
      event({ type: "message_delta", delta: { stop_reason: "end_turn" } }),
    ),
    ["msg_1", "m-1", ["end_turn"]],
  );
  t.same(
    factsOf(
      event({
        type: "response.created",
        response: { id: "resp_1", model: "m-2", object: "response", status: "in_progress" },
      }),
      event({
        type: "response.completed",
        response: { id: "resp_1", model: "m-2", object: "response", status: "completed" },
      }),
    ),
    ["resp_1", "m-2", ["completed"]],
  );
  t.same(
    factsOf(
      event({ responseId: "r1", modelVersion: "m-3", candidates: [{ content: {} }] }),
      event({ responseId: "r1", modelVersion: "m-3", candidates: [{ finishReason: "MAX_TOKENS" }] }),
    ),
    ["r1", "m-3", ["MAX_TOKENS"]],
  );
});

t.test("a whole answer is read at its end, wherever it was split", async (t) => {
  const json = Buffer.from(
    JSON.stringify({ id: "c", model: "m", choices: [{ finish_reason: "stop" }, { finish_reason: "length" }] }),
  );
  const pieces = [json.subarray(0, 9), json.subarray(9)].map((bytes) => new Frame("piece", bytes));
  t.same(factsOf(...pieces), ["c", "m", ["stop", "length"]]);
});

t.test("invalid or too large JSON yields nothing and breaks nothing", async (t) => {
  t.same(
    factsOf(
      new Frame("event", Buffer.from("data: [DONE]\n\n")),
      new Frame("comment" as "event", Buffer.from(": finish_reason\n\n")),
    ),
    [undefined, undefined, []],
  );
  const large = Buffer.alloc(700_000, 32);
  t.same(factsOf(new Frame("piece", large), new Frame("piece", large)), [undefined, undefined, []]);
});
