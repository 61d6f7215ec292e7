import t from "tap";
import { makeCertificates } from "../support/certificates.ts";
import { freePort } from "../support/free-port.ts";
import { ask, BODY, page, passed, provider, yaml } from "../support/limited.ts";
import { type GatewayProcess, startProcess } from "../support/process.ts";
import { startRedis } from "../support/redis.ts";
import { until } from "../support/until.ts";

const DEMO = 'providers: { demo: { url: "demo:" } }\nmodels: { echo: { targets: [demo:echo] } }\n';
const HANGING = BODY.replace("{", '{"user":"hang",');
const limitsOf = async (gateway: GatewayProcess) => (await gateway.ready())?.body["limits"];
const spentOf = async (gateway: GatewayProcess) => (await page(gateway))[0]?.budgets[0];

t.test("workers of one gateway count at Redis too, and the reservations of a killed one are released", async (t) => {
  const redis = await startRedis(t);
  if (!redis) return;
  const upstream = await provider(t);
  const store = `store: { ledger: "sqlite:./gateway.db", limits: "${redis.url}" }\n`;
  const more = "workers: 2\nlinger: off";
  const gateway = await startProcess(t, store + yaml(upstream.origin, "$0.20", more));
  t.equal(await limitsOf(gateway), "ok");
  const hanging = Array.from({ length: 10 }, () => ask(gateway.url, HANGING));
  await until(() => upstream.seen.length === 10, "the requests that hang");
  const statuses = await Promise.all(Array.from({ length: 50 }, () => ask(gateway.url)));
  t.equal(passed(statuses), 10, "ten are spent, ten are reserved");
  for (const pid of gateway.workers()) process.kill(pid, "SIGKILL");
  await Promise.all(hanging);
  await until(
    async () => (await spentOf(gateway).catch(() => undefined))?.reserved === 0,
    "what they had reserved to go",
  );
  const rest = await Promise.all(Array.from({ length: 30 }, () => ask(gateway.url)));
  t.equal(passed(rest), 10);
});

t.test("a gateway whose Redis is unreachable, or refuses it, does not start and gives advice", async (t) => {
  const start = (url: string, more = "") =>
    startProcess(t, `store: { ledger: "sqlite:./gateway.db", limits: "${url}" }\n${more}${DEMO}`).then(
      () => "it has started",
      (thrown: Error) => thrown.message,
    );
  const nowhere = `redis://:secret-of-mine@127.0.0.1:${await freePort()}`;
  const away = await start(nowhere);
  t.match(away, /store: limits: 127\.0\.0\.1:\d+ does not answer .*ECONNREFUSED.*set instances: N/);
  t.notMatch(away, /secret-of-mine/);
  t.equal(await start(nowhere, "instances: 2\n"), "it has started");
  const redis = await startRedis(t, ["--requirepass", "right"]);
  if (!redis) return;
  const refused = await start(redis.url.replace("//", "//:secret-of-mine@"), "instances: 2\n");
  t.match(refused, /store: limits: .*WRONGPASS.*set user and password/);
  t.notMatch(refused, /secret-of-mine/);
});

t.test("a gateway whose Redis removes keys when its memory is full says so as it starts", async (t) => {
  const full = ["--maxmemory", "64mb", "--maxmemory-policy"];
  for (const [policy, workers, warnings] of [
    ["allkeys-lru", 1, 1],
    ["allkeys-lru", 2, 1],
    ["noeviction", 1, 0],
  ] as const) {
    const redis = await startRedis(t, [...full, policy]);
    if (!redis) return;
    const store = `store: { ledger: "sqlite:./gateway.db", limits: "${redis.url}" }\n`;
    const gateway = await startProcess(t, `${store}workers: ${workers}\n${DEMO}`);
    t.equal(await gateway.end(), 0);
    const told = gateway.lines().filter(({ msg }) => /set maxmemory-policy noeviction/.test(String(msg)));
    t.equal(told.length, warnings, policy);
  }
});

t.test("limits count over TLS, with a custom authority and certificate; a missing one is reported", async (t) => {
  const certificates = makeCertificates(t);
  const redis = certificates && (await startRedis(t, [], certificates));
  if (!redis) return;
  const upstream = await provider(t);
  const store = (limits: string) => `store: { ledger: "sqlite:./gateway.db", limits: "${limits}" }\n`;
  const gateways = await Promise.all(
    [1, 2].map(() => startProcess(t, store(redis.url) + yaml(upstream.origin, "$0.20", "linger: off\ninstances: 2"))),
  );
  const statuses = await Promise.all(
    Array.from({ length: 60 }, (_, i) => ask((gateways[i % 2] as GatewayProcess).url)),
  );
  t.equal(passed(statuses), 20, "both count together");
  for (const gateway of gateways) t.equal(await limitsOf(gateway), "ok");
  await redis.kill();
  for (const gateway of gateways) await until(async () => (await limitsOf(gateway)) === "apart", "it to be missed");
  await redis.start();
  for (const gateway of gateways) await until(async () => (await limitsOf(gateway)) === "ok", "it to be found again");
  const start = (url: string) =>
    startProcess(t, store(url) + DEMO).then(
      () => "it has started",
      (thrown: Error) => thrown.message,
    );
  const [bare = ""] = redis.url.split("?");
  t.match(await start(bare), /self-signed certificate.*rediss:\/\/HOST\?cacert=FILE/);
  t.match(
    await start(bare.replace("rediss:", "redis:")),
    /does not answer \(.*\): start it \(if it speaks TLS: rediss:\/\/\)/,
  );
  t.match(
    await start(`${bare}?cacert=${certificates.authority}`),
    /store: limits: 127/,
    "the server requires a certificate",
  );
  t.match(await start(bare.replace("rediss:", "redis:")), /store: limits: 127/, "and no unencrypted connection");
});
