import t from "tap";
import { Days } from "../../src/admin/span.ts";
import { startAdmin, YAML } from "./support.ts";

t.test("a budget says since when it counts, in the zone of the file; in total that is a key's making", async (t) => {
  const { ask } = await startAdmin(
    t,
    `${YAML}timezone: Pacific/Auckland\nlimits: { groups: { acme: { budget: [$5/day, $100] } } }\n`,
  );
  const before = Date.now();
  const made = await ask("POST", "/api/keys", { body: { name: "ci", group: "acme", budget: ["$7", "$3/hour"] } });
  const { standings } = (await ask("GET", "/api/budgets")).body;
  const of = (name: string) => standings.find((each: { name: string }) => each.name === name).budgets;
  t.match(of("acme"), [
    { per: "day", began: new Days("Pacific/Auckland").today(before) },
    { per: "total", began: undefined },
  ]);
  t.match(of(made.body.key.id), [
    { per: "total", began: made.body.key.created },
    { per: "hour", began: before - (before % 3_600_000) },
  ]);
});
