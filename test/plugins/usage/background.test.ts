import { join } from "node:path";
import t, { type Test } from "tap";
import { metricsText } from "../../../src/admin/metrics.ts";
import { Gateway } from "../../../src/gateway.ts";
import { readJournals } from "../../../src/store/journal/lines.ts";
import { rowToEntry } from "../../../src/store/ledger-row.ts";
import { asking, MemoryLog, startGateway } from "../../support/gateway.ts";
import { until } from "../../support/until.ts";
import { httpUpstream } from "../../support/upstream.ts";

const TOKENS = { input_tokens: 500, output_tokens: 30, total_tokens: 530 };
const COST = (500 * 3 + 30 * 15) * 1000;

const made = (status: string) => ({
  ...{ id: "resp_1", object: "response", background: true, output: [] },
  ...{ status, usage: status === "completed" ? TOKENS : null },
});
const event = (type: string, more: object) => `event: ${type}\ndata: ${JSON.stringify({ type, ...more })}\n\n`;
const BEGINNING = [
  event("response.created", { response: made("in_progress") }),
  event("response.output_item.done", { item: { type: "web_search_call", id: "ws_1", status: "completed" } }),
  ...Array.from({ length: 9 }, (_, i) => event("response.output_text.delta", { delta: `word ${i} of this answer. ` })),
].join("");
const END = event("response.completed", { response: made("completed") });

/** Starts a gateway with a provider of background answers, whose streams stop after their beginning. */
async function start(t: Test, cut: string, stops: "waits" | "breaks off") {
  const upstream = await httpUpstream(({ method, url }, reply) => {
    const streams = method === "POST" || url.includes("stream=true");
    reply.writeHead(200, { "content-type": streams ? "text/event-stream" : "application/json" });
    if (method !== "POST") reply.end(streams ? END : JSON.stringify(made("completed")));
    else reply.write(BEGINNING, () => stops === "breaks off" && reply.destroy());
  });
  t.teardown(() => upstream.close());
  const started = await startGateway(
    t,
    `providers: { up: { url: "${upstream.origin.origin}/v1", speaks: [openai-responses] } }
models: { m: { price: { input: 3, output: 15, web_search: 0.01 }, targets: [up:x] } }
plugins: { usage: { cut: ${cut} } }\n`,
  );
  const { url, log, gateway } = started;
  const ended = (count: number) =>
    until(() => log.lines.filter(({ message }) => message === "exchange").length === count, `the end of ${count}`);
  const body = JSON.stringify({ model: "m", input: "A question.", background: true, stream: true });
  return {
    ...started,
    ended,
    /** Creates a response, reads its beginning and leaves. */
    async create() {
      const response = await fetch(`${url}/v1/responses`, { method: "POST", headers: asking(), body });
      const reader = response.body?.getReader();
      for (let seen = 0; seen < BEGINNING.length; ) seen += (await reader?.read())?.value?.length ?? BEGINNING.length;
      await reader?.cancel().catch(() => {});
      await ended(1);
    },
    async fetchIt(query = "") {
      const text = await (await fetch(`${url}/v1/responses/resp_1${query}`, { headers: asking() })).text();
      t.match(text, "completed");
    },
    async sums() {
      await gateway.stores.ledger.flush();
      return gateway.stores.ledger.sums({ by: [] });
    },
  };
}

for (const [cut, stops] of [
  ["estimate", "waits"],
  ["estimate", "breaks off"],
  ["observed", "waits"],
  ["absorb", "waits"],
  ["drain", "breaks off"],
] as const)
  t.test(`with \`${cut}\` a background answer costs once, when it is fetched, if its stream ${stops}`, async (t) => {
    const { create, fetchIt, sums, ended, gateway } = await start(t, cut, stops);
    await create();
    t.match(await sums(), [{ requests: 1, unsettled: 1, tokensIn: 0, tokensOut: 0, cost: 0 }], "before it is fetched");
    t.match(await gateway.stores.ledger.recent(1), [{ source: "none", cost: undefined, assumedCost: undefined }]);
    await fetchIt("?stream=true&starting_after=4");
    await fetchIt();
    await ended(3);
    t.match(await sums(), [{ requests: 3, tokensIn: 500, tokensOut: 30, cost: COST }]);
  });

