import { createServer } from "node:http";
import t, { type Test } from "tap";
import { cost as reckoned } from "../../src/core/price.ts";
import type { Usage } from "../../src/core/usage.ts";
import { asking, startGateway } from "../support/gateway.ts";
import { listen } from "../support/listen.ts";
import { each } from "../support/raw.ts";
import { type Recording, recordings } from "../support/recordings.ts";
import { tried } from "../support/sample.ts";
import { costOf, PRICE } from "./cost-of.ts";
import { asEvents } from "./matrix.ts";

/** Of the recorded conversations, one in so many is asked for in the other protocols too. */
const STRIDE = Number(process.env["GATEWAY_TEST_COSTS_STRIDE"] ?? 8);
const AT_ONCE = 16;
/** Milliseconds for all of them on a busy machine. */
const LIMIT = 240_000;
t.setTimeout(LIMIT);

const TALKING = ["openai-chat", "openai-responses", "anthropic-messages", "gemini"];
const all = recordings()?.filter(({ status }) => status < 300);

/** A gateway before a provider for each protocol that answers with the recording that a header names. */
async function between(t: Test, found: readonly Recording[]) {
  const upstream = createServer((incoming, response) => {
    incoming.resume();
    const { status, contentType, body } = found[Number(incoming.headers["x-recording"])] as Recording;
    response.writeHead(status, { "content-type": contentType }).end(body);
  });
  const url = `http://127.0.0.1:${await listen(t, upstream)}/v1`;
  const protocols = [...new Set(found.map(({ protocol }) => protocol))];
  const lines = protocols.map((name) => `  ${name}: { url: "${url}", protocol: ${name}, forward: [x-recording] }`);
  const models = protocols.map((name) => `  ${name}: { price: ${JSON.stringify(PRICE)}, targets: ["${name}:m"] }`);
  // What a vendor may go on with, or ask besides.
  const others = ["claude-fable-5", "claude-opus-4-7", "claude-opus-4-8"].map(
    (name) => `  ${name}: { price: ${JSON.stringify(PRICE)}, targets: ["anthropic-messages:${name}"] }`,
  );
  if (protocols.includes("anthropic-messages")) models.push(...others);
  return startGateway(t, `providers:\n${lines.join("\n")}\nmodels:\n${models.join("\n")}\n`);
}

/** How a client of each protocol asks for a model. */
const ASKING: Record<string, (model: string, stream: boolean) => [path: string, body: object]> = {
  "openai-chat": (model, stream) => [
    "/v1/chat/completions",
    {
      model,
      messages: [{ role: "user", content: "x" }],
      stream,
      ...(stream ? { stream_options: { include_usage: true } } : {}),
    },
  ],
  "openai-responses": (model, stream) => ["/v1/responses", { model, input: "x", stream }],
  "anthropic-messages": (model, stream) => [
    "/v1/messages",
    { model, max_tokens: 9, messages: [{ role: "user", content: "x" }], stream },
  ],
  gemini: (model, stream) => [
    `/v1beta/models/${model}:${stream ? "streamGenerateContent?alt=sse" : "generateContent"}`,
    { contents: [{ role: "user", parts: [{ text: "x" }] }] },
  ],
};

/** How a client of its own protocol asks for a recording. */
const pathOf = ({ path, protocol }: Recording): string => path.replace("/any:", `/${protocol}:`);

interface Wanted {
  recording: Recording;
  index: number;
  path: string;
  body: object;
}

/** The end of an answer that was made in the background and is told by several recordings: it counts once. */
const isTold = ({ id }: Recording, usage: Usage | undefined): boolean =>
  id.includes("background_mode") && usage?.in.total === undefined;

/** Recordings whose raw bodies tell a usage that the ledger does not have as reported, and why. */
const NOT_REPORTED: Readonly<Record<string, string>> = {
  "openai-responses/vercel-ai__azure.azure-deepseek-reasoning.1.stream__0": "a Chat stream at a path of Responses",
  "openai-responses/vercel-ai__azure.azure-deepseek-reasoning.1__0": "a Chat answer at a path of Responses",
  "openai-chat/pydantic-ai__test_openrouter.test_openrouter_stream_error__0": "the stream breaks off with an error",
  "gemini/pydantic-ai__test_google.test_google_model_armor_prompt_template_text_gets_blocked__1":
    "a blocked prompt, whose usage has no tokens",
};
/** The same of those that were asked for in another protocol than their own. */
const NOT_TRANSLATED: Readonly<Record<string, string>> = {
  "gemini-embeddings/pydantic-ai__test_embeddings.test_google_task_prefix_vertex__0":
    "vectors are no answer to a conversation",
};

