import { join } from "node:path";
import t from "tap";
import { SqliteDatabase } from "../../../src/store/sqlite/database.ts";
import { sqliteFileProblem } from "../../../src/store/sqlite/file-problem.ts";

t.test("a file that no start could use is recognized without opening it as a database", async (t) => {
  const folder = t.testdir({ "notes.txt": "This is a text.\n", empty: "", short: "SQ" });
  new SqliteDatabase(join(folder, "own.db")).close();
  const problem = (name: string) => sqliteFileProblem(join(folder, name))?.replaceAll(`${folder}/`, "");
  t.equal(problem("own.db"), undefined);
  t.equal(problem("empty"), undefined);
  t.equal(problem("none/at/all.db"), undefined, "folders are created");
  t.equal(problem("notes.txt"), "notes.txt is no SQLite database: name another file");
  t.equal(problem("short"), "short is no SQLite database: name another file");
  t.equal(problem("notes.txt/gateway.db"), "notes.txt/gateway.db cannot be created: notes.txt is no folder");
  t.equal(sqliteFileProblem(folder), `${folder} is a folder: name a file in it`);
});
