import { createHash } from "node:crypto";
import { isDeepStrictEqual } from "node:util";
import t from "tap";
import { streamError } from "../../../../plugins/protocols/openai-responses/errors.ts";
import { decodeResponse } from "../../../../plugins/protocols/openai-responses/response.decode.ts";
import { createEncoder, encodeResponse } from "../../../../plugins/protocols/openai-responses/response.encode.ts";
import { GatewayError } from "../../../../src/core/errors.ts";
import { post } from "../../../../src/core/protocol-parts.ts";
import type { Event, EventOf, FinishReason, Opening } from "../../../../src/translation/events.ts";
import { runAtOnce } from "../../../../src/translation/steps.ts";
import { Frame } from "../../../../src/wire/frame.ts";
import { type JsonObject } from "../../../../src/wire/values.ts";
import { dice } from "../../../support/dice.ts";
import { digest } from "../../../support/digest.ts";
import { randomAnswer } from "../../../support/random-answers.ts";
import { eventsIn, recorded } from "../../../support/recorded.ts";
import { sample, tried } from "../../../support/sample.ts";
import {
  accumulated,
  answer,
  args,
  bodyOf,
  decoded,
  outputOf,
  SOURCE,
  text,
  valuesOf,
  withLosses,
  written,
} from "./answers.ts";

/** What is wrong with the stream that events become, if anything; and the whole answer that they become. */
async function checked(events: readonly Event[]): Promise<{ whole: JsonObject; fault: string | undefined }> {
  const frames = written(events);
  const values = valuesOf(frames);
  const done = values.filter(({ type }) => type === "response.output_item.done").map(({ item }) => item);
  const whole = JSON.parse(runAtOnce(encodeResponse(events, withLosses().context))) as JsonObject;
  const inOrder = values.every((value, i) => value["sequence_number"] === i && value["type"] === frames[i]?.name);
  const fault = !inOrder
    ? "its numbers and names are not in order"
    : !isDeepStrictEqual(await accumulated(bodyOf(frames)), whole)
      ? "its fold is not the whole answer"
      : !isDeepStrictEqual(done, whole["output"])
        ? "the items that are done are not those of the answer"
        : undefined;
  return { whole, fault };
}

t.test("the vendor's SDK accepts every encoded answer, and accumulates it to the whole one", async (t) => {
  const faults: string[] = [];
  for (let seed = 0; seed < tried(150); seed++) {
    const { fault } = await checked(randomAnswer(seed));
    if (fault) faults.push(`seed ${seed}: ${fault}`);
  }
  t.same(faults, []);
});

t.test(
  "the tier that served the request is written in the vendor's word, and as the default where there is none",
  async (t) => {
    for (const [tier, told] of [
      ["ON_DEMAND_PRIORITY", "priority"],
      ["ultrafast", "ultrafast"],
      ["provisioned", "default"],
      ["", "default"],
      [undefined, "default"],
    ] as const) {
      const usage = { in: {}, out: {}, raw: {}, ...(tier !== undefined && { tier }) };
      const { whole, fault } = await checked(
        answer([[{ kind: "text" }, text("a")]]).toSpliced(-1, 0, { type: "usage", usage }),
      );
      t.equal(whole["service_tier"], told, `${tier}`);
      t.equal(fault, undefined, `${tier}`);
    }
  },
);

