import { join } from "node:path";
import t from "tap";
import { readJournals } from "../../../src/store/journal/lines.ts";
import { rowToEntry } from "../../../src/store/ledger-row.ts";
import { asking, startGateway } from "../../support/gateway.ts";
import { until } from "../../support/until.ts";
import { httpUpstream } from "../../support/upstream.ts";

const chunk = (i: number) => {
  const choices = [{ index: 0, delta: { content: `word number ${i} of many. ` }, finish_reason: null }];
  return `data: ${JSON.stringify({ id: "c1", object: "chat.completion.chunk", created: 1, model: "v", choices })}\n\n`;
};

t.test(
  "a running stream writes its usage so far to the journal every five seconds, in case it is never completed",
  async (t) => {
    const { promise: later, resolve: goOn } = Promise.withResolvers<void>();
    const upstream = await httpUpstream(async (_, reply) => {
      reply.writeHead(200, { "content-type": "text/event-stream" });
      for (let i = 0; i < 40; i++) reply.write(chunk(i));
      await later;
      for (let i = 0; i < 40; i++) reply.write(chunk(i));
    });
    t.teardown(() => upstream.close());
    const running = await startGateway(
      t,
      `providers: { up: { url: "${upstream.origin.origin}/v1", speaks: [openai-chat] } }
models: { m: { price: { input: 3, output: 15 }, targets: [up:x] } }
`,
    );
    const { ledger } = running.gateway.stores;
    const open = async () => {
      ledger.persist();
      return (await readJournals(join(running.folder, "gateway.db.journal"))).open.map(rowToEntry);
    };
    const leaving = new AbortController();
    const body = JSON.stringify({ model: "m", stream: true, messages: [{ role: "user", content: "Count." }] });
    const path = `${running.url}/v1/chat/completions`;
    const response = await fetch(path, { method: "POST", headers: asking(), body, signal: leaving.signal });
    const reader = response.body?.getReader();
    let seen = 0;
    const read = async (until: number) => {
      while (seen < until)
        seen +=
          Buffer.from((await reader?.read())?.value ?? [])
            .toString()
            .split("data:").length - 1;
    };
    await read(40);
    t.match(await open(), [{ status: 0, usage: { out: {} } }], "not before");
    const { now } = performance;
    t.teardown(() => Object.assign(performance, { now }));
    performance.now = () => now.call(performance) + 6000;
    goOn();
    await read(80);
    const [entry] = await open();
    t.match(entry, { outcome: "interrupted", source: "estimated", status: 200, streaming: true });
    const out = entry?.usage?.out.total ?? 0;
    t.ok(out > 40 * 4 && out < 80 * 9, `${out} tokens`);
    t.ok((entry?.cost ?? 0) > out);
    leaving.abort();
    await until(() => running.log.lines.some(({ message }) => message === "exchange"), "its end");
    t.same(await open(), []);
    await ledger.flush();
    t.match(await ledger.recent(5), [{ outcome: "aborted", source: "estimated" }]);
  },
);
