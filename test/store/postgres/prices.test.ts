import t from "tap";
import { openPostgres } from "../../../src/store/postgres/migrations.ts";
import { PostgresPrices } from "../../../src/store/postgres/prices.ts";
import { placeOf, startPostgres } from "../../support/postgres.ts";
import { pricesContract } from "../../support/prices-contract.ts";

const server = await startPostgres(t);

if (server)
  pricesContract(t, async (t) => {
    const { database } = await openPostgres(placeOf(await server.database()), 1);
    t.teardown(() => database.close());
    const since = async () => [...(await database.query("select since from price order by version"))];
    return { prices: new PostgresPrices(database), since };
  });