/** Asks for all of them and tells what differs from what the raw bodies say. */
async function differing(t: Test, found: readonly Recording[], wanted: readonly Wanted[]) {
  const { url, gateway } = await between(t, found);
  const asked = new Map<string, Wanted>();
  const ask = async (one: Wanted) => {
    const headers = asking({ "x-recording": String(one.index) });
    const response = await fetch(url + one.path, { method: "POST", headers, body: JSON.stringify(one.body) });
    await response.arrayBuffer().catch(() => undefined);
    asked.set(response.headers.get("x-request-id") as string, one);
  };
  await each(wanted, ask, AT_ONCE);
  const { ledger } = gateway.stores;
  await ledger.flush();
  const odd: string[] = [];
  let equal = 0;
  for (const { id, cost, source, outcome, usage, price } of await ledger.recent(wanted.length)) {
    const terms = price === undefined ? undefined : (await gateway.stores.prices.find(price))?.price;
    let besides = 0;
    for (const { price: own, ...each } of usage?.besides ?? []) {
      const theirs = own === undefined ? terms : (await gateway.stores.prices.find(own))?.price;
      besides += reckoned({ ...each, ...(usage?.tier !== undefined && { tier: usage.tier }), raw: 0 }, theirs ?? {});
    }
    if (cost !== undefined && usage && (!terms || reckoned(usage, terms) + besides !== cost))
      odd.push(`${id} cannot be reckoned again`);
    const { recording, path } = asked.get(id) as Wanted;
    const expected = costOf(recording.protocol, recording.body.toString());
    if (outcome !== "completed" || source !== "reported" || expected === undefined) {
      // What tells no usage is no cost of 0.
      if (source === "none" && cost !== undefined) odd.push(`${recording.id} costs ${cost} of nothing known`);
      const why = NOT_REPORTED[recording.id] ?? (path === pathOf(recording) ? undefined : NOT_TRANSLATED[recording.id]);
      if (expected !== undefined && why === undefined) odd.push(`${recording.id} by ${path}: ${outcome}, ${source}`);
      if (source === "reported" && expected === undefined) odd.push(`${recording.id} has usage that nobody sees`);
    } else if (BigInt(cost ?? -1) === expected || isTold(recording, usage)) equal++;
    else odd.push(`${recording.id} by ${path}: ${cost}, not ${expected}: ${JSON.stringify(usage)}`);
  }
  return { odd, equal };
}

t.test(
  "the computed cost of every recorded answer is the one of its raw body",
  { skip: !all && "recordings are absent", timeout: LIMIT },
  async (t) => {
    const found = all ?? [];
    const wanted = found.map((recording, index) => ({
      ...{ recording, index, path: pathOf(recording) },
      body: { model: recording.protocol, stream: recording.streaming, stream_options: { include_usage: true } },
    }));
    const { odd, equal } = await differing(t, found, wanted);
    t.same(odd.slice(0, 10), [], `${odd.length} differ`);
    t.ok(equal >= tried(1777), `${equal} of ${found.length} report usage, and cost the same`);
  },
);

