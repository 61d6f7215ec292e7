import { createServer } from "node:http";
import t, { type Test } from "tap";
import Langfuse from "../../examples/langfuse.ts";
import { drive } from "../../src/testing.ts";
import { listen } from "../support/listen.ts";

interface Ingested {
  id: string;
  type: string;
  timestamp: string;
  // biome-ignore lint/suspicious/noExplicitAny: a test knows what it looks for
  body: any;
}

/** A receiver of the ingestion API, which takes a batch or does not. */
async function receiver(t: Test, status = 207) {
  const batches: Ingested[][] = [];
  const asked: (string | undefined)[] = [];
  const server = createServer(async (request, response) => {
    const { batch } = JSON.parse(Buffer.concat(await request.toArray()).toString()) as { batch: Ingested[] };
    asked.push(`${request.method} ${request.url} ${request.headers.authorization}`);
    batches.push(batch);
    response.writeHead(status).end(JSON.stringify({ successes: [], errors: [] }));
  });
  return { batches, asked, url: `http://127.0.0.1:${await listen(t, server)}` };
}

/** Batches are sent at the end only, however slow the machine is. */
const settings = { public_key: "pk", secret_key: "sk", seconds: 3600 };

t.test("each exchange is a trace and a generation, sent in one batch after the responses", async (t) => {
  const { url, batches, asked } = await receiver(t);
  const driven = await drive(Langfuse, { options: { ...settings, url, texts: true } });
  for (const protocol of driven.protocols)
    for (const stream of [false, true])
      await driven.ask({ protocol, stream, chunkBytes: 4 }, { text: "Good morning." });
  t.same(batches, [], "nothing was sent in between");
  await driven.close();
  t.same(asked, ["POST /api/public/ingestion Basic cGs6c2s="]);
  const events = batches.flat();
  t.equal(events.length, 16);
  t.equal(new Set(events.map(({ id }) => id)).size, 16);
  const traces = new Map(events.filter(({ type }) => type === "trace-create").map(({ body }) => [body.id, body]));
  for (const { body, timestamp } of events.filter(({ type }) => type === "generation-create")) {
    t.match(body, { name: "any", model: "vendors-model", level: "DEFAULT", usageDetails: { input: 21, output: 9 } });
    t.same([body.input, body.output], [[{ role: "user", content: "Hello" }], "Good morning."]);
    t.match(traces.get(body.traceId), { userId: "test", output: "Good morning." });
    t.ok(Date.parse(body.startTime) <= Date.parse(body.endTime) && Date.parse(timestamp) > 0);
  }
});

t.test("texts are not sent unless configured, and failures are reported as such", async (t) => {
  const { url, batches } = await receiver(t);
  const driven = await drive(Langfuse, { options: { ...settings, url } });
  await driven.ask({ protocol: "gemini", text: "private words" }, { breakAfter: 0 });
  await driven.close();
  t.notMatch(JSON.stringify(batches), /private words/);
  t.match(batches.flat()[1]?.body, { level: "ERROR", statusMessage: /upstream/ });
});

t.test("a request whose texts readers could read differently is reported without them", async (t) => {
  const { url, batches } = await receiver(t);
  const driven = await drive(Langfuse, { options: { ...settings, url, texts: true } });
  const body = { model: "any", messages: [{ role: "user", content: "Hello" }], Messages: [] };
  t.equal((await driven.ask({ protocol: "openai-chat", body }, "Fine.")).status, 200);
  await driven.close();
  t.match(
    batches.flat().map(({ body }) => body.output),
    ["Fine.", "Fine."],
  );
  t.same(
    driven.log.filter(({ level }) => level === "error"),
    [],
  );
});

t.test("what exceeds the limit, or is not accepted, is dropped and reported, and no request suffers", async (t) => {
  const { url, batches } = await receiver(t, 500);
  const driven = await drive(Langfuse, { options: { ...settings, url, most: 4 } });
  for (let i = 0; i < 5; i++) t.equal((await driven.ask({ protocol: "openai-chat" })).status, 200);
  await driven.close();
  t.equal(batches.flat().length, 4);
  t.match(
    driven.log.filter(({ level }) => level === "warn"),
    [
      { fields: { lost: 6 }, message: /too many/ },
      { fields: { lost: 4, cause: "status 500" }, message: /did not take/ },
    ],
  );
});

t.test("a batch is no larger than what is accepted, and texts that are too large are left out of it", async (t) => {
  const { url, batches } = await receiver(t);
  const driven = await drive(Langfuse, { options: { ...settings, url, texts: true } });
  for (let i = 0; i < 8; i++)
    await driven.ask({ protocol: "openai-chat", text: `${i}${"x".repeat(250_000)}` }, "Fine.");
  await driven.ask({ protocol: "openai-chat", text: "y".repeat(4_000_000) });
  await driven.ask({ protocol: "openai-chat" }, "z".repeat(5_000_000));
  await driven.close();
  t.equal(batches.length, 2);
  for (const batch of batches) t.ok(JSON.stringify(batch).length < 3_100_000);
  const events = batches.flat();
  t.equal(events.length, 20, "nothing is lost");
  t.same(
    events.map(({ body }) => body.metadata?.texts ?? body.input[0].content[0]),
    [...Array.from({ length: 8 }, (_, i) => [`${i}`, `${i}`]).flat(), ...Array(4).fill("too large")],
  );
});
