import { readFileSync } from "node:fs";
import t from "tap";
import type { LedgerEntry, LedgerSum } from "../../src/store/ledger.ts";
import { noBrowser } from "../support/browser.ts";
import { columnOf, consolePage, type StartedConsole, startConsole, traffic } from "../support/console.ts";

const options = { skip: noBrowser };

const NANO = 1e9;
/** Dollars as a page writes them, as far as its digits go. */
const dollarsIn = (text: string): number => Number(text.replaceAll(/[$,]/g, ""));
const near = (shown: string | undefined, nano: number): boolean =>
  Math.abs(dollarsIn(shown ?? "NaN") - nano / NANO) <= Math.max(nano / NANO, 1e-9) * 0.01;

t.test("the console's figures are the ledger's for the same window", options, async (t) => {
  const gateway = await startConsole(t);
  await traffic(gateway);
  const day = { since: Date.now() - 86_400_000, until: Date.now() + 1 };
  const sums = async (by: "model" | "key" | "group") =>
    new Map((await gateway.gateway.stores.ledger.sums({ ...day, by: [by] })).map((sum) => [sum.group[0] ?? "", sum]));
  for (const by of ["model", "key", "group"] as const) {
    const page = await consolePage(t, gateway, `/money?since=24h&by=${by}`);
    const found = await sums(by);
    const shown = async (title: string, of: (sum: LedgerSum) => number) => {
      const column = await columnOf(page, `Spend by ${by}`, title);
      t.equal(Object.keys(column).length, found.size, `${by}: a row for each`);
      for (const [name, sum] of found)
        t.equal(column[name === "" ? "–" : name], of(sum).toLocaleString("en-US"), `${title} of ${by} ${name}`);
    };
    await shown("Requests", ({ requests }) => requests);
    await shown("Failed", ({ failed }) => failed);
    await shown("Tokens in", ({ tokensIn }) => tokensIn);
    await shown("Tokens out", ({ tokensOut }) => tokensOut);
    const costs = await columnOf(page, `Spend by ${by}`, "Cost");
    for (const [name, { cost }] of found)
      t.ok(near(costs[name || "–"], cost), `${by} ${name}: ${costs[name || "–"]} is ${cost}`);
    const [all] = await gateway.gateway.stores.ledger.sums({ ...day, by: [] });
    const saved = page.waitForEvent("download");
    await page.getByRole("button", { name: "CSV" }).click();
    const lines = readFileSync(await (await saved).path(), "utf8")
      .trim()
      .split("\r\n")
      .slice(1);
    const total = lines.reduce((sum, line) => sum + Math.round(Number(line.split(",").at(-2)) * NANO), 0);
    t.equal(total, all?.cost, `${by}: the file's money is exact`);
    await page.context().close();
  }
});

/** All that the ledger has, as it has it. */
const entriesOf = ({ gateway }: StartedConsole): Promise<LedgerEntry[]> =>
  gateway.stores.ledger.search({ limit: 1000 });

/** How many there are of each. */
function counted<Value>(
  values: readonly Value[],
  nameOf: (value: Value) => string | undefined,
): Record<string, string> {
  const groups = Map.groupBy(values, nameOf);
  return Object.fromEntries(
    [...groups].flatMap(([name, all]) => (name === undefined ? [] : [[name, `${all.length}`]])),
  );
}

t.test("the figures of the first page are what the ledger's rows of the hour come to", options, async (t) => {
  const gateway = await startConsole(t);
  await traffic(gateway);
  const entries = await entriesOf(gateway);
  const page = await consolePage(t, gateway, "/");
  const wrong = entries.filter(({ outcome }) => outcome !== "completed");
  t.ok(wrong.length >= 2, "there is something to tell");
  t.same(
    await columnOf(page, "Errors by target", "Requests"),
    counted(wrong, ({ target }) => target || "the gateway"),
  );
  const attempts = entries.flatMap((entry) => entry.attempts.map((attempt) => ({ ...attempt, entry })));
  const failed = attempts.filter(({ status, error }) => error !== undefined || (status ?? 0) >= 400);
  t.same(
    await columnOf(page, "Failed attempts by target", "Attempts"),
    counted(failed, ({ target }) => target),
  );
  t.same(
    await columnOf(page, "Failed attempts by target", "Made good"),
    Object.fromEntries(
      [...Map.groupBy(failed, ({ target }) => target)].map(([target, all]) => [
        target,
        `${all.filter(({ entry }) => entry.outcome === "completed").length}`,
      ]),
    ),
  );
  const answered = entries.filter(({ outcome, streaming }) => outcome === "completed" && streaming);
  t.same(
    await columnOf(page, "Speed by Model", "Requests"),
    counted(answered, ({ model }) => model),
  );
  t.same(
    await columnOf(page, "Speed by Target", "Requests"),
    counted(answered, ({ target }) => target),
  );
  const card = async (title: string) => {
    const found = page.locator(".card").filter({ has: page.getByText(title, { exact: true }) });
    return { value: await found.locator(".value").innerText(), under: await found.locator(".under").innerText() };
  };
  const here = wrong.filter(({ status, outcome }) => status === 429 && outcome === "rejected").length;
  const there = attempts.filter(({ status }) => status === 429).length;
  t.same(await card("429, last hour"), {
    value: `${here + there}`,
    under: `${here} request${here === 1 ? "" : "s"} by our limits, ${there} attempt${there === 1 ? "" : "s"} by providers`,
  });
  t.match(await card("Requests a second"), { under: `${entries.length} in the last hour` });
  const spent = entries.reduce((sum, { cost = 0 }) => sum + cost, 0);
  t.ok(near((await card("Spent today")).value, spent), `${(await card("Spent today")).value} is ${spent}`);
});

t.test("each row of the page of requests, and the page of one, is the ledger's row", options, async (t) => {
  const gateway = await startConsole(t);
  await traffic(gateway);
  const entries = await entriesOf(gateway);
  const page = await consolePage(t, gateway, "/requests?since=1h");
  const table = page.getByRole("table", { name: "Requests", exact: true });
  await table.waitFor();
  t.equal(await table.locator("tbody tr").count(), entries.length);
  for (const { id, usage, cost, status, model, target } of entries) {
    const row = table.locator("tbody tr").filter({ has: page.locator(`a[href$="/requests/${id}"]`) });
    const cell = async (title: string) => row.locator(`td[data-title="${title}"]`).innerText();
    const count = (tokens: number | undefined) => tokens?.toLocaleString("en-US") ?? "–";
    t.equal(await cell("Tokens in"), count(usage?.in.total), `tokens of ${id}`);
    t.equal(await cell("Out"), count(usage?.out.total), `tokens out of ${id}`);
    t.match(await cell("Model → target"), `${model || "–"}\n${target || "nobody was asked"}`);
    t.match(await cell("Outcome"), `${status}`);
    if (cost === undefined) t.equal(await cell("Cost"), "–");
    else t.ok(near(await cell("Cost"), cost), `cost of ${id}`);
  }
  const dearest = entries.toSorted((a, b) => (b.cost ?? 0) - (a.cost ?? 0))[0] as LedgerEntry;
  await table.locator(`a[href$="/requests/${dearest.id}"]`).click();
  const facts = page.locator("dl.facts");
  await facts.waitFor();
  const told = await facts.innerText();
  t.ok(
    [...told.matchAll(/\$[\d.,]+/g)].some(([text]) => near(text, dearest.cost ?? 0)),
    told,
  );
});
