/** Failures that were found recorded nowhere, of every vendor, on their way to clients of every other protocol. */

import t from "tap";
import { type JsonObject } from "../../src/wire/values.ts";
import { gathered } from "../support/gathered.ts";
import { sample } from "../support/sample.ts";
import { ASK, PROTOCOLS, type ProtocolName } from "../support/vendor-sdks.ts";
import { at, candidate, chunk, messageStream, plainly, responseOf, streamOf, type Told } from "./sharp-cases.ts";
import { answering, type Between, between, events, type Got, streaming } from "./sharp-http.ts";

const PAIRS = PROTOCOLS.flatMap((vendor) =>
  PROTOCOLS.filter((name) => name !== vendor).map((client) => [vendor, client] as const),
);
const SORRY = "Sorry, not now.";

/** What each vendor's documents say that its errors look like. */
const BODIES: Record<ProtocolName, (status: number) => JsonObject> = {
  "openai-chat": (status) => ({
    error: { message: SORRY, type: status < 500 ? "requests" : "server_error", param: null, code: null },
  }),
  "openai-responses": (status) => ({
    error: { message: SORRY, type: status < 500 ? "requests" : "server_error", param: null, code: null },
  }),
  "anthropic-messages": (status) => ({
    type: "error",
    error: {
      type:
        { 429: "rate_limit_error", 500: "api_error", 504: "timeout_error", 529: "overloaded_error" }[status] ??
        "api_error",
      message: SORRY,
    },
    request_id: "req_1",
  }),
  gemini: (status) => ({
    error: {
      code: status,
      message: SORRY,
      status:
        { 429: "RESOURCE_EXHAUSTED", 500: "INTERNAL", 503: "UNAVAILABLE", 504: "DEADLINE_EXCEEDED" }[status] ??
        "UNKNOWN",
    },
  }),
};

/** How each client's protocol says it: the status, and the word for it. */
const SAID: Record<ProtocolName, Record<number, [status: number, word: string]>> = {
  "openai-chat": {
    429: [429, "requests"],
    500: [500, "server_error"],
    502: [502, "server_error"],
    503: [503, "server_error"],
    504: [504, "server_error"],
    529: [503, "server_error"],
  },
  "openai-responses": {
    429: [429, "requests"],
    500: [500, "server_error"],
    502: [502, "server_error"],
    503: [503, "server_error"],
    504: [504, "server_error"],
    529: [503, "server_error"],
  },
  "anthropic-messages": {
    429: [429, "rate_limit_error"],
    500: [500, "api_error"],
    502: [502, "api_error"],
    503: [529, "overloaded_error"],
    504: [504, "timeout_error"],
    529: [529, "overloaded_error"],
  },
  gemini: {
    429: [429, "RESOURCE_EXHAUSTED"],
    500: [500, "INTERNAL"],
    502: [502, "UNAVAILABLE"],
    503: [503, "UNAVAILABLE"],
    504: [504, "DEADLINE_EXCEEDED"],
    529: [503, "UNAVAILABLE"],
  },
};

const wordOf = (client: ProtocolName, { text }: Got): unknown =>
  at(JSON.parse(text), client === "gemini" ? "error.status" : "error.type");
const messageOf = ({ text }: Got): unknown => at(JSON.parse(text), "error.message");

gathered(t, "429, 5xx and 529 keep their kind and their words in every direction, whole and streamed", async (t) => {
  const gate = await between(t);
  for (const [vendor, client] of PAIRS)
    for (const status of [429, 500, 502, 503, 504, 529]) {
      gate.answer(answering(status, JSON.stringify(BODIES[vendor](status))));
      for (const stream of [false, true]) {
        const got = await gate.ask(client, vendor, { stream });
        const path = `${status}, ${vendor} to ${client}`;
        t.same([got.status, wordOf(client, got)], SAID[client][status], path);
        t.equal(messageOf(got), SORRY, path);
        t.equal(got.headers.get("x-should-retry"), null, path);
        t.equal(got.headers.get("retry-after"), null, "no time to retry was given");
      }
    }
});

t.test("the official SDKs raise their own errors", async (t) => {
  const gate = await between(t);
  for (const [vendor, client] of PAIRS)
    for (const status of [429, 529]) {
      gate.answer(answering(status, JSON.stringify(BODIES[vendor](status))));
      for (const stream of [false, true])
        await t.rejects(
          ASK[client]({ url: gate.running.url, model: `of-${vendor}`, stream }),
          { status: SAID[client][status]?.[0], message: new RegExp(SORRY) },
          `${status}, ${vendor} to ${client}`,
        );
    }
});