/** Answers of each kind that are made of recorded ones. */
const EACH = 60;
const TIER_WORD = /(?<="(?:service_tier|serviceTier|trafficType)": ?)"(?:default|standard|ON_DEMAND|auto)"/g;
const PICTURE_PARTS =
  /(?<="image_gen": ?\{\s*"input_tokens": ?0,\s*"input_tokens_details": ?\{\s*)"image_tokens": ?0,\s*"text_tokens": ?0\s*\},\s*"output_tokens": ?0,\s*"/g;

/** What vendors could tell of a recorded answer as well, in the place of what they did. */
const OTHERWISE: [what: string, find: RegExp, put: (found: string) => string][] = [
  ["batch", TIER_WORD, () => '"batch"'],
  ["priority", TIER_WORD, (found) => (found.includes("ON_DEMAND") ? '"ON_DEMAND_PRIORITY"' : '"priority"')],
  ["flex", TIER_WORD, (found) => (found.includes("ON_DEMAND") ? '"ON_DEMAND_FLEX"' : '"flex"')],
  [
    "many tokens",
    /(?<="(?:prompt_tokens|input_tokens|promptTokenCount|total_tokens|totalTokenCount)": ?)\d+/g,
    (found) => String(Number(found) + 200_000),
  ],
  ["pictures", /(?<="image_gen": ?\{\s*"input_tokens": ?)0/g, () => "41"],
  ["pictures with parts", PICTURE_PARTS, () => '"image_tokens": 30, "text_tokens": 11},"output_tokens": 1056, "_'],
];

t.test(
  "other tiers, long requests, and images drawn by a tool have the cost of the raw body",
  { skip: !all && "recordings are absent", timeout: LIMIT },
  async (t) => {
    for (const [what, find, put] of OTHERWISE) {
      const found = (all ?? []).flatMap((recording) => {
        const text = recording.body.toString();
        const body = text.replace(find, (part) => put(part));
        return body === text ? [] : [{ ...recording, body: Buffer.from(body) }];
      });
      const some = found.filter((_, n) => n % Math.ceil(found.length / EACH) === 0);
      const wanted = some.map((recording, index) => ({
        ...{ recording, index, path: pathOf(recording) },
        body: { model: recording.protocol, stream: recording.streaming, stream_options: { include_usage: true } },
      }));
      const { odd, equal } = await differing(t, some, wanted);
      t.same(odd.slice(0, 5), [], `${what}: ${odd.length} differ`);
      t.ok(equal > 0, `${what}: ${equal} of ${some.length} cost the same`);
    }
  },
);

t.test(
  "an answer has the same cost for every client protocol",
  { skip: !all && "recordings are absent", timeout: LIMIT },
  async (t) => {
    const talk = (all ?? []).filter(({ protocol, path }) => TALKING.includes(protocol) && !/count|embed/i.test(path));
    const found = talk.filter((_, n) => n % STRIDE === 0).map(asEvents);
    const wanted = found.flatMap((recording, index) =>
      TALKING.filter((client) => client !== recording.protocol).map((client) => {
        const [path, body] = (ASKING[client] as (typeof ASKING)[string])(recording.protocol, recording.streaming);
        return { recording, index, path, body };
      }),
    );
    const { odd, equal } = await differing(t, found, wanted);
    t.same(odd.slice(0, 10), [], `${odd.length} differ`);
    t.ok(equal > wanted.length * 0.85, `${equal} of ${wanted.length} cost the same`);
  },
);

t.test("after a fallback the price is that of the model that answered", async (t) => {
  const usage = { prompt_tokens: 100, completion_tokens: 10, total_tokens: 110 };
  const body = JSON.stringify({ id: "c", object: "chat.completion", choices: [], usage });
  const served = createServer((incoming, response) => {
    incoming.resume();
    const fails = incoming.url?.startsWith("/down");
    response.writeHead(fails ? 503 : 200, { "content-type": "application/json" }).end(fails ? "{}" : body);
  });
  const origin = `http://127.0.0.1:${await listen(t, served)}`;
  const { url, gateway } = await startGateway(
    t,
    `providers:
  down: { url: "${origin}/down/v1", protocol: openai-chat }
  up: { url: "${origin}/up/v1", protocol: openai-chat }
models:
  dear: { price: { input: 100, output: 1000 }, targets: [down:x], fallback: [cheap] }
  cheap: { price: { input: 1, output: 10 }, targets: [up:x] }
`,
  );
  await (
    await fetch(`${url}/v1/chat/completions`, {
      method: "POST",
      headers: asking(),
      body: '{"model":"dear","messages":[]}',
    })
  ).text();
  await gateway.stores.ledger.flush();
  const [row] = await gateway.stores.ledger.recent(1);
  t.match(row, { model: "cheap", target: "up:x", cost: 100 * 1000 + 10 * 10_000 });
  const terms = await gateway.stores.prices.find(row?.price ?? "");
  t.same(terms?.price, { input: 1, output: 10 }, "the row's price can be looked up");
});
