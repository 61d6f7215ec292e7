import t, { type Test } from "tap";
import { CLIENTS } from "../../support/four-clients.ts";
import { asking, startGateway } from "../../support/gateway.ts";
import { afterHearing } from "../../support/patience.ts";
import { sample } from "../../support/sample.ts";
import { askedIn, SCRIPTS, TOKENS } from "../../support/scripted.ts";
import { until } from "../../support/until.ts";
import { httpUpstream } from "../../support/upstream.ts";

const NAMES = Object.keys(SCRIPTS) as (keyof typeof SCRIPTS)[];

/** What the plugin below sees. */
const watched = globalThis as { leavingExchange?: { aborted: boolean } };
const WATCHING = `
import { injectable } from "tsyringe";
import { type RouteExchange } from "model-gateway";
@injectable()
export default class Watching {
  route(exchange: RouteExchange) { (globalThis as { leavingExchange?: RouteExchange }).leavingExchange = exchange; }
}`;
/** Reads each answer whole before the client gets any of it. */
const READING = `
import { injectable } from "tsyringe";
import { type Head, type ResponseExchange } from "model-gateway";
@injectable()
export default class Reading {
  async response(_: ResponseExchange, head: Head) { await head.readBody?.(1e6); }
}`;

/** Of a whole answer: its first four kilobytes are inspected before plugins see them. */
const PADDINGS = { short: "x".repeat(1000), long: "x".repeat(20_000) };

/** The point at which a client leaves: before the answer's head, before its first frame, or when half of it has come. */
type Moment = "head" | "frame" | "half";

/** Starts a gateway with a provider of each protocol, whose answers stop at the moment at which the client leaves. */
async function start(
  t: Test,
  cut: string,
  reads: "no" | "before" | "after" = "no",
  size: keyof typeof PADDINGS = "long",
) {
  let asked = { moment: "head" as Moment, has: false, closed: false };
  const upstream = await httpUpstream(async (request, reply) => {
    const current = asked;
    const { vendor, stream } = askedIn(request);
    const script = SCRIPTS[vendor];
    const text = stream
      ? script.frames("text").join("")
      : JSON.stringify({ padding: PADDINGS[size], ...script.whole("text") });
    const half = text.slice(0, current.moment === "half" ? text.length * 0.7 : 0);
    reply.on("close", () => {
      current.closed = !reply.writableEnded;
    });
    const begin = () => reply.writeHead(200, { "content-type": stream ? "text/event-stream" : "application/json" });
    if (current.moment !== "head") begin().write(half);
    current.has = true;
    await until(() => watched.leavingExchange?.aborted === true, "the client has left");
    if (cut !== "drain") return;
    if (current.moment === "head") begin();
    reply.end(text.slice(half.length));
  });
  t.teardown(() => upstream.close());
  const origin = upstream.origin.origin;
  const yaml = `providers:
${NAMES.map((name) => `  ${name}: { url: "${origin}/${name === "gemini" ? "v1beta" : "v1"}", speaks: [${name}] }`).join("\n")}
models:
${NAMES.map((name) => `  to-${name}: { price: { input: 3, output: 15 }, targets: ["${name}:x"] }`).join("\n")}
plugins: { usage: { cut: ${cut} }, watch: { from: ./watch.ts }, reading: { from: ./reading.ts } }
chains: { llm: [sse, auth, scrub, models, watch, ${{ no: "rewrite, usage", before: "reading, rewrite, usage", after: "rewrite, usage, reading" }[reads]}] }
`;
  const { url, gateway, log } = await startGateway(t, yaml, { "watch.ts": WATCHING, "reading.ts": READING });
  const ended = () => log.lines.filter(({ message }) => message === "exchange").length;
  return async ({ from, to, stream, moment }: Case) => {
    const current = { moment, has: false, closed: false };
    asked = current;
    delete watched.leavingExchange;
    const client = CLIENTS[from] as (typeof CLIENTS)[string];
    const body = JSON.stringify(client.with(client.ask("A question.", "look"), `to-${to}`, stream));
    const leaving = new AbortController();
    const path = url + client.path(`to-${to}`, stream);
    const left = fetch(path, { method: "POST", headers: asking(), body, signal: leaving.signal })
      .then((answer) => answer.text())
      .catch(() => {});
    await until(() => current.has, "the provider has the request");
    if (moment !== "head") await new Promise<void>((arrived) => afterHearing(20, arrived));
    const before = ended();
    leaving.abort();
    await left;
    await until(() => ended() > before, "the end");
    await gateway.stores.ledger.flush();
    const [entry] = await gateway.stores.ledger.recent(1);
    return { entry, closed: current.closed };
  };
}

interface Case {
  from: keyof typeof SCRIPTS;
  to: keyof typeof SCRIPTS;
  stream: boolean;
  moment: Moment;
}