/** Every kind of block, opening whenever it likes while others are open. */
function tangled(seed: number): Event[] {
  const cast = dice(seed);
  const opaque = { protocol: "gemini", account: "them", kind: "thoughtSignature", data: `state${seed}` };
  const open = new Map<number, Event["type"][]>();
  const events: Event[] = [{ type: "start", id: `up ${seed}/é`, model: "theirs" }];
  let blocks = 0;
  for (let step = cast(60); step > 0 || open.size > 0; step--) {
    if (step > 0 && (open.size === 0 || cast(4) === 0)) {
      const block = blocks++;
      const state = cast(3) === 0 ? { opaque } : {};
      const kinds = [
        { kind: "text", ...state },
        { kind: "refusal" },
        { kind: "reasoning", summary: cast(2) === 0 },
        { kind: "tool_call", id: `call_${cast(3)}`, name: "find", ...state },
        { kind: "tool_call", name: "exec", namespace: "functions", custom: true },
        { kind: "media", media: "image", mime: "image/png" },
        { kind: "server", name: "search" },
      ] as const;
      const opening = kinds[cast(kinds.length)] as (typeof kinds)[number];
      const grows = { text: "text", refusal: "text", reasoning: "text", tool_call: "arguments" } as const;
      const kind = opening.kind === "media" || opening.kind === "server" ? "media" : grows[opening.kind];
      open.set(
        block,
        opening.kind === "text" ? [kind, "citation"] : opening.kind === "reasoning" ? [kind, "opaque"] : [kind],
      );
      events.push({ type: "open", block, choice: 0, ...opening });
      continue;
    }
    const block = [...open.keys()][cast(open.size)] as number;
    const grows = open.get(block) as Event["type"][];
    const type = step > 0 ? grows[cast(grows.length)] : "close";
    if (type === "text") events.push({ type, block, text: "aé😀".slice(cast(3)), part: cast(2) });
    else if (type === "arguments") events.push({ type, block, text: '{"a":"\\u0' });
    else if (type === "citation") events.push({ type, block, citation: { url: "https://a.example", title: "A" } });
    else if (type === "opaque") events.push({ type, block, opaque });
    else if (type === "media") events.push({ type, block, base64: "aGk=" });
    if (type === "close" || cast(5) === 0) {
      events.push({ type: "close", block });
      open.delete(block);
    }
  }
  return [...events, { type: "finish", choice: 0, reason: "length" }, { type: "end" }];
}

t.test("interleaved blocks of any kind reach the SDK one item after the other", async (t) => {
  const faults: string[] = [];
  for (let seed = 0; seed < tried(150); seed++) {
    const events = tangled(seed);
    const { fault } = await checked(events);
    if (fault) faults.push(`seed ${seed}: ${fault}`);
    let open = 0;
    for (const { type } of valuesOf(written(events))) {
      if (type === "response.output_item.added") open++;
      if (type === "response.output_item.done") open--;
      if (open > 1) faults.push(`seed ${seed}: two items at a time`);
    }
  }
  t.same(faults, []);
});

const answers = sample(recorded("openai-responses")).filter(
  ({ id, status }) => status === 200 && !/deepseek-reasoning/.test(id),
);
const skip = answers.length === 0 && "the recordings are absent";

const digested = (response: JsonObject) => ({ ...digest("openai-responses", response), usage: 0 });

t.test("every recorded answer, encoded again, has the same content for the vendor's SDK", { skip }, async (t) => {
  const faults: string[] = [];
  for (const { id, body } of answers) {
    const stream = /^\s*(?:event|data|:)/.test(body);
    const json = stream ? undefined : (JSON.parse(body) as JsonObject);
    if (json && (!json["output"] || json["status"] === "queued")) continue;
    const events = stream
      ? decoded(eventsIn(body).flatMap(({ text }) => text ?? []))
      : runAtOnce(decodeResponse(Buffer.from(body), SOURCE));
    const { whole, fault } = await checked(events);
    if (fault) faults.push(`${id}: ${fault}`);
    // An answer of user's messages is a compaction.
    if (/compact|two-responses/.test(id)) continue;
    const theirs = json ?? (await accumulated(body).catch(() => undefined));
    if (theirs && !isDeepStrictEqual(digested(whole), digested(theirs))) faults.push(`${id} says something else`);
  }
  t.same(faults, []);
});

