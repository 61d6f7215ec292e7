import t, { type Test } from "tap";
import type { LedgerEntry } from "../../../src/store/ledger.ts";
import { asking, startGateway } from "../../support/gateway.ts";
import { until } from "../../support/until.ts";
import { httpUpstream } from "../../support/upstream.ts";

const PRICE =
  "{ input: 3, output: 15, priority: { input: 30, output: 150 }, fast: { input: 60, output: 300 }, flex: { input: 1, output: 5 } }";
const QUESTION = "Tell me everything that you know about it. ".repeat(40);
const TEXT = "so many words ".repeat(100);

/** What is written down of a request whose client leaves once the provider has answered so much: as it begins, and at its end. */
async function left(t: Test, [protocol, path, body]: readonly [string, string, object], answer = "", type?: string) {
  const asked = Promise.withResolvers<void>();
  const upstream = await httpUpstream((_, reply) => {
    if (answer) reply.writeHead(200, { "content-type": type ?? "text/event-stream" }).write(answer);
    asked.resolve();
  });
  t.teardown(() => upstream.close());
  const { url, gateway, log } = await startGateway(
    t,
    `providers: { up: { url: "${upstream.origin.origin}", speaks: [${protocol}] } }
models: { m: { price: ${PRICE}, targets: [up:x] } }\n`,
  );
  const { ledger } = gateway.stores;
  const begun: LedgerEntry[] = [];
  const begin = ledger.begin.bind(ledger);
  ledger.begin = (entry) => {
    begun.push(entry);
    begin(entry);
  };
  const leaving = new AbortController();
  const response = fetch(url + path, {
    method: "POST",
    headers: asking(),
    body: JSON.stringify({ model: "m", ...body }),
    signal: leaving.signal,
  });
  await asked.promise;
  if (answer) {
    const reader = (await response).body?.getReader();
    // Of a whole answer its end may be kept back.
    for (let seen = 0; seen < answer.length / 2; ) seen += (await reader?.read())?.value?.length ?? answer.length;
  }
  leaving.abort();
  await response.then((answer) => answer.text()).catch(() => {});
  await until(() => log.lines.some(({ message }) => message === "exchange"), "the end");
  await ledger.flush();
  const [ended] = await ledger.recent(1);
  t.match(ended, { outcome: "aborted" });
  return { begun: begun[0] as LedgerEntry, ended: ended as LedgerEntry };
}

/** The input rate that an entry was charged at: an estimate has no other kinds of tokens. */
const rateOf = ({ usage, cost }: LedgerEntry): number =>
  Math.round((cost ?? 0) / 1000 / ((usage?.in.total ?? 0) + 5 * (usage?.out.total ?? 0)));

const chat = (more: object) =>
  ["openai-chat", "/v1/chat/completions", { messages: [{ role: "user", content: QUESTION }], ...more }] as const;
const responses = (more: object) => ["openai-responses", "/v1/responses", { input: QUESTION, ...more }] as const;
const messages = (more: object) =>
  [
    "anthropic-messages",
    "/v1/messages",
    { max_tokens: 99, messages: [{ role: "user", content: QUESTION }], ...more },
  ] as const;
const gemini = (more: object) =>
  [
    "gemini",
    "/v1beta/models/m:streamGenerateContent?alt=sse",
    { contents: [{ role: "user", parts: [{ text: QUESTION }] }], ...more },
  ] as const;

const CASES = [
  [chat({ service_tier: "priority" }), 30],
  [chat({}), 3],
  [chat({ service_tier: "flex" }), 3],
  [responses({ service_tier: "priority" }), 30],
  [messages({ speed: "fast" }), 60],
  [messages({ service_tier: "auto" }), 3],
  [gemini({ serviceTier: "SERVICE_TIER_PRIORITY" }), 30],
] as const;

for (const [request, rate] of CASES)
  t.test(
    `a request whose client disconnects before an answer costs the requested tier: ${rate}, ${request[0]}`,
    async (t) => {
      const { begun, ended } = await left(t, request);
      t.equal(rateOf(begun), rate, "the row of a killed gateway");
      t.match(ended, { source: "estimated" });
      t.equal(rateOf(ended), rate);
    },
  );

const chunk = (more: object) =>
  `data: ${JSON.stringify({ id: "c1", object: "chat.completion.chunk", created: 1, model: "v", choices: [{ index: 0, delta: { content: TEXT }, finish_reason: null }], ...more })}\n\n`;
const started = (tier: string) =>
  `event: response.created\ndata: ${JSON.stringify({ type: "response.created", sequence_number: 0, response: { id: "resp_1", object: "response", status: "in_progress", output: [], service_tier: tier } })}\n\n`;

const TOLD = [
  [chat({ stream: true, service_tier: "priority" }), chunk({}), 30],
  [chat({ stream: true, service_tier: "priority" }), chunk({ service_tier: "default" }), 3],
  [chat({ stream: true }), chunk({ service_tier: "priority" }), 30],
  [chat({ stream: true, service_tier: "auto" }), chunk({ service_tier: "flex" }) + chunk({}).repeat(5), 1],
  [responses({ stream: true }), started("priority"), 30],
  [responses({ stream: true, service_tier: "priority" }), started("auto"), 30],
] as const;

for (const [request, answer, rate] of TOLD)
  t.test(
    `a stream whose client disconnects costs the tier in its frames, or else the requested one: ${rate}`,
    async (t) => {
      const { ended } = await left(t, [...request], answer);
      t.equal(ended.source, "estimated");
      t.equal(rateOf(ended), rate, JSON.stringify(ended.usage));
    },
  );

t.test("a whole answer whose client disconnects midway costs the requested tier", async (t) => {
  const half = `{"id":"c1","object":"chat.completion","choices":[{"index":0,"message":{"role":"assistant","content":"${TEXT.repeat(200)}`;
  const { ended } = await left(t, chat({ service_tier: "priority" }), half, "application/json");
  t.equal(ended.source, "estimated");
  t.equal(rateOf(ended), 30);
});