gathered(t, "when to come back is kept, however the vendor says it", async (t) => {
  const gate = await between(t);
  const retry = async (client: ProtocolName, vendor: ProtocolName, headers: Record<string, string>, more = {}) => {
    const { error, ...rest } = BODIES[vendor](429);
    const body = JSON.stringify({ ...rest, error: { ...(error as object), ...more } });
    gate.answer(answering(429, body, { "content-type": "application/json", ...headers }));
    const got = await gate.ask(client, vendor);
    if (client === "gemini" && got.headers.has("retry-after")) {
      const details = at(JSON.parse(got.text), "error.details") as JsonObject[];
      t.ok(
        details.some((detail) => /^[\d.]+s$/.test(String(detail["retryDelay"]))),
        "Gemini's clients read RetryInfo",
      );
    }
    return got.headers.get("retry-after");
  };
  for (const [vendor, client] of PAIRS) {
    const path = `${vendor} to ${client}`;
    t.equal(await retry(client, vendor, { "retry-after": "7" }), "7", path);
    t.equal(await retry(client, vendor, { "retry-after-ms": "1500", "retry-after": "7" }), "2", path);
    const date = new Date(Date.now() + 60_000).toUTCString();
    const seconds = Number(await retry(client, vendor, { "retry-after": date }));
    t.ok(seconds > 0 && seconds <= 60, `${path}: ${seconds} seconds until the date`);
    t.equal(await retry(client, vendor, { "retry-after": "soon" }), null, path);
  }
  const details = [{ "@type": "type.googleapis.com/google.rpc.RetryInfo", retryDelay: "12.5s" }];
  for (const client of PROTOCOLS.filter((name) => name !== "gemini"))
    t.equal(await retry(client, "gemini", {}, { details }), "13", `Gemini's RetryInfo for ${client}`);
});

t.test("a vendor's advice not to retry reaches the client", async (t) => {
  const gate = await between(t);
  for (const [vendor, client] of PAIRS) {
    const headers = { "content-type": "application/json", "x-should-retry": "false" };
    gate.answer(answering(529, JSON.stringify(BODIES[vendor](529)), headers));
    t.equal((await gate.ask(client, vendor)).headers.get("x-should-retry"), "false", `${vendor} to ${client}`);
  }
});

const MESSAGE = messageStream([
  [
    { type: "text", text: "" },
    { type: "text_delta", text: "Hi" },
  ],
]);
const ITEM = {
  type: "message",
  id: "msg_1",
  role: "assistant",
  status: "completed",
  content: [{ type: "output_text", text: "Hi", annotations: [] }],
};
const PLACE = { item_id: "msg_1", output_index: 0, content_index: 0 };
const EMPTY = { type: "output_text", text: "", annotations: [] };

/** A plain text of each vendor's, as a stream. */
const WHOLE: Record<ProtocolName, JsonObject[]> = {
  "openai-chat": [
    chunk({ role: "assistant", content: "" }),
    chunk({ content: "Hi" }),
    chunk({}, "stop"),
    { ...chunk({}), choices: [], usage: { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 } },
  ],
  "openai-responses": [
    { type: "response.created", response: responseOf([], { status: "in_progress" }) },
    { type: "response.output_item.added", output_index: 0, item: { ...ITEM, content: [] } },
    { type: "response.content_part.added", ...PLACE, part: EMPTY },
    { type: "response.output_text.delta", ...PLACE, delta: "Hi" },
    { type: "response.output_text.done", ...PLACE, text: "Hi" },
    { type: "response.content_part.done", ...PLACE, part: ITEM.content[0] },
    { type: "response.output_item.done", output_index: 0, item: ITEM },
    { type: "response.completed", response: responseOf([ITEM]) },
  ],
  "anthropic-messages": MESSAGE,
  gemini: [candidate([{ text: "H" }]), candidate([{ text: "i" }]), candidate([], "STOP")],
};

/** The frame that shows each client that the answer is whole. */
const END: Record<ProtocolName, RegExp> = {
  "openai-chat": /\[DONE\]/,
  "openai-responses": /response\.completed/,
  "anthropic-messages": /message_stop/,
  gemini: /"finishReason":"STOP"/,
};

/** From which of its events on a vendor's answer counts as whole. */
const ENOUGH: Record<ProtocolName, number> = {
  "openai-chat": 3,
  "openai-responses": 8,
  "anthropic-messages": MESSAGE.length,
  gemini: 3,
};