t.test("without an id of the upstream's the exchange's is used", async (t) => {
  const [created] = valuesOf(written([{ type: "start", id: "", model: "theirs" }]));
  t.match(created, { response: { id: "resp_exchange-1", created_at: 1790000000 } });
  const [own] = valuesOf(written([{ type: "start", id: "resp_abc", model: "theirs" }]));
  t.match(own, { response: { id: "resp_abc" } });
});

t.test("calls keep their arguments, names, namespaces, and ids that distinguish them", async (t) => {
  const named = { kind: "tool_call", name: "find" } as const;
  const frames = written(
    answer(
      [
        [{ ...named, id: "call_1" }, args('{"a": 1.0, "b"'), args(": 12345678901234567890}")],
        [{ ...named, id: "call_1" }],
        [{ ...named, namespace: "functions", custom: true, id: "call_2" }, args("ls -l")],
        [named, args("not JSON")],
      ],
      "tool_calls",
    ),
  );
  const id = "up-1";
  const plain = { type: "function_call", status: "completed", name: "find" };
  t.same(outputOf(frames), [
    { id: `fc_${id}_0`, ...plain, call_id: "call_1", arguments: '{"a": 1.0, "b": 12345678901234567890}' },
    { id: `fc_${id}_1`, ...plain, call_id: "call_1_2", arguments: "{}" },
    {
      ...{ id: `ctc_${id}_2`, type: "custom_tool_call", status: "completed", call_id: "call_2", name: "find" },
      ...{ namespace: "functions", input: "ls -l" },
    },
    { id: `fc_${id}_3`, ...plain, call_id: "call_up-1_0", arguments: "not JSON" },
  ]);
  const ends = valuesOf(frames).filter(({ type }) => String(type).endsWith("function_call_arguments.done"));
  t.same(
    ends.map(({ name }) => name),
    ["find", "find", "find"],
    "typed clients require the name",
  );
});

t.test("state on a call or a text comes directly before it", async (t) => {
  const opaque = { protocol: "gemini", kind: "thoughtSignature", data: "sig" };
  const frames = written(
    answer([
      [{ kind: "text" }, text("Hi")],
      [{ kind: "tool_call", id: "call_1", name: "find", opaque }],
      [{ kind: "text", opaque }, text(""), text("Bye")],
      [{ kind: "text", opaque }, text("")],
    ]),
  );
  t.same(
    outputOf(frames).map(({ type, encrypted_content: state }) => state ?? type),
    ["message", "gw1.thoughtSignature.sig.call_1", "function_call"].concat(
      ...["gw1.thoughtSignature.sig.text", "message", "gw1.thoughtSignature.sig.text"],
    ),
  );
});

t.test("the finish reason is written in the vendor's own way", async (t) => {
  const endings: Record<FinishReason, string> = {
    ...{ stop: "completed", tool_calls: "completed", stop_sequence: "completed", pause: "completed" },
    ...{ malformed_call: "completed", other: "completed" },
    ...{ length: "max_output_tokens", context_window: "max_output_tokens" },
    ...{ content_filter: "content_filter", refusal: "content_filter" },
  };
  for (const [reason, ending] of Object.entries(endings)) {
    const context = withLosses();
    const last = valuesOf(written(answer([[{ kind: "text" }, text("Hi")]], reason as FinishReason), context)).at(-1);
    const response = last?.["response"] as JsonObject;
    const incomplete = ending !== "completed";
    t.equal(last?.["type"], `response.${incomplete ? "incomplete" : "completed"}`, reason);
    t.same(response["incomplete_details"], incomplete ? { reason: ending } : null, reason);
    t.match(response["output"], [{ status: response["status"] }], "a truncated call is not complete");
    t.equal(context.lost.length, ["pause", "malformed_call", "other"].includes(reason) ? 1 : 0, reason);
  }
});

t.test("the matched stop sequence is declared lost", async (t) => {
  const context = withLosses();
  const events = answer([[{ kind: "text" }, text("Hi")]], "stop_sequence").map(
    (event): Event => (event.type === "finish" ? { ...event, stopSequence: "END" } : event),
  );
  written(events, context);
  t.match(context.lost, ["stop_sequence"]);
});

