import t from "tap";
import { PostgresAudit } from "../../../src/store/postgres/audit.ts";
import { openPostgres } from "../../../src/store/postgres/migrations.ts";
import { placeOf, startPostgres } from "../../support/postgres.ts";

const server = await startPostgres(t);
if (server)
  t.test("a change that cannot be written is reported, and one with unusual characters is stored", async (t) => {
    const { database } = await openPostgres(placeOf(await server.database()), 1);
    const audit = new PostgresAudit(database);
    const entry = {
      time: 1,
      who: "admin",
      address: "",
      action: "keys.edit",
      subject: "a\u0000b",
      detail: { x: "\u0000" },
    };
    await audit.add(entry);
    t.match(await audit.list(1), [{ action: "keys.edit", detail: { x: /./ } }]);
    await database.close();
    await t.rejects(audit.add(entry));
  });
