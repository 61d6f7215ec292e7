import { writeFileSync } from "node:fs";
import { join } from "node:path";
import t from "tap";
import { Peers, type Topic } from "../src/core/peers.ts";
import { Gateway } from "../src/gateway.ts";
import { loadWithExtensions } from "../src/loaded-config.ts";
import { admissionShare, retryShare } from "../src/process-shares.ts";
import { MemoryLog } from "../src/testing/memory-log.ts";

const YAML = `providers: { demo: { url: "demo:" } }
models: { echo: { targets: [demo:echo] } }
`;

t.test("several processes share the memory for bodies and answers, each with enough for one key", async (t) => {
  const MIB = 1024 * 1024;
  const file = join(t.testdir(), "gateway.yaml");
  const limits = async (processes: number, memory: string) => {
    writeFileSync(file, `store: { ledger: 'sqlite::memory:' }\n${YAML}${memory}`);
    const gateway = await Gateway.open(await loadWithExtensions({ file, env: {} }), new MemoryLog(), { processes });
    const { generation } = gateway;
    const answers = Reflect.get(generation.upstreams, "options").answers.limits;
    await gateway.stop({ drain: 0 });
    const { memory: bodies, spool } = generation.limits;
    return [bodies.total, bodies.perCaller, answers.total, spool.total, spool.perCaller].map((bytes) => bytes / MIB);
  };
  t.same(await limits(1, ""), [384, 128, 256, 1024, 256]);
  t.same(await limits(2, ""), [192, 128, 128, 512, 256]);
  t.same(await limits(8, ""), [128, 128, 128, 256, 256]);
  const more =
    "body: { memory: 4GiB, memory_per_key: 64MiB, spool: 8GiB, spool_per_key: 96MiB }\nanswers: { memory: 2GiB }\n";
  t.same(await limits(8, more), [512, 64, 256, 1024, 96]);
  const less = "body: { memory: 32MiB, spool: 40MiB }\nanswers: { memory: 64MiB }\n";
  t.same(await limits(8, less), [32, 128, 64, 40, 256]);
});

t.test(
  "several processes share running and waiting requests, rounded up, and the retries that are always granted",
  async (t) => {
    const limits = { concurrency: 1000, per_key: 250, queue: 9, wait: 5000 };
    t.same(admissionShare(limits), { concurrency: 1000, perKey: 250, queue: 9, wait: 5000 });
    t.same(admissionShare(limits, 4), { concurrency: 250, perKey: 63, queue: 3, wait: 5000 });
    const retry = { least: 2 } as Parameters<typeof retryShare>[0];
    t.same(retryShare(retry, 4), { least: 0.5 });
  },
);

t.test("a process that starts later hears with which credentials objects of one provider were made", async (t) => {
  const facts = new Map<string, unknown>();
  /** Like the primary, which passes on the last fact of each key. */
  class LastFacts extends Peers {
    override publish<Fact>({ name }: Topic<Fact>, key: string, fact: Fact): void {
      facts.set(`${name} ${key}`, fact);
    }
  }
  const file = join(t.testdir(), "gateway.yaml");
  writeFileSync(file, `store: { ledger: 'sqlite::memory:' }\n${YAML}`);
  const options = { processes: 2, peers: new LastFacts() };
  const gateway = await Gateway.open(await loadWithExtensions({ file, env: {} }), new MemoryLog(), options);
  const objects = ["openai resp_0123456789ab", "openai file-0123456789cd", "openai batch_0123456789ef"];
  for (const object of objects) gateway.generation.upstreams.health.recordCredential(object, "second");
  await gateway.stop({ drain: 0 });
  t.same(
    [...facts.values()],
    objects.map((conversation) => ({ conversation, target: "second" })),
  );
});