t.test("a truncated call is not complete", async (t) => {
  const cut = answer([[{ kind: "tool_call", id: "call_1", name: "find" }, args('{"a')]], "length");
  t.match(outputOf(written(cut)), [{ status: "incomplete", arguments: '{"a' }]);
});

t.test("an answer too long to be repeated at the end is refused, of any content", async (t) => {
  const piece = createHash("sha512").update("a").digest("hex").repeat(8192);
  const opaque = { protocol: "other", kind: "signature", data: piece };
  const uses: Record<string, [Opening, EventOf<"text" | "citation" | "arguments" | "opaque" | "media">]> = {
    text: [{ kind: "text" }, { type: "text", block: 0, text: piece }],
    likelihoods: [{ kind: "text" }, { type: "text", block: 0, text: "", logprobs: [{ token: piece }] }],
    citations: [{ kind: "text" }, { type: "citation", block: 0, citation: { url: piece, start: 0, end: 0 } }],
    arguments: [
      { kind: "tool_call", name: "f" },
      { type: "arguments", block: 0, text: piece },
    ],
    state: [{ kind: "reasoning" }, { type: "opaque", block: 0, opaque }],
    pictures: [
      { kind: "media", media: "image" },
      { type: "media", block: 0, base64: piece },
    ],
  };
  for (const [name, [opening, event]] of Object.entries(uses)) {
    const writer = createEncoder(withLosses().context);
    writer.event({ type: "start", id: "a", model: "theirs" }, []);
    writer.event({ type: "open", block: 0, choice: 0, ...opening }, []);
    for (let n = 0; n < 7; n++) writer.event(event, []);
    t.throws(() => writer.event(event, []), { code: "upstream_invalid", message: /8 MiB/ }, name);
  }
});

t.test("the input of the request is read once: it may be large, and is parsed whenever it is read", async (t) => {
  let reads = 0;
  const { context } = withLosses();
  Object.defineProperty(context.request, "input", { get: () => `${++reads}` });
  createEncoder(context);
  t.equal(reads, 1);
});

t.test("so is one of endlessly many blocks without content", async (t) => {
  const writer = createEncoder(withLosses().context);
  writer.event({ type: "start", id: "a", model: "theirs" }, []);
  t.throws(
    () => {
      for (let block = 0; block < 100_000; block++) {
        writer.event({ type: "open", block, choice: 0, kind: "text" }, []);
        writer.event({ type: "close", block }, []);
      }
    },
    { code: "upstream_invalid", message: /8 MiB/ },
  );
});

t.test("a whole answer may be longer: all of it is available", async (t) => {
  const base64 = "aaaa".repeat(3 * 1024 * 1024);
  const picture: Event = { type: "media", block: 0, base64 };
  const whole = runAtOnce(
    encodeResponse(answer([[{ kind: "media", media: "image", mime: "image/png" }, picture]]), withLosses().context),
  );
  t.ok(whole.includes(base64));
});

t.test("a failure in mid-stream continues from what was written", async (t) => {
  const frames = written(answer([[{ kind: "text" }, text("Hi")]])).slice(0, 5);
  const body = bodyOf(frames);
  const last = new Frame("event", Buffer.from(bodyOf(frames.slice(-1))));
  const state = {
    operation: post("response", "/responses"),
    frames: 5,
    first: Buffer.from(body).subarray(0, 300),
    last,
  };
  const failure = streamError(new GatewayError("upstream_truncated"), "exchange-1", state).toString();
  const [failed, error] = eventsIn(failure).map((frame) => frame.json() as JsonObject);
  t.match(failed, { type: "response.failed", sequence_number: 5, response: { id: "resp_up-1", status: "failed" } });
  t.match(error, { type: "error", sequence_number: 6 });
  await t.rejects(accumulated(body + failure), { message: /broke off/ }, "the SDK throws the error's message");
});

