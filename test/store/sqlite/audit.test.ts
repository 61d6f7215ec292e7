import t from "tap";
import { SqliteAudit } from "../../../src/store/sqlite/audit.ts";
import { SqliteDatabase } from "../../../src/store/sqlite/database.ts";

t.test("a change that cannot be written is reported", async (t) => {
  const database = new SqliteDatabase(":memory:");
  const audit = new SqliteAudit(database);
  database.close();
  const entry = { time: 1, who: "admin", address: "", action: "reload", subject: "gateway.yaml", detail: {} };
  await t.rejects(audit.add(entry));
});
