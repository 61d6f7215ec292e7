import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import t from "tap";
import { leftBehindWarning } from "../../src/store/left-behind.ts";
import { openStores } from "../../src/store/open.ts";
import { placeOf, startPostgres } from "../support/postgres.ts";

t.test(
  "the content of the default SQLite file is reported only beside a database that exists and is empty",
  async (t) => {
    const folder = t.testdir({});
    const file = join(folder, "gateway.yaml");
    const journal = join(folder, "journal");
    const away = { ...placeOf("postgres://u@127.0.0.1:1/d"), journal };
    t.equal(await leftBehindWarning(file, undefined), undefined, "no database");
    mkdirSync(join(folder, "data"));
    const path = join(folder, "data", "gateway.db");
    const stores = openStores(path, [], () => {});
    for (const name of ["a", "b"]) await stores.keys.create({ name });
    await stores.close();
    t.equal(await leftBehindWarning(file, away), undefined, "a database that does not answer");
    const server = await startPostgres(t);
    if (!server) return;
    const empty = { ...placeOf(await server.database()), journal };
    t.match(
      await leftBehindWarning(file, empty),
      /^the database is empty, .* has 2 keys, which the database does not get.* store import data\/gateway\.db copies it/,
    );
    writeFileSync(path, "no database");
    t.equal(await leftBehindWarning(file, empty), undefined, "a file that is no store");
  },
);