t.test("text is streamed in deltas and then repeated as a whole", async (t) => {
  const frames = written(answer([[{ kind: "text" }, text("Hel"), text("lo")]]));
  const names = frames.map(({ name }) => name?.replace("response.", ""));
  t.same(names, [
    ...["created", "in_progress", "output_item.added", "content_part.added"],
    ...["output_text.delta", "output_text.delta", "output_text.done", "content_part.done"],
    ...["output_item.done", "completed"],
  ]);
  const at = { item_id: "msg_up-1_0", output_index: 0, content_index: 0 };
  t.same(valuesOf(frames)[4], {
    ...{ type: "response.output_text.delta", sequence_number: 4 },
    ...{ ...at, delta: "Hel", logprobs: [] },
  });
});

t.test("reasoning has an envelope, whether it is readable or not", async (t) => {
  const opaque = { protocol: "anthropic-messages", kind: "signature", data: "sig" };
  const frames = written(
    answer([
      [{ kind: "reasoning" }, text("Hm."), { type: "opaque", opaque }],
      [{ kind: "reasoning", summary: true }, text("One", 0), text("Two", 1), text("!", 1)],
      [
        { kind: "reasoning", redacted: true },
        { type: "opaque", opaque: { ...opaque, kind: "redacted", data: "x" } },
      ],
    ]),
  );
  const part = (text: string) => ({ type: "summary_text", text });
  t.same(outputOf(frames), [
    { id: "rs_up-1_0", type: "reasoning", summary: [part("Hm.")], encrypted_content: "gw1.signature.sig." },
    { id: "rs_up-1_1", type: "reasoning", summary: [part("One"), part("Two!")] },
    { id: "rs_up-1_2", type: "reasoning", summary: [], encrypted_content: "gw1.redacted.x." },
  ]);
});

t.test("adjacent texts and refusals are one message", async (t) => {
  const frames = written(
    answer(
      [
        [{ kind: "text" }, text("Well.")],
        [{ kind: "refusal" }, text("No.")],
      ],
      "refusal",
    ),
  );
  const [message, ...more] = outputOf(frames);
  t.match(message, {
    content: [
      { type: "output_text", text: "Well." },
      { type: "refusal", refusal: "No." },
    ],
  });
  t.same(more, []);
  t.match(valuesOf(frames).at(-1), { type: "response.completed", response: { status: "completed" } });
});

t.test("citations are annotations of the text that they cite", async (t) => {
  const cite = (citation: object) => ({ type: "citation", citation }) as const;
  const context = withLosses();
  const frames = written(
    answer([
      [
        { kind: "text" },
        cite({ url: "https://a.example", title: "A" }),
        text("Hello"),
        cite({ url: "https://b.example", start: 1, end: 3, quote: "ell" }),
        cite({ title: "A document" }),
      ],
    ]),
    context,
  );
  const added = valuesOf(frames).filter(({ type }) => type === "response.output_text.annotation.added");
  const expected = [
    { type: "url_citation", url: "https://b.example", title: "", start_index: 1, end_index: 3 },
    { type: "url_citation", url: "https://a.example", title: "A", start_index: 0, end_index: 5 },
  ];
  t.same(
    added.map(({ annotation }) => annotation),
    expected,
  );
  t.match(outputOf(frames), [{ content: [{ annotations: expected }] }]);
  t.equal(context.lost.length, 2, "the quote and the document");
});

t.test("log probabilities are written with their text", async (t) => {
  const one = { token: "Hi", logprob: -0.5, bytes: [72, 105], top_logprobs: [] };
  for (const logprobs of [[one], { content: [one] }]) {
    const frames = written(answer([[{ kind: "text" }, { type: "text", text: "Hi", logprobs }]]));
    t.match(valuesOf(frames)[4], { delta: "Hi", logprobs: [one] });
    t.match(outputOf(frames), [{ content: [{ logprobs: [one] }] }]);
  }
});

