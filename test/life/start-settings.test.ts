import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { Agent, request } from "node:http";
import { join } from "node:path";
import t from "tap";
import { asking } from "../support/key.ts";
import { type GatewayProcess, startProcess } from "../support/process.ts";
import { until } from "../support/until.ts";

/** Sends one request over a connection of its own, so that all workers get some. */
function ask({ url }: GatewayProcess): Promise<number | undefined> {
  const asked = request(`${url}/v1/chat/completions`, { method: "POST", headers: asking(), agent: new Agent() });
  asked.end(JSON.stringify({ model: "echo", messages: [{ role: "user", content: "hi" }] }));
  return new Promise((resolve, reject) => {
    asked.once("error", reject).once("response", (answer) => {
      answer.resume().once("end", () => resolve(answer.statusCode));
    });
  });
}

const askAll = async (gateway: GatewayProcess) => [
  ...new Set(await Promise.all(Array.from({ length: 8 }, () => ask(gateway)))),
];

const read = async ({ admin }: GatewayProcess, path: string) => (await fetch(`${admin}${path}`)).json();

t.test("workers that start after a reload have the store, zone and number of gateways of the start", async (t) => {
  const gateway = await startProcess(
    t,
    `workers: 2
linger: 50ms
providers: { demo: { url: "demo:" } }
models: { echo: { targets: [demo:echo] } }
`,
  );
  const file = join(gateway.folder, "gateway.yaml");
  const next = readFileSync(file, "utf8").replace("gateway.db", "next.db");
  writeFileSync(file, `${next}timezone: Pacific/Auckland\ninstances: 3\n`);
  const reloaded = (await (await fetch(`${gateway.admin}/api/reload`, { method: "POST" })).json()) as object;
  t.match(reloaded, { restart: ["instances", "store", "timezone"] });
  process.kill(gateway.workers()[0] as number, "SIGKILL");
  await until(
    async () => gateway.text.includes("a worker has died") && (await gateway.ready())?.body["workers"] === "2 of 2",
    "the successor",
  );
  t.same(await askAll(gateway), [200]);
  gateway.child.kill("SIGUSR2");
  await until(() => gateway.text.includes("workers are replaced"), "the replacement");
  t.same(await askAll(gateway), [200]);
  t.match(await read(gateway, "/api/session"), { timezone: "UTC" });
  t.match(await read(gateway, "/api/config"), {
    settings: { "store.ledger": join(gateway.folder, "gateway.db"), timezone: "UTC", instances: undefined },
    restart: ["instances", "store", "timezone"],
  });
  t.notOk(existsSync(join(gateway.folder, "next.db")), "no process opens the store of the next start");
  t.equal(await gateway.end(), 0);
  t.same(gateway.ledger(), { outcomes: { completed: 16 }, twice: 0 });
});
