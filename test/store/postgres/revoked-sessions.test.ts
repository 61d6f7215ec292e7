import t from "tap";
import { openPostgres } from "../../../src/store/postgres/migrations.ts";
import { PostgresRevokedSessions } from "../../../src/store/postgres/revoked-sessions.ts";
import { placeOf, startPostgres } from "../../support/postgres.ts";

const server = await startPostgres(t);
if (server)
  t.test("a session that one instance ends has ended for another, and a failure to end it is reported", async (t) => {
    const place = placeOf(await server.database());
    const [one, other] = [await openPostgres(place, 1), await openPostgres(place, 1)];
    await new PostgresRevokedSessions(one.database).add("one", Date.now() + 1000);
    t.equal(await new PostgresRevokedSessions(other.database).has("one"), true);
    await one.database.close();
    await t.rejects(new PostgresRevokedSessions(one.database).add("two", 1));
    await other.database.close();
  });
