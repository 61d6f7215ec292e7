import t from "tap";
import { PostgresKeptValues } from "../../../src/store/postgres/kept-values.ts";
import { openPostgres } from "../../../src/store/postgres/migrations.ts";
import { keptValuesContract } from "../../support/kept-values-contract.ts";
import { placeOf, startPostgres } from "../../support/postgres.ts";

const server = await startPostgres(t);
if (server)
  keptValuesContract(t, async (t) => {
    const place = placeOf(await server.database());
    const opened = [(await openPostgres(place, 2)).database, (await openPostgres(place, 2)).database] as const;
    t.teardown(() => Promise.all(opened.map((database) => database.close())));
    return [new PostgresKeptValues(opened[0]), new PostgresKeptValues(opened[1])];
  });