/** Every pair of protocols, streamed and whole, and each of these moments. */
const casesAt = (...moments: Moment[]): Case[] =>
  NAMES.flatMap((from) =>
    NAMES.flatMap((to) => [true, false].flatMap((stream) => moments.map((moment) => ({ from, to, stream, moment })))),
  );
const nameOf = ({ from, to, stream, moment }: Case) =>
  `${from} to ${to}, ${stream ? "streamed" : "whole"}, leaving at: ${moment}`;

for (const reads of ["no", "before"] as const)
  t.test(
    `with \`drain\` an answer ${reads === "before" ? "that a plugin reads first " : ""}is read on from when its provider has the request`,
    async (t) => {
      const leave = await start(t, "drain", reads);
      for (const one of sample(casesAt("head", "frame", "half"))) {
        const { entry, closed } = await leave(one);
        const expected = { outcome: "aborted", source: "reported", usage: { out: { total: TOKENS.out } } };
        t.match(entry, expected, nameOf(one));
        t.notOk(closed, nameOf(one));
      }
    },
  );

t.test(
  "with `estimate` what has arrived counts, also where a plugin reads it before the client gets any of it",
  async (t) => {
    for (const reads of ["no", "before", "after"] as const)
      for (const size of ["short", "long"] as const) {
        const leave = await start(t, "estimate", reads, size);
        for (const one of sample(casesAt("half"))) {
          const { entry } = await leave(one);
          t.match(entry, { outcome: "aborted" }, nameOf(one));
          const { total = 0 } = entry?.usage?.out ?? {};
          const name = `${size}, read: ${reads}, ${nameOf(one)}: ${total} tokens`;
          // Of a stream only the text counts, and not what each event has around it.
          t.ok(total > 0 && (!one.stream || total <= 2 * TOKENS.out), name);
        }
      }
  },
);

t.test(
  "with `drain` an answer keeps its connection slot; a request that waits for one ends at once, free",
  async (t) => {
    const answer = Promise.withResolvers<void>();
    const upstream = await httpUpstream(async (_, reply) => {
      await answer.promise;
      reply.writeHead(200, { "content-type": "application/json" });
      reply.end(JSON.stringify(SCRIPTS["openai-chat"].whole("text")));
    });
    t.teardown(() => upstream.close());
    const { url, gateway, log } = await startGateway(
      t,
      `providers: { up: { url: "${upstream.origin.origin}/v1", speaks: [openai-chat], concurrency: 1 } }
models: { m: { price: { input: 3, output: 15 }, targets: [up:x] } }
plugins: { usage: { cut: drain } }\n`,
    );
    const running = () => gateway.exchanges.length;
    const ask = () => {
      const leaving = new AbortController();
      const body = JSON.stringify({ model: "m", messages: [{ role: "user", content: "x" }] });
      const path = `${url}/v1/chat/completions`;
      fetch(path, { method: "POST", headers: asking(), body, signal: leaving.signal }).catch(() => {});
      return leaving;
    };
    const first = ask();
    await until(() => upstream.seen.length === 1, "the provider has the first");
    first.abort();
    const second = ask();
    await until(() => running() === 2, "the second waits");
    second.abort();
    await until(() => running() === 1, "the second has ended");
    answer.resolve();
    await until(() => log.lines.filter(({ message }) => message === "exchange").length === 2, "the end of both");
    await gateway.stores.ledger.flush();
    const rows = await gateway.stores.ledger.recent(2);
    t.match(
      rows.toSorted((a, b) => a.time - b.time),
      [
        { outcome: "aborted", source: "reported", usage: { out: { total: TOKENS.out } } },
        { outcome: "aborted", source: "free", cost: 0, attempts: { length: 0 } },
      ],
    );
    t.equal(upstream.seen.length, 1);
  },
);

t.test("with `drain` the answer of a plugin ends with its client: nothing has to be paid", async (t) => {
  const { url, gateway } = await startGateway(
    t,
    `providers: { demo: { url: "demo:" } }
models: { m: { targets: ["demo:echo"] } }
plugins: { own: { from: ./own.ts }, usage: { cut: drain } }
chains: { llm: [auth, models, usage, own] }
`,
    {
      "own.ts": `export default class Own {
  route(exchange) { exchange.answer = { headers: { "content-type": "text/event-stream" }, body: this.endless() }; }
  async *endless() {
    for (;;) {
      yield Buffer.from('data: {"choices":[{"index":0,"delta":{"content":"x"}}]}\\n\\n');
      await new Promise((resolve) => setTimeout(resolve, 10));
    }
  }
}`,
    },
  );
  const leaving = new AbortController();
  const body = '{"model":"m","stream":true,"messages":[{"role":"user","content":"hi"}]}';
  const asked = { method: "POST", headers: asking(), body, signal: leaving.signal };
  await (await fetch(`${url}/v1/chat/completions`, asked)).body?.getReader().read();
  leaving.abort();
  await until(() => gateway.exchanges.length === 0, "the end of the answer");
});