t.test("an image is the result of an image call; audio cannot be expressed", async (t) => {
  const context = withLosses();
  const frames = written(
    answer([
      [
        { kind: "media", media: "image", mime: "image/webp" },
        { type: "media", base64: "aGk=" },
      ],
      [
        { kind: "media", media: "audio" },
        { type: "media", base64: "aGk=" },
      ],
    ]),
    context,
  );
  t.match(outputOf(frames), [{ type: "image_generation_call", result: "aGk=", output_format: "webp" }]);
  t.same(context.lost, ["output.audio"]);
});

t.test("an image by its address alone is a failed one, not an empty one", async (t) => {
  const context = withLosses();
  const frames = written(
    answer([
      [
        { kind: "media", media: "image" },
        { type: "media", url: "https://a.test/a.png" },
      ],
    ]),
    context,
  );
  t.match(outputOf(frames), [{ type: "image_generation_call", status: "failed", result: null }]);
  t.notOk(frames.some(({ name }) => name === "response.image_generation_call.completed"));
  t.same(context.lost, ["output.image"]);
});

t.test("a response repeats the request's settings, and the vendor's defaults where there were none", async (t) => {
  const request = {
    ...{ model: "ours", input: "Hi", instructions: "Be kind.", temperature: 0.5, max_output_tokens: 9 },
    ...{ reasoning: { effort: "low" }, text: { verbosity: "low" }, tools: [{ type: "function", name: "find" }] },
    ...{ tool_choice: "required", metadata: { a: "b" }, parallel_tool_calls: false, store: true, top_p: 0.1 },
  };
  const { model: _, input: __, ...asked } = request;
  const echo = (request: JsonObject) =>
    JSON.parse(runAtOnce(encodeResponse(answer([]), withLosses(request).context))) as JsonObject;
  t.match(echo(request), {
    ...{ ...asked, store: false, reasoning: { effort: "low", summary: null }, truncation: "disabled" },
    text: { format: { type: "text" }, verbosity: "low" },
  });
  t.notOk("input" in echo(request));
  t.match(echo({ temperature: null }), { temperature: 1, tools: { length: 0 }, tool_choice: "auto" });
});

t.test("a refusal is an answer when it has a part of its own, and incomplete otherwise", async (t) => {
  const refused = (kind: "refusal" | "text") =>
    runAtOnce(encodeResponse(answer([[{ kind }, text("No.")]], "refusal"), withLosses().context));
  t.match(JSON.parse(refused("refusal")), { status: "completed", incomplete_details: null });
  t.match(JSON.parse(refused("text")), { status: "incomplete", incomplete_details: { reason: "content_filter" } });
  const why = { type: "refusal", refusal: "No." };
  t.match(JSON.parse(runAtOnce(encodeResponse(endedFor("refusal"), withLosses().context))), {
    ...{ status: "completed", output: [{ type: "message", content: [why] }] },
  });
  const filter = withLosses();
  t.match(JSON.parse(runAtOnce(encodeResponse(endedFor("content_filter"), filter.context))), {
    ...{ status: "incomplete", incomplete_details: { reason: "content_filter" } },
    output: [{ type: "message", content: [why] }],
  });
  t.same(filter.lost, []);
});

/** An answer of which its end alone says why there is no more. */
const endedFor = (reason: FinishReason, blocks?: Parameters<typeof answer>[0]): Event[] =>
  answer(blocks ?? []).map((event) => (event.type === "finish" ? { ...event, reason, message: "No." } : event));

const asking = () => withLosses({ input: [{ role: "user", content: "Hi" }, { type: "compaction_trigger" }] });
const summing = (reason?: FinishReason): Event[] =>
  answer([[{ kind: "text" }, text("They "), text("said hi.")]], reason);

