import { readFileSync, writeFileSync } from "node:fs";
import { Agent, request } from "node:http";
import { connect } from "node:net";
import { join } from "node:path";
import t from "tap";
import { asking, KEY } from "../support/key.ts";
import { ask, BODY, page, passed, provider, yaml } from "../support/limited.ts";
import { startProcess } from "../support/process.ts";
import { until } from "../support/until.ts";

t.test("workers share one budget, and one that dies leaves no reservation", async (t) => {
  const upstream = await provider(t);
  const gateway = await startProcess(t, yaml(upstream.origin, "$0.20", "workers: 2\nlinger: off"));
  const statuses = await Promise.all(Array.from({ length: 100 }, () => ask(gateway.url)));
  t.equal(passed(statuses), 20);
  t.equal(statuses.filter((status) => status === 429).length, 80);
  t.equal(upstream.seen.length, 20);
  t.match(await page(gateway), [
    { concurrency: { remaining: 900 }, budgets: [{ spent: 0.2, reserved: 0 }] },
    { budgets: [{ spent: 0.2, reserved: 0 }] },
  ]);
  t.equal(await gateway.end(), 0);
});

t.test("a budget added by a reload includes what workers have spent a moment before", async (t) => {
  const upstream = await provider(t);
  const settings = yaml(upstream.origin, "$900", "workers: 2\nlinger: off");
  const gateway = await startProcess(
    t,
    settings.replace(/^limits:.*$/m, "limits: { models: { m: { concurrency: 900 } } }"),
  );
  let going = true;
  const traffic = Array.from({ length: 3 }, async () => {
    let count = 0;
    for (; going; count++) t.equal(await ask(gateway.url), 200);
    return count;
  });
  await until(() => upstream.seen.length > 20, "requests without a budget");
  const file = join(gateway.folder, "gateway.yaml");
  writeFileSync(file, readFileSync(file, "utf8").replace(/^limits:.*$/m, "limits: { all: { budget: $900/month } }"));
  t.equal((await fetch(`${gateway.admin}/api/reload`, { method: "POST" })).status, 200);
  const soFar = upstream.seen.length;
  await until(() => upstream.seen.length > soFar + 20, "requests with it");
  going = false;
  const counts = await Promise.all(traffic);
  const { limits } = (await (await fetch(`${gateway.admin}/api/budgets`)).json()) as {
    limits: { kind: string; budgets: { spent: number; reserved: number }[] }[];
  };
  const cent = 10_000_000;
  t.match(limits.find(({ kind }) => kind === "all")?.budgets, [
    { spent: cent * counts.reduce((sum, count) => sum + count, 0), reserved: 0 },
  ]);
  t.equal(await gateway.end(), 0);
});

t.test(
  "what the workers of a killed primary still run stays reserved at the next one, and then counts once",
  async (t) => {
    const release = Promise.withResolvers<void>();
    const upstream = await provider(t, release.promise);
    const settings = yaml(upstream.origin, "$0.20", "workers: 2\nlinger: off");
    const first = await startProcess(t, settings);
    const held = Array.from({ length: 14 }, () => ask(first.url, BODY.replace("{", '{"user":"held",')));
    await until(() => upstream.seen.length === 14, "the requests that run on");
    t.equal(await ask(first.url), 200);
    await first.end("SIGKILL");
    const next = await startProcess(t, settings, { folder: first.folder });
    const before = await Promise.all(Array.from({ length: 10 }, () => ask(next.url)));
    t.equal(passed(before), 5, "a cent for each of the others is left");
    t.match(await page(next), [{ budgets: [{ spent: 0.06, reserved: 0.14 }] }, { budgets: [{ spent: 0.06 }] }]);
    release.resolve();
    t.equal(passed(await Promise.all(held)), 14);
    await until(async () => (await page(next))[0]?.budgets[0]?.reserved === 0, "the rows of the others");
    t.match(await page(next), [{ budgets: [{ spent: 0.2 }] }, { budgets: [{ spent: 0.2 }] }]);
    t.equal(await ask(next.url), 429);
    t.equal(await next.end(), 0);
  },
);

