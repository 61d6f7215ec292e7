import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { setTimeout as sleep } from "node:timers/promises";
import t from "tap";
import { FileError, StoreUnavailableError } from "../src/core/errors.ts";
import type { Log } from "../src/core/log.ts";
import type { PriceVersion } from "../src/core/price-list.ts";
import { LatePrices } from "../src/late-prices.ts";
import { openStores } from "../src/store/open.ts";
import { openPostgres } from "../src/store/postgres/migrations.ts";
import { PriceVersions } from "../src/store/price-versions.ts";
import { startGateway } from "./support/gateway.ts";
import { placeOf, startPostgres } from "./support/postgres.ts";
import { until } from "./support/until.ts";

const server = await startPostgres(t);

const price = (version: string): PriceVersion => ({ version, price: {}, source: "gateway.yaml" });

/** A store that throws an error while it has one. */
class Versions extends PriceVersions {
  error: Error | undefined;
  tries = 0;
  readonly kept: string[] = [];

  override async keep(prices: readonly PriceVersion[]): Promise<void> {
    this.tries++;
    if (this.error) throw this.error;
    this.kept.push(...prices.map(({ version }) => version));
  }

  override async find(): Promise<undefined> {}
}

function open(error?: Error, interval?: number) {
  const versions = Object.assign(new Versions({ query: async () => [] }), { error });
  const logged: string[] = [];
  const causes: unknown[] = [];
  const log = {
    warn: ({ cause }: { cause: unknown }, message: string) => {
      logged.push(`warn ${message}`);
      causes.push(cause);
    },
    error: (_: object, message: string) => logged.push(`error ${message}`),
  } as unknown as Log;
  return { versions, logged, causes, prices: new LatePrices(versions, log, 5, interval) };
}

t.test("prices are stored once the store can be written again, those of all reloads together", async (t) => {
  for (const error of [new StoreUnavailableError("away"), new FileError("the disk is full")]) {
    const { versions, logged, prices } = open(error);
    await prices.keep([price("a")]);
    await prices.keep([price("a"), price("b")]);
    await until(() => versions.tries > 4, "some attempts");
    versions.error = undefined;
    await until(() => versions.kept.length > 0, "the store to have them");
    const { tries } = versions;
    await sleep(30);
    t.same(versions.kept, ["a", "b"]);
    t.equal(versions.tries, tries, "nothing is tried any more");
    t.same(logged, Array(2).fill("warn the prices of gateway.yaml cannot be stored yet"));
  }
});

t.test("an error that does not pass is thrown, and ends later attempts with a line in the log", async (t) => {
  const { versions, logged, prices } = open(new Error("no such table"));
  await t.rejects(prices.keep([price("a")]), /no such table/);
  versions.error = new StoreUnavailableError("away");
  await prices.keep([price("a")]);
  versions.error = new Error("no such table");
  await until(() => logged.length > 1, "the error");
  const { tries } = versions;
  await sleep(30);
  t.equal(versions.tries, tries);
  t.same(logged.slice(1), ["error prices of gateway.yaml cannot be stored"]);
});

t.test("while they cannot be stored, the log tells why again and again, with the reason of then", async (t) => {
  const { versions, causes, prices } = open(new StoreUnavailableError("away"), 20);
  await prices.keep([price("a")]);
  await until(() => causes.length > 2, "two more lines");
  versions.error = new FileError("the disk is full");
  await until(() => /the disk is full/.test(String(causes.at(-1))), "another reason");
  t.ok(causes.slice(0, 3).every((cause) => /away/.test(String(cause))));
  prices.close();
});

t.test("nothing is tried after it was closed", async (t) => {
  const { versions, prices } = open(new StoreUnavailableError("away"));
  await prices.keep([price("a")]);
  prices.close();
  await prices.keep([price("b")]);
  await sleep(30);
  t.equal(versions.tries, 2);
});

/** @param make returns a store that exists, and a function that executes a statement in it */
function refused(
  name: string,
  missing: RegExp,
  make: () => Promise<{ ledger: string; run: (sql: string) => unknown }>,
) {
  const yaml = (ledger: string, price: number) => `store: { ledger: "${ledger}" }
providers: { demo: { url: "demo:" } }
models: { echo: { targets: [demo:echo], price: { input: ${price}, output: 2 } } }
`;

  t.test(`${name}: a store that refuses prices fails a start and a reload with its message`, async (t) => {
    const { ledger, run } = await make();
    const { gateway, folder, log } = await startGateway(t, yaml(ledger, 1));
    await run("alter table price rename to prices");
    const file = join(folder, "gateway.yaml");
    writeFileSync(file, gateway.config.text.replace("input: 1,", "input: 3,"));
    await t.rejects(gateway.reload(), missing);
    t.match(gateway.config.text, "input: 1,", "the former configuration stays");
    await t.rejects(startGateway(t, yaml(ledger, 4)), missing);
    t.same(
      log.lines.filter(({ message }) => message.includes("cannot be stored")),
      [],
      "nothing is tried later",
    );
    await run("alter table prices rename to price");
    await gateway.reload();
    t.match(gateway.config.text, "input: 3,");
  });
}

refused("SQLite", /no such table: price/, async () => {
  const file = join(t.testdir(), "gateway.db");
  await openStores(file, [], () => {}).close();
  return {
    ledger: `sqlite:${file}`,
    run: (sql) => {
      const database = new DatabaseSync(file, { timeout: 5000 });
      database.exec(sql);
      database.close();
    },
  };
});

if (server)
  refused("PostgreSQL", /relation "price" does not exist/, async () => {
    const ledger = await server.database();
    await (await openPostgres(placeOf(ledger), 1)).database.close();
    return { ledger, run: (sql) => server.ask(ledger, sql) };
  });
