import t from "tap";
import { storeDoubts } from "../../src/cli/store-doubts.ts";
import { placeOf, startPostgres } from "../support/postgres.ts";

const doubts = (url: string) =>
  storeDoubts({
    file: "gateway.yaml",
    store: {
      ...{ ledger: "shown", limits: "memory", durability: "process", keep: 0 },
      postgres: { ...placeOf(url), journal: "/nowhere" },
    },
  });

t.test("a database that is not there is a warning, and one that is there is none", async (t) => {
  t.match(await doubts("postgres://u:never-shown@127.0.0.1:1/d"), [
    { severity: "warning", message: /^The store postgres:\/\/u@127\.0\.0\.1:1\/d cannot be used: .*ECONNREFUSED/ },
  ]);
  const server = await startPostgres(t);
  if (!server) return;
  const url = await server.database();
  t.same(await doubts(url), []);
  t.same(await server.ask(url, "select 1 from pg_namespace where nspname = 'model_gateway'"), [], "nothing is made");
});