t.test("the workers of a killed primary end idle connections, where they cannot count limits", async (t) => {
  for (const limits of [true, false]) {
    const release = Promise.withResolvers<void>();
    const upstream = await provider(t, release.promise);
    const settings = yaml(upstream.origin, "$0.90", "workers: 2");
    const gateway = await startProcess(t, limits ? settings : settings.replace(/^limits:.*$/m, ""));
    const held = Array.from({ length: 8 }, () => ask(gateway.url, BODY.replace("{", '{"user":"held",')));
    await until(() => upstream.seen.length === 8, "requests in both workers");
    const head = `POST /v1/chat/completions HTTP/1.1\r\nhost: a\r\nauthorization: Bearer ${KEY}\r\ncontent-type: application/json\r\ncontent-length: ${BODY.length}\r\n\r\n`;
    const kept = Array.from({ length: 20 }, () => {
      const socket = connect(gateway.port, "127.0.0.1");
      const got = { statuses: [] as string[], ended: false, ask: () => socket.write(head + BODY) };
      socket.setEncoding("latin1").on("data", (text: string) => {
        for (const [, status = ""] of text.matchAll(/^HTTP\/1.1 (\d+)/gm)) got.statuses.push(status);
      });
      socket.on("end", () => (got.ended = true)).on("error", () => {});
      t.teardown(() => socket.destroy());
      got.ask();
      return got;
    });
    const statuses = () => kept.flatMap((each) => each.statuses);
    await until(() => statuses().length === 20, "the answers");
    await gateway.end("SIGKILL");
    if (limits) await until(() => kept.every(({ ended }) => ended), "the end of idle connections");
    else for (const each of kept) each.ask();
    if (!limits) await until(() => statuses().length === 40, "the answers of the workers");
    t.same(new Set(statuses()), new Set(["200"]));
    t.equal(upstream.seen.length, limits ? 28 : 48);
    release.resolve();
    t.equal(passed(await Promise.all(held)), 8);
  }
});

for (const workers of [1, 2])
  t.test(`with \`workers: ${workers}\` what a stopping gateway still runs is reserved at its successor`, async (t) => {
    const release = Promise.withResolvers<void>();
    const upstream = await provider(t, release.promise);
    const settings = yaml(upstream.origin, "$0.20", `workers: ${workers}`);
    const first = await startProcess(t, settings);
    const agent = new Agent({ keepAlive: true, maxSockets: 1 });
    t.teardown(() => agent.destroy());
    const kept = (body: string) =>
      new Promise<number | undefined>((resolve, reject) => {
        const options = { method: "POST", agent, headers: asking() };
        request(`${first.url}/v1/chat/completions`, options, (answer) =>
          answer.resume().once("end", () => resolve(answer.statusCode)),
        )
          .once("error", reject)
          .end(body);
      });
    t.equal(await kept(BODY), 200);
    const held = Array.from({ length: 13 }, () => ask(first.url, BODY.replace("{", '{"user":"held",')));
    await until(() => upstream.seen.length === 14, "the requests that run on");
    const ended = first.end();
    const next = await startProcess(t, settings, { folder: first.folder });
    const before = await Promise.all(Array.from({ length: 10 }, () => ask(next.url)));
    t.equal(passed(before), 6, "a cent for each of the others is left");
    t.match(await page(next), [{ budgets: [{ spent: 0.07, reserved: 0.13 }] }, { budgets: [{ spent: 0.07 }] }]);
    t.equal(await kept(BODY), 200, "the first one serves what comes on its connections");
    release.resolve();
    t.equal(passed(await Promise.all(held)), 13);
    t.equal(await ended, 0);
    const spent = async () => (await page(next)).map(({ budgets }) => budgets[0]?.spent).join();
    await until(async () => (await spent()) === "0.21,0.21", "the rows of the first, in both budgets");
    t.match(await page(next), [{ budgets: [{ reserved: 0 }] }, { budgets: [{ reserved: 0 }] }]);
    t.equal(await ask(next.url), 429);
    t.equal(await next.end(), 0);
  });

t.test("the reservations of a worker that is killed are released", async (t) => {
  const upstream = await provider(t);
  const WHERE = "export default class Where { access(exchange) { exchange.notices.push(String(process.pid)); } }";
  const file = yaml(
    upstream.origin,
    "$0.20",
    "workers: 2\nlinger: off\nplugins: { where: { from: ./where.ts } }\nchains: { llm: [sse, auth, where, models, limits, rewrite, usage] }",
  );
  const gateway = await startProcess(t, file, { files: { "where.ts": WHERE } });
  const answer = await fetch(`${gateway.url}/v1/chat/completions`, {
    method: "POST",
    headers: asking({ connection: "close" }),
    body: BODY,
  });
  await answer.text();
  const pid = Number(answer.headers.get("gateway-notice"));
  const hanging = Array.from({ length: 8 }, () => ask(gateway.url, BODY.replace("{", '{"user":"hang",')));
  await until(() => upstream.seen.length === 9, "the requests that hang");
  t.match(await page(gateway), [{ concurrency: { remaining: 892 }, budgets: [{ spent: 0.01, reserved: 0.08 }] }, {}]);
  process.kill(pid, "SIGKILL");
  await until(async () => ((await page(gateway))[0]?.concurrency?.remaining ?? 0) > 892, "what it gives back");
  const [own] = await page(gateway);
  const left = 900 - (own?.concurrency?.remaining ?? 0);
  t.ok(left < 8, `${left} still run with the other worker`);
  await until(
    async () => (await page(gateway))[0]?.budgets[0]?.reserved === Number((left * 0.01).toFixed(2)),
    "the rows of the others to be in the ledger",
  );
  upstream.cut();
  await Promise.all(hanging);
  t.equal(await gateway.end(), 0);
});
