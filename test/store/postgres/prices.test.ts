import t from "tap";
import { PostgresPrices } from "../../../src/store/postgres/prices.ts";
import { openDatabase, startPostgres } from "../../support/postgres.ts";
import { pricesContract } from "../../support/prices-contract.ts";

const server = await startPostgres(t);

if (server)
  pricesContract(t, async (t) => {
    const database = await openDatabase(t, await server.database(), 1);
    const since = async () => [...(await database.query("select since from price order by version"))];
    return { prices: new PostgresPrices(database), since };
  });
