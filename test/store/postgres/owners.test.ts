import t, { type Test } from "tap";
import { openPostgres } from "../../../src/store/postgres/migrations.ts";
import { PostgresOwners } from "../../../src/store/postgres/owners.ts";
import { ownersContract } from "../../support/owners-contract.ts";
import { type PostgresServer, placeOf, startPostgres } from "../../support/postgres.ts";

const server = await startPostgres(t);

async function open(t: Test, { database: made }: PostgresServer) {
  const { database } = await openPostgres(placeOf(await made()), 3);
  t.teardown(() => database.close());
  const warnings: string[] = [];
  const view = () => new PostgresOwners(database, (text) => warnings.push(text));
  return { owners: view(), other: view(), warnings };
}

if (server) {
  ownersContract(t, (t) => open(t, server));

  t.test(
    "while the database is away nobody knows who made what; what was made meanwhile is written later",
    async (t) => {
      const own = await startPostgres(t);
      if (!own) return;
      const { owners, other, warnings } = await open(t, own);
      await own.kill();
      const file = { id: "file-1", provider: "up", key: "one" };
      owners.add([file]);
      await t.rejects(owners.find("file-1"), { code: "internal", status: 503, retryAfter: 5 });
      await own.start();
      await owners.close();
      t.same(await other.find("file-1"), [file]);
      t.same(
        warnings.filter((text) => /lost/.test(text)),
        [],
      );
    },
  );

  t.test("what another gateway has just added is waited for, where nothing found would be a refusal", async (t) => {
    const { owners, other } = await open(t, server);
    const file = { id: "file-1", provider: "up", key: "one" };
    const looked = other.findSoon("file-1");
    owners.add([file]);
    t.same(await looked, [file]);
    t.same(await other.findSoon("file-2"), [], "what there is not is not there in the end");
  });
}
