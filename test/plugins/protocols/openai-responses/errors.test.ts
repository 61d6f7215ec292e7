import t from "tap";
import { streamError } from "../../../../plugins/protocols/openai-responses/errors.ts";
import { type ErrorKind, GatewayError } from "../../../../src/core/errors.ts";
import type { Fault } from "../../../../src/core/fault.ts";
import { eventBytes, post } from "../../../../src/core/protocol-parts.ts";
import { Frame } from "../../../../src/wire/frame.ts";
import { receiving, SDKS } from "../../../support/openai-sdks.ts";

const words = { code: "upstream_truncated", message: "Broken off.", param: null };
const operation = post("response", "/responses");
const fault = new GatewayError("upstream_truncated", { message: "Broken off." });
const response = { id: "resp_1", object: "response", created_at: 7, status: "in_progress", model: "m", output: [] };
const created = eventBytes({ type: "response.created", sequence_number: 0, response }, "response.created");
const delta = eventBytes({ type: "response.output_text.delta", sequence_number: 41, delta: "Hel" });

/** The events of an error after a stream that began with `first`. */
function eventsAfter(first: Buffer | undefined, last?: Buffer, error: Fault = fault) {
  const state = { operation, frames: 3, first, last: last && new Frame("event", last) };
  const bytes = streamError(error, "id", state).toString();
  return bytes.split(/(?<=\n\n)/).map((event) => {
    const frame = new Frame("event", Buffer.from(event));
    const { type, ...members } = frame.json() as Record<string, unknown>;
    return [frame.event, type, members];
  });
}

t.test(
  "in a stream it is a failed response with the stream's own id, then an error, with the next numbers",
  async (t) => {
    t.same(eventsAfter(created, delta), [
      [
        "response.failed",
        "response.failed",
        {
          sequence_number: 42,
          response: {
            id: "resp_1",
            object: "response",
            created_at: 7,
            model: "m",
            status: "failed",
            error: { code: "server_error", message: "Broken off. (upstream_truncated)" },
            incomplete_details: null,
            output: [],
            usage: null,
          },
        },
      ],
      ["error", "error", { sequence_number: 43, ...words, error: { type: "server_error", ...words } }],
    ]);
  },
);

t.test("after a first event that is not JSON, or with a long text, the error is still written", async (t) => {
  const error = [["error", "error", { sequence_number: 3, ...words, error: { type: "server_error", ...words } }]];
  for (const wrong of ['"id":"resp_1","created_at":abc,', '"id":"resp_\\x",', '"id":"resp_1\n",'])
    t.same(eventsAfter(Buffer.from(`data: {"type":"response.created","response":{${wrong}"model":"m"}}\n\n`)), error);
  const long = { ...response, id: "resp_1", instructions: "x".repeat(12_000_000), model: "after" };
  t.match(eventsAfter(eventBytes({ type: "response.created", response: long })), [
    ["response.failed", "response.failed", { response: { id: "resp_1", status: "failed" } }],
    ["error"],
  ]);
  t.same(eventsAfter(eventBytes({ response: { other: "x".repeat(12_000_000), ...response } })), error);
});

t.test("a failed response has the completed items, where they are known", async (t) => {
  const item = { id: "msg_1", type: "message", status: "completed", role: "assistant", content: [] };
  const state = { operation, frames: 3, first: created, last: undefined, finished: () => [JSON.stringify(item)] };
  const [failed] = streamError(fault, "id", state).toString().split("\n\n");
  t.match(new Frame("event", Buffer.from(`${failed}\n\n`)).json(), { response: { status: "failed", output: [item] } });
});

t.test(
  "a failed response has a code that typed SDKs know, and the gateway's or provider's own in its message",
  async (t) => {
    const said = (kind: ErrorKind, code: string, providerCode?: string) => {
      const [failed, error] = eventsAfter(created, delta, { status: 500, kind, code, providerCode, message: "No." });
      const { response } = failed?.[2] as { response: { error: { code: string; message: string } } };
      return [response.error.code, response.error.message, (error?.[2] as { code: string }).code];
    };
    t.same(said("overloaded", "upstream_refused", "over_capacity"), [
      ...["server_error", "No. (over_capacity)", "over_capacity"],
    ]);
    t.same(said("timeout", "upstream_timeout"), ["server_error", "No. (upstream_timeout)", "upstream_timeout"]);
    t.same(said("permission", "content_blocked"), ["invalid_prompt", "No. (content_blocked)", "content_blocked"]);
    t.same(said("rate_limit", "too_fast"), ["rate_limit_exceeded", "No.", "rate_limit_exceeded"]);
    t.same(said("billing", "budget_spent"), ["insufficient_quota", "No.", "insufficient_quota"]);
    const spent = new GatewayError("team_spent", { status: 402, message: "No." });
    const [failed, error] = eventsAfter(created, delta, spent);
    t.match(failed?.[2], { response: { error: { code: "insufficient_quota", message: "No. (team_spent)" } } });
    t.match(error?.[2], { code: "team_spent" }, "a plugin's own code");
    for (const code of ["usage_not_included", "server_is_overloaded", "invalid_base64_image"])
      t.same(said("invalid", code), [code, "No.", code]);
    const [code, message] = said("invalid", "context_length_exceeded");
    t.equal(code, "context_length_exceeded");
    t.match(message, "Your input exceeds the context window of this model: No.");
  },
);

