import { join } from "node:path";
import { setImmediate as turn } from "node:timers/promises";
import t, { type Test } from "tap";
import { Database } from "../../../src/store/sqlite/database.ts";
import { SqliteOwners } from "../../../src/store/sqlite/owners.ts";
import { ownersContract } from "../../support/owners-contract.ts";

function open(t: Test, path = join(t.testdir(), "gateway.db")) {
  const database = new Database(path);
  const warnings: string[] = [];
  const owners = new SqliteOwners(database, (message) => warnings.push(message));
  t.teardown(() => database.close());
  return { path, database, owners, warnings };
}

const file = { id: "file-1", provider: "up", key: "one" };

ownersContract(t, async (t) => {
  const { owners, path } = open(t);
  return { owners, other: open(t, path).owners };
});

t.test("what was added is found at once, and by another process at the end of the turn", async (t) => {
  const { path, owners } = open(t);
  const other = open(t, path).owners;
  owners.add([file, { ...file, id: "resp_1", group: "acme", model: "m" }]);
  t.same(owners.find("file-1"), [file]);
  t.same(other.find("file-1"), []);
  await turn();
  await turn();
  t.same(other.find("file-1"), [file]);
  t.same(other.find("resp_1"), [{ ...file, id: "resp_1", group: "acme", model: "m" }]);
});

t.test("what could not be written is found, and is written later", async (t) => {
  const { path, owners } = open(t);
  const other = open(t, path);
  other.database.prepare("begin immediate").run();
  owners.add([file]);
  for (let i = 0; i < 5; i++) await turn();
  t.same(owners.find("file-1"), [file]);
  other.database.prepare("rollback").run();
  await owners.close();
  t.same(other.owners.find("file-1"), [file]);
});