t.test("a stream that ends after any of its bytes is complete or an error, never an invented end", async (t) => {
  for (const [vendor, client] of PAIRS) {
    const bytes = Buffer.from(streamOf(vendor, WHOLE[vendor]));
    const enough = streamOf(vendor, WHOLE[vendor].slice(0, ENOUGH[vendor])).length;
    const odd: string[] = [];
    for (const length of sample(Array.from({ length: bytes.length + 1 }, (_, at) => at))) {
      const told: Told = plainly(client, vendor).streamed(bytes.subarray(0, length));
      const ended = END[client].test(told.text);
      if (ended === (told.error !== undefined)) odd.push(`${length}: ${ended ? "ended and failed" : "neither"}`);
      // The blank line at the very end may be missing.
      if (ended && length < enough - 2) odd.push(`${length}: ended too early`);
      if (told.error && told.error.code !== "upstream_truncated" && told.error.code !== "upstream_invalid")
        odd.push(`${length}: ${told.error.code}`);
    }
    t.same(odd, [], `${vendor} to ${client}, ${bytes.length} bytes`);
  }
});

/** Asks for a stream, and gives what came before the failure and what told it. */
async function failing(gate: Between, client: ProtocolName, vendor: ProtocolName, broken: string, end?: "cut") {
  gate.answer(streaming(broken, end));
  const got = await gate.ask(client, vendor);
  const error: Record<ProtocolName, () => unknown> = {
    "openai-chat": () => at(events(got.text).at(-1), "error.message"),
    "openai-responses": () => at(events(got.text).at(-1), "message"),
    "anthropic-messages": () => at(events(got.text).at(-1), "error.message"),
    gemini: () => at(events(got.text).at(-1), "error.message"),
  };
  return { ...got, message: error[client]() };
}

// At the same time: most of it is waiting for the ends of connections.
t.jobs = 3;
for (const end of ["cut", undefined] as const)
  gathered(
    t,
    `a stream that its provider breaks off (${end ?? "ended"}) is an error in the client's form, and its SDK raises it`,
    async (t) => {
      const gate = await between(t);
      for (const [vendor, client] of PAIRS) {
        const part = streamOf(vendor, WHOLE[vendor].slice(0, ENOUGH[vendor] - 1));
        const { status, text, cut, message } = await failing(gate, client, vendor, part, end);
        const path = `${vendor} to ${client}`;
        t.same([status, cut], [200, true], path);
        t.match(message, /broke off in the middle/, path);
        t.match(text, /Hi|"H"/, "the content before it is there");
        t.notMatch(text, END[client], path);
        await t.rejects(ASK[client]({ url: gate.running.url, model: `of-${vendor}`, stream: true }), path);
      }
    },
  );

/** How each vendor reports a failure in the middle of a stream. */
const LATE: Record<ProtocolName, JsonObject> = {
  "openai-chat": { error: { message: SORRY, type: "server_error", code: 500 } },
  "openai-responses": {
    type: "response.failed",
    response: responseOf([], { status: "failed", error: { code: "server_error", message: SORRY } }),
  },
  "anthropic-messages": { type: "error", error: { type: "api_error", message: SORRY } },
  gemini: { error: { code: 500, message: SORRY, status: "INTERNAL" } },
};

gathered(
  t,
  "an error that a stream begins with is one with its status, one in the middle is told there, and nothing after it",
  async (t) => {
    const gate = await between(t);
    for (const [vendor, client] of PAIRS)
      for (const before of [0, ENOUGH[vendor] - 1]) {
        const frames = [...WHOLE[vendor].slice(0, before), LATE[vendor], ...WHOLE[vendor].slice(before)];
        const path = `${vendor} to ${client}, after ${before} events`;
        if (before === 0) {
          gate.answer(streaming(streamOf(vendor, frames)));
          const got = await gate.ask(client, vendor);
          t.same([got.status, messageOf(got), got.cut], [500, SORRY, false], path);
        } else {
          const { text, cut, message } = await failing(gate, client, vendor, streamOf(vendor, frames));
          t.equal(message, SORRY, path);
          t.ok(cut, path);
          t.notMatch(text, END[client], path);
        }
        await t.rejects(ASK[client]({ url: gate.running.url, model: `of-${vendor}`, stream: true }), SORRY_IN, path);
        // The client that asked for a whole answer gets an error with its status.
        gate.answer(streaming(streamOf(vendor, frames)));
        const whole = await gate.ask(client, vendor, { stream: false });
        t.same([whole.status, messageOf(whole)], [500, SORRY], path);
      }
  },
);

const SORRY_IN = { message: new RegExp(SORRY) };

gathered(t, "a whole answer that is cut, empty or no answer at all is a 502", async (t) => {
  const gate = await between(t);
  const bodies = ["", "{", "null", "[]", "{}", '"Hi"', "<html>", '{"unheard":"of"}', "\0\u0001"];
  for (const [vendor, client] of PAIRS)
    for (const body of bodies) {
      gate.answer(answering(200, body));
      const got = await gate.ask(client, vendor, { stream: false });
      t.equal(got.status, 502, `${JSON.stringify(body)}, ${vendor} to ${client}`);
      t.equal(wordOf(client, got), SAID[client][502]?.[1]);
    }
});