t.test(
  "a failed response repeats the request's settings from the stream's first event, as typed SDKs require",
  async (t) => {
    const echo = {
      ...{ instructions: 'Say "id": {', tools: [{ type: "function", name: "f" }], tool_choice: "auto", metadata: {} },
      ...{ parallel_tool_calls: false, temperature: null, top_p: 1 },
    };
    const begun = (more: object) =>
      eventBytes({ type: "response.created", response: { ...response, ...more } }, "response.created");
    const failed = (first: Buffer) => (eventsAfter(first)[0]?.[2] as { response: object }).response;
    t.match(failed(begun({ ...echo, usage: {}, incomplete_details: {} })), {
      ...{
        ...echo,
        id: "resp_1",
        model: "m",
        status: "failed",
        output: { length: 0 },
        usage: null,
        incomplete_details: null,
      },
    });
    const known = ["id", "object", "created_at", "model", "status", "error", "incomplete_details", "output", "usage"];
    t.same(Object.keys(failed(begun({ instructions: "x".repeat(1 << 20) }))), known, "a very long one is not repeated");
  },
);

t.test("before the first event of a stream nothing is written but the error", async (t) => {
  t.same(
    eventsAfter(undefined).map(([name]) => name),
    ["error"],
  );
  t.same(
    eventsAfter(Buffer.from(": ping\n\n")).map(([name]) => name),
    ["error"],
  );
});

t.test("the id is found in the first bytes of a long first event, wherever they end after it", async (t) => {
  const whole = { ...response, error: null, ok: true, instructions: 'Say "id": "no" {', tools: [{ id: "tool" }] };
  const bytes = eventBytes({ type: "response.created", response: whole }, "response.created");
  const after = bytes.indexOf('"object"');
  const wrong: number[] = [];
  for (let length = 0; length <= bytes.length; length++) {
    const [name, , members] = eventsAfter(bytes.subarray(0, length))[0] as [
      string,
      string,
      { response?: { id: string } },
    ];
    const found = name === "response.failed" && members.response?.id === "resp_1";
    if (length < after ? name !== "error" : !found) wrong.push(length);
  }
  t.same(wrong, []);
});

t.test("an id after a nested member is not guessed", async (t) => {
  const bytes = eventBytes({ type: "response.created", response: { tools: [{ id: "tool" }], id: "resp_1" } });
  t.same(
    eventsAfter(bytes).map(([name]) => name),
    ["error"],
  );
});

t.test("after a frame without a number the frames are counted", async (t) => {
  const [, , members] = eventsAfter(undefined, Buffer.from(": ping\n\n"))[0] as [string, string, object];
  t.match(members, { sequence_number: 3 });
});

for (const [name, Sdk] of Object.entries(SDKS)) {
  t.test(`${name} throws it, from the raw stream and from its accumulator`, async (t) => {
    const item = { id: "msg_1", type: "message", status: "completed", role: "assistant", content: [] };
    const items = ["added", "done"].map((what, n) => {
      const type = `response.output_item.${what}`;
      return eventBytes({ type, sequence_number: n + 1, output_index: 0, item }, type);
    });
    const last = new Frame("event", items[1] as Buffer);
    const state = { operation, frames: 3, first: created, last, finished: () => [JSON.stringify(item)] };
    const client = receiving(Sdk, Buffer.concat([created, ...items, streamError(fault, "id", state)]));
    const types: string[] = [];
    const reading = async () => {
      for await (const event of await client.responses.create({ model: "m", input: "", stream: true }))
        types.push(event.type);
    };
    await t.rejects(reading(), { code: "upstream_truncated", message: "Broken off." });
    const told = ["response.created", "response.output_item.added", "response.output_item.done", "response.failed"];
    t.same(types, told);
    await t.rejects(client.responses.stream({ model: "m", input: "" }).finalResponse(), { message: "Broken off." });
  });
}