t.test("an answer becomes exactly one item, whose envelope contains its text", async (t) => {
  const events = answer([
    [{ kind: "reasoning" }, text("Hm.")],
    [{ kind: "text" }, text("They "), text("said hi.")],
    [{ kind: "server", name: "search" }],
    [{ kind: "text" }, text("")],
    [{ kind: "text" }, text("And bye.")],
  ]);
  const compacting = asking();
  const frames = written(events, compacting);
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
  t.same(compacting.lost, ["output.reasoning", "output.server"]);
});

t.test(
  "an answer without content is an empty message, streamed and whole, unless it was cut or filtered",
  async (t) => {
    const empty = [{ type: "message", content: [{ type: "output_text", text: "" }] }];
    const { whole, fault } = await checked(answer([], "stop"));
    t.match(whole, { status: "completed", output: empty });
    t.equal(fault, undefined);
    for (const reason of ["length", "content_filter", "tool_calls"] as const)
      t.same((await checked(answer([], reason))).whole["output"], [], reason);
    const lost = answer([[{ kind: "server", name: "shell" }]], "stop");
    t.same((await checked(lost)).whole["output"], [], "content without a form here is reported, not replaced");
  },
);

t.test("streamed and whole are the same to the vendor's SDK", async (t) => {
  const whole = JSON.parse(runAtOnce(encodeResponse(summing(), asking().context))) as JsonObject;
  t.same(await accumulated(bodyOf(written(summing(), asking()))), whole);
  t.match(whole, { status: "completed", output: [{ type: "compaction" }], usage: { total_tokens: 16 } });
});

t.test("a truncated summary is incomplete", async (t) => {
  const cut = valuesOf(written(summing("length"), asking())).at(-1);
  t.match(cut, {
    type: "response.incomplete",
    response: { incomplete_details: { reason: "max_output_tokens" }, output: [{ type: "compaction" }] },
  });
  const reasons = { length: "max_output_tokens", content_filter: "content_filter", refusal: "content_filter" };
  for (const [reason, told] of Object.entries(reasons)) {
    const none = answer([[{ kind: "reasoning" }, text("Hm.")]], reason as FinishReason);
    t.match(
      valuesOf(written(none, asking())).at(-1),
      { type: "response.incomplete", response: { incomplete_details: { reason: told }, output: { length: 0 } } },
      `${reason}, before any text of it`,
    );
  }
  for (const reason of ["content_filter", "refusal"] as const)
    for (const blocks of [[], [[{ kind: "text" } as const, text("They")]] as const]) {
      const ended = asking();
      const output = outputOf(written(endedFor(reason, blocks), ended)) as JsonObject[];
      t.same(
        output.map(({ type }) => type),
        blocks.map(() => "compaction"),
      );
      t.same(ended.lost, ["incomplete_details"]);
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
    "a call that cannot be read": summing("malformed_call"),
    "a pause": summing("pause"),
  };
  for (const [what, events] of Object.entries(empty)) {
    t.throws(() => written(events, asking()), { code: "upstream_invalid" }, what);
    t.throws(() => runAtOnce(encodeResponse(events, asking().context)), { code: "upstream_invalid" }, `${what}, whole`);
  }
});

t.test("of several answers the first is written", async (t) => {
  const events = summing().flatMap((event): Event[] =>
    event.type === "open"
      ? [event, { ...event, block: 1, choice: 1 }, { type: "text", block: 1, text: "Hi." }]
      : [event],
  );
  t.match(outputOf(written(events, asking())), [{ encrypted_content: "gw1.summary.They said hi.." }]);
});

t.test("a stream's summary is buffered, and so are empty texts: up to 8 MiB", async (t) => {
  const piece = text("a".repeat(1 << 20));
  const long = answer([[{ kind: "text" }, ...Array.from({ length: 9 }, () => piece)]]);
  t.throws(() => written(long, asking()), { code: "upstream_invalid", message: /8 MiB/ });
  const many = answer(Array.from({ length: 100_000 }, () => [{ kind: "text" }] as const));
  t.throws(() => written(many, asking()), { code: "upstream_invalid", message: /8 MiB/ });
});
