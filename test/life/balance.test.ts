import t, { type Test } from "tap";
import { asking, startGateway } from "../support/gateway.ts";
import { type FakeUpstream, httpUpstream } from "../support/upstream.ts";

/** Providers that answer after so many milliseconds, while `well` says that they do. */
async function providers(t: Test, ...delays: number[]) {
  const well = delays.map(() => true);
  const upstreams = await Promise.all(
    delays.map((delay, i) =>
      httpUpstream((_, reply) => {
        const status = well[i] ? 200 : 503;
        setTimeout(() => reply.writeHead(status, { "content-type": "application/json" }).end("{}"), delay);
      }),
    ),
  );
  t.teardown(() => Promise.all(upstreams.map((upstream) => upstream.close())));
  const counts = () => upstreams.map(({ seen }) => seen.length);
  return { upstreams, well, counts };
}

const gateway = (t: Test, upstreams: readonly FakeUpstream[], model: string) =>
  startGateway(
    t,
    `providers:\n${upstreams.map(({ origin }, i) => `  p${i}: { url: "${origin.origin}/v1", speaks: [openai-chat] }\n`).join("")}models: { m: ${model} }\nplugins: { models: { continuity: off } }\nretry: { least: 1000 }\n`,
  );

/** So many requests, eight at a time. */
async function ask({ url }: { url: string }, requests: number, t: Test): Promise<void> {
  let left = requests;
  const body = '{"model":"m","messages":[]}';
  const one = async () => {
    while (left-- > 0) {
      const answer = await fetch(`${url}/v1/chat/completions`, { method: "POST", headers: asking(), body });
      await answer.arrayBuffer();
      t.equal(answer.status, 200);
    }
  };
  await Promise.all(Array.from({ length: 8 }, one));
}

t.test("by latency: a slow provider gets few requests, and more than none", async (t) => {
  const { upstreams, counts } = await providers(t, 2, 2, 150);
  const running = await gateway(t, upstreams, "{ balance: latency, targets: [p0:x, p1:x, p2:x] }");
  await ask(running, 300, t);
  const [one, two, late] = counts() as [number, number, number];
  t.ok(late > 0 && late < Math.min(one, two) / 2, `${[one, two, late]}`);
});

t.test("by latency: a target whose errors come fast gets few requests", async (t) => {
  const refusing = await httpUpstream((_, reply) =>
    reply.writeHead(404, { "content-type": "application/json" }).end('{"error":{"message":"no such model"}}'),
  );
  t.teardown(() => refusing.close());
  const { upstreams } = await providers(t, 20);
  const running = await gateway(t, [refusing, ...upstreams], "{ balance: latency, targets: [p0:x, p1:x] }");
  for (let i = 0; i < 30; i++) {
    const body = '{"model":"m","messages":[]}';
    await (await fetch(`${running.url}/v1/chat/completions`, { method: "POST", headers: asking(), body })).text();
  }
  t.ok(refusing.seen.length < 5, `${refusing.seen.length} of 30`);
});

t.test("cheapest: all requests go to the cheapest while it is healthy, then to the next", async (t) => {
  const { upstreams, well, counts } = await providers(t, 1, 1, 1);
  const targets =
    "[{ to: p0:x, price: { input: 3, output: 9 } }, { to: p1:x, price: { input: 1, output: 2 } }, { to: p2:x, price: { input: 2, output: 3 } }]";
  const running = await gateway(t, upstreams, `{ balance: cheapest, targets: ${targets} }`);
  await ask(running, 30, t);
  t.same(counts(), [0, 30, 0]);
  well[1] = false;
  await ask(running, 60, t);
  const [dear, broken, next] = counts() as [number, number, number];
  t.same([dear, next], [0, 60]);
  t.ok(broken < 30 + 20, `${broken - 30} before it is put to rest`);
});
