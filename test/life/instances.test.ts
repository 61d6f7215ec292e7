import t from "tap";
import { chat, post, startInstances, testsOnStores, vendor, yaml } from "../support/instances.ts";
import { asking } from "../support/key.ts";
import { startBalancer } from "../support/nginx.ts";
import { cli, type GatewayProcess } from "../support/process.ts";
import { until } from "../support/until.ts";

const test = await testsOnStores(t);

test("three gateways behind nginx share one budget, and each reports the total usage", async (t, stores) => {
  const up = await vendor(t, "a");
  const gateways = await startInstances(t, yaml({ p: up }, "limits: { default: { budget: $0.20 } }\n"), stores.store);
  const nginx = await startBalancer(
    t,
    gateways.map(({ port }) => port),
  );
  if (!nginx) return;
  const url = `http://127.0.0.1:${nginx.port}`;
  const statuses = await Promise.all(Array.from({ length: 150 }, async () => (await chat(url)).status));
  t.equal(statuses.filter((status) => status === 200).length, 20);
  t.equal(statuses.filter((status) => status === 429).length, 130);
  t.equal(up.seen.length, 20);
  for (const gateway of gateways) {
    const status = async () => {
      const answer = await fetch(`${gateway.url}/v1/key`, { headers: asking({ connection: "close" }) });
      const { data } = (await answer.json()) as {
        data: { limits: { budgets: { spent: number; reserved: number; remaining: number }[] }[] };
      };
      return data.limits[0]?.budgets[0];
    };
    // What an answer came to is settled behind its end.
    await until(async () => (await status())?.reserved === 0, "the settlement of all");
    t.match(await status(), { spent: 0.2, reserved: 0, remaining: 0 });
    t.ok(
      gateway.lines().some(({ msg }) => msg === "exchange"),
      "each has served",
    );
  }
  await until(async () => {
    const sums = await Promise.all(gateways.map((gateway) => cli(gateway, "usage", "--by", "model", "--json")));
    return sums.every((text) => /"requests": ?150/.test(text) && text === sums[0]);
  }, "usage, the same from each gateway");
});

test("a conversation and its stored answers are one key's at every gateway, and stay at their provider", async (t, stores) => {
  const providers = { p: await vendor(t, "p"), q: await vendor(t, "q") };
  const gateways = await startInstances(
    t,
    yaml(providers, "keys: { test: { key: test-key-0123456789abcdef }, other: { key: other-key-0123456789abcdef } }\n"),
    stores.store,
  );
  const [one, two, three] = gateways as [GatewayProcess, GatewayProcess, GatewayProcess];
  const seen = () => Object.values(providers).map(({ seen }) => seen.length);
  const served = async (asked: () => Promise<Response>) => {
    const before = seen();
    const { status } = await asked();
    return { status, by: seen().findIndex((count, i) => count > (before[i] as number)) };
  };
  // A gateway looks for a second for what another one may be writing; a starved machine takes longer.
  const found = async (asked: () => Promise<Response>) => {
    for (let tries = 1; ; tries++) {
      const answer = await served(asked);
      if (answer.status !== 404 || tries === 5) return answer;
    }
  };
  for (let i = 0; i < 6; i++) {
    const first = await post(one.url, "responses", { input: `question ${i}` });
    const { id } = (await first.json()) as { id: string };
    const by = ["p", "q"].findIndex((name) => id.startsWith(`resp_${name}`));
    const next = await found(() => post(two.url, "responses", { input: "and then?", previous_response_id: id }));
    t.same(next, { status: 200, by }, "continues where it began");
    const fetched = await found(() =>
      fetch(`${three.url}/v1/responses/${id}`, { headers: asking({ connection: "close" }) }),
    );
    t.same(fetched, { status: 200, by });
    const others = await served(() =>
      fetch(`${three.url}/v1/responses/${id}`, {
        headers: { ...asking({ connection: "close" }), authorization: "Bearer other-key-0123456789abcdef" },
      }),
    );
    t.same(others, { status: 404, by: -1 }, "another key's is not found, and no provider is called");
    const chats: number[] = [];
    for (const { url } of gateways)
      chats.push((await served(() => chat(url, { messages: [{ role: "user", content: `talk ${i}` }] }))).by);
    t.equal(new Set(chats).size, 1, "a conversation keeps its provider, whichever gateway serves its turns");
  }
});