t.test("a background answer that is fetched again after a restart counts nothing in metrics either", async (t) => {
  const { create, fetchIt, ended, gateway, folder } = await start(t, "estimate", "waits");
  await create();
  await fetchIt();
  await ended(2);
  await gateway.stop({ drain: 0 });
  const next = await Gateway.start({ file: join(folder, "gateway.yaml"), env: {}, log: new MemoryLog() });
  t.teardown(() => next.stop({ drain: 0 }));
  await next.stores.ledger.countedNames(1);
  const { port } = next.address;
  const response = await fetch(`http://127.0.0.1:${port}/v1/responses/resp_1`, { headers: asking() });
  t.match(await response.text(), "completed");
  await until(() => next.exchanges.length === 0, "its end");
  const { text } = await metricsText(next);
  t.match(text, /^gateway_requests_total\{.*target="up:x".*\} 1$/m);
  t.notMatch(text, /^gateway_tokens_total\{.*target="up:x".*\} [1-9]/m);
});

t.test("a killed gateway leaves no estimate of a background answer, which is counted when it is fetched", async (t) => {
  const { url, gateway, folder } = await start(t, "estimate", "waits");
  const body = JSON.stringify({ model: "m", input: "A question.", background: true, stream: true });
  const leaving = new AbortController();
  const response = await fetch(`${url}/v1/responses`, {
    ...{ method: "POST", headers: asking(), body, signal: leaving.signal },
  });
  await response.body?.getReader().read();
  gateway.stores.ledger.persist();
  const { open } = await readJournals(join(folder, "gateway.db.journal"));
  t.match(open.map(rowToEntry), [{ outcome: "interrupted", source: "none", usage: undefined, cost: undefined }]);
  leaving.abort();
});

t.test(
  "a stream that breaks off is estimated where its provider ignores `background`: nobody fetches it",
  async (t) => {
    const beginning = BEGINNING.replaceAll('"background":true', '"background":false');
    const upstream = await httpUpstream((_, reply) => {
      reply.writeHead(200, { "content-type": "text/event-stream" });
      reply.write(beginning, () => reply.destroy());
    });
    t.teardown(() => upstream.close());
    const { url, log, gateway } = await startGateway(
      t,
      `providers: { up: { url: "${upstream.origin.origin}/v1", speaks: [openai-responses] } }
models: { m: { price: { input: 3, output: 15, web_search: 0.01 }, targets: [up:x] } }\n`,
    );
    const body = JSON.stringify({ model: "m", input: "A question.", background: true, stream: true });
    const response = await fetch(`${url}/v1/responses`, { method: "POST", headers: asking(), body });
    await response.text().catch(() => {});
    await until(() => log.lines.some(({ message }) => message === "exchange"), "its end");
    await gateway.stores.ledger.flush();
    t.match(await gateway.stores.ledger.recent(1), [{ source: "estimated", cost: Number }]);
  },
);

t.test("a request whose client leaves before the answer is charged: nobody knows what to fetch", async (t) => {
  for (const [cut, source] of [
    ["estimate", "estimated"],
    ["observed", "observed"],
  ] as const)
    for (const stream of [true, false]) {
      const upstream = await httpUpstream(() => {});
      t.teardown(() => upstream.close());
      const { url, log, gateway } = await startGateway(
        t,
        `providers: { up: { url: "${upstream.origin.origin}/v1", speaks: [openai-responses] } }
models: { m: { price: { input: 3, output: 15 }, targets: [up:x] } }
plugins: { usage: { cut: ${cut} } }\n`,
      );
      const body = JSON.stringify({ model: "m", input: "A question.", background: true, stream });
      const leaving = new AbortController();
      const { signal } = leaving;
      const left = fetch(`${url}/v1/responses`, { method: "POST", headers: asking(), body, signal }).catch(() => {});
      await until(() => upstream.seen.length === 1, "the provider has the request");
      leaving.abort();
      await left;
      await until(() => log.lines.some(({ message }) => message === "exchange"), "its end");
      await gateway.stores.ledger.flush();
      const [row] = await gateway.stores.ledger.recent(1);
      t.match(row, { outcome: "aborted", source }, `${cut}, stream: ${stream}`);
      t.equal((row?.cost ?? 0) > 0, cut === "estimate", `${row?.cost} nano-dollars`);
    }
});
