import { readFileSync } from "node:fs";
import type { Page } from "playwright-core";
import t, { type Test } from "tap";
import type { LedgerEntry, LedgerSum } from "../../src/store/ledger.ts";
import { noBrowser } from "../support/browser.ts";
import { CONSOLE_YAML, columnOf, consolePage, type StartedConsole, startConsole, traffic } from "../support/console.ts";
import { plainEntry } from "../support/plain-entry.ts";

const options = { skip: noBrowser };

const NANO = 1e9;
/** Dollars as a page writes them, as far as its digits go. */
const dollarsIn = (text: string): number => Number(text.replaceAll(/[$,]/g, ""));
const near = (shown: string | undefined, nano: number): boolean =>
  Math.abs(dollarsIn(shown ?? "NaN") - nano / NANO) <= Math.max(nano / NANO, 1e-9) * 0.01;

t.test("the console's figures equal the ledger's for the same window", options, async (t) => {
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

/** The figure of a card, and what stands under it. */
async function cardOf(page: Page, title: string): Promise<{ value: string; under: string }> {
  const found = page.locator(".card").filter({ has: page.getByText(title, { exact: true }) });
  return { value: await found.locator(".value").innerText(), under: await found.locator(".under").innerText() };
}

t.test("the figures of the first page equal the ledger's rows of the hour", options, async (t) => {
  const gateway = await startConsole(t);
  await traffic(gateway);
  const entries = await entriesOf(gateway);
  const page = await consolePage(t, gateway, "/");
  const wrong = entries.filter(({ outcome }) => outcome !== "completed");
  t.ok(wrong.length >= 2, "there is an item");
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
    await columnOf(page, "Failed attempts by target", "Recovered"),
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
  const card = (title: string) => cardOf(page, title);
  const here = wrong.filter(({ status, outcome }) => status === 429 && outcome === "rejected").length;
  const there = attempts.filter(({ status }) => status === 429).length;
  t.same(await card("429, last hour"), {
    value: `${here + there}`,
    under: `${here} request${here === 1 ? "" : "s"} by our limits, ${there} attempt${there === 1 ? "" : "s"} by providers`,
  });
  await page.getByText("“Running” and “Up for” are of this gateway.").waitFor();
  t.match(await card("Requests a second"), { under: `${entries.length} in the last hour` });
  const spent = entries.reduce((sum, { cost = 0 }) => sum + cost, 0);
  t.ok(near((await card("Spent today")).value, spent), `${(await card("Spent today")).value} is ${spent}`);
});

t.test("each row on the page of requests, and the page of one request, equals the ledger's row", options, async (t) => {
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

const HOUR = 3_600_000;
const DAY = 24 * HOUR;

/** A zone where it is about noon, so that today and yesterday have hours before and behind now. */
function noonZone(): string {
  const offset = 12 - new Date().getUTCHours();
  return offset === 0 ? "UTC" : `Etc/GMT${offset > 0 ? "-" : "+"}${Math.abs(offset)}`;
}

/** A console with money spent in the days before, in dollars. @returns also the day that it is there so long ago */
async function spentBefore(t: Test) {
  const zone = noonZone();
  const gateway = await startConsole(t, `${CONSOLE_YAML}timezone: ${zone}\n`);
  const { ledger } = gateway.gateway.stores;
  const now = Date.now();
  const spent = (hours: number, model: string, usd: number) =>
    ledger.append(plainEntry(now - hours * HOUR, { model, cost: usd * NANO }));
  spent(1, "echo", 3);
  spent(2, "thinker", 1);
  // Yesterday, later than it is now, and before.
  spent(22, "echo", 7);
  spent(25, "echo", 2);
  spent(26, "gone", 0.5);
  spent(49, "echo", 11);
  spent(10 * 24, "echo", 13);
  await ledger.flush();
  const day = (ago: number) =>
    Temporal.Instant.fromEpochMilliseconds(now - ago * DAY)
      .toZonedDateTimeISO(zone)
      .toPlainDate()
      .toString();
  return { gateway, day };
}

t.test(
  "spending is compared with the period of equal length before, for today with yesterday until the same time",
  options,
  async (t) => {
    const { gateway } = await spentBefore(t);
    const first = await consolePage(t, gateway, "/");
    t.same(await cardOf(first, "Spent today"), { value: "$4.00", under: "+60 % on $2.50 by this time yesterday" });
    const windows = {
      today: [
        "Yesterday by this time",
        { echo: "$3.00", thinker: "$1.00", gone: "$0" },
        { echo: "$2.00", gone: "$0.50" },
      ],
      yesterday: ["The day before", { echo: "$9.00", gone: "$0.50" }, { echo: "$11.00" }],
      "24h": [
        "The 24 hours before",
        { echo: "$10.00", thinker: "$1.00", gone: "$0" },
        { echo: "$2.00", gone: "$0.50" },
      ],
      "7d": ["The 7 days before", { echo: "$23.00", thinker: "$1.00", gone: "$0.50" }, { echo: "$13.00" }],
    } as const;
    for (const [window, [title, costs, before]] of Object.entries(windows)) {
      const page = await consolePage(t, gateway, `/money?since=${window}`);
      t.same(await cardOf(page, "Spent today"), { value: "$4.00", under: "$2.50 by this time yesterday" });
      t.same(await cardOf(page, "Yesterday"), { value: "$9.50", under: "all day" });
      // Those that were there in the time before come with its answer.
      await page.locator(`td[data-title="${title}"]`).getByText("$").first().waitFor();
      t.same(await columnOf(page, "Spend by model", "Cost"), costs, window);
      const none = Object.fromEntries(Object.keys(costs).map((model) => [model, "$0"]));
      t.same(await columnOf(page, "Spend by model", title), { ...none, ...before }, `${window}: ${title}`);
      await page.context().close();
    }
  },
);

t.test("the chart's days are those of the window, and add up to the table's total", options, async (t) => {
  const { gateway, day } = await spentBefore(t);
  const page = await consolePage(t, gateway, "/money?since=yesterday");
  await page.getByText("As a table").click();
  t.same(await columnOf(page, "Spend by model and day", "echo"), { [day(1)]: "$9.00" });
  await page.getByLabel("Window").selectOption("7d");
  await page.getByRole("rowheader", { name: day(7) }).waitFor();
  t.same(await columnOf(page, "Spend by model and day", "echo"), {
    [day(0)]: "$3.00",
    [day(1)]: "$9.00",
    [day(2)]: "$11.00",
    ...Object.fromEntries([3, 4, 5, 6, 7].map((ago) => [day(ago), "$0"])),
  });
  t.equal((await columnOf(page, "Spend by model", "Cost"))["echo"], "$23.00");
  await page.getByRole("combobox", { name: /^By/ }).selectOption("day");
  const sums = await columnOf(page, "Spend by day", "Cost");
  t.match(sums, { [day(0)]: "$4.00", [day(1)]: "$9.50", [day(2)]: "$11.00" });
  t.same(Object.keys(sums).slice(0, 3), [day(0), day(1), day(2)], "the newest first");
  t.match(await columnOf(page, "Spend of each day", "all"), sums);
});

t.test("the chart's legend has the sums of all days, and those of the day under the pointer", options, async (t) => {
  const { gateway, day } = await spentBefore(t);
  const page = await consolePage(t, gateway, "/money?since=7d");
  const legend = page.locator(".u-legend tr");
  await legend.first().waitFor();
  const shown = async () => {
    const [names, values] = await Promise.all(["th", "td"].map((cell) => legend.locator(cell).allInnerTexts()));
    return Object.fromEntries((names ?? []).map((name, at) => [name, values?.[at]]));
  };
  const [zone = ""] = Object.keys(await shown());
  t.same(await shown(), { [zone]: "all", gone: "$0.50", thinker: "$1.00", echo: "$23.00" });
  const { x = 0, y = 0, width = 0 } = (await page.locator(".u-over").boundingBox()) ?? {};
  // The last of eight bars.
  await page.mouse.move(x + width * (15 / 16), y + 20);
  await legend.filter({ hasText: day(0) }).waitFor();
  t.same(await shown(), { [zone]: day(0), gone: "$0", thinker: "$1.00", echo: "$3.00" });
});

/** A spread as the cards write it. */
const spreadOf = (found: { p50?: number; p95?: number } | undefined, write: (n: number) => string) =>
  `${write(found?.p50 ?? Number.NaN)} / ${write(found?.p95 ?? Number.NaN)}`;

t.test("time to first byte and tokens per second are the ledger's percentiles", options, async (t) => {
  const gateway = await startConsole(t);
  const { ledger } = gateway.gateway.stores;
  const now = Date.now();
  // First bytes from 101 to 200 ms, and ten seconds with 200 to 2,180 tokens, which are 20 to 218 a second.
  for (let n = 0; n < 100; n++)
    ledger.append(
      plainEntry(now - 60_000 - n, {
        ...{ model: "echo", target: "demo:echo", streaming: true, firstByte: 101 + n, duration: 10_101 + n },
        usage: { in: { total: 1 }, out: { total: 200 + 20 * n }, raw: null },
      }),
    );
  await ledger.flush();
  const [all] = await ledger.speeds({ since: now - HOUR, until: now + 1 });
  const whole = (n: number) => `${Math.round(n)}`;
  const page = await consolePage(t, gateway, "/");
  const first = await cardOf(page, "First byte, p50 / p95");
  t.same(first, { value: spreadOf(all?.firstByte, (ms) => `${whole(ms)} ms`), under: "of 100 answers" });
  const tokens = await cardOf(page, "Tokens a second, p50 / p95");
  t.same(tokens, { value: spreadOf(all?.tokensPerSecond, whole), under: "of 100 streams" });
  // What they were made of, as far as percentiles are exact.
  const [middle, high] = first.value.split(" / ").map((text) => Number.parseInt(text, 10));
  t.ok(Math.abs((middle ?? 0) / 150 - 1) < 0.05 && Math.abs((high ?? 0) / 195 - 1) < 0.05, first.value);
  const [half, most] = tokens.value.split(" / ").map(Number);
  t.ok(Math.abs((half ?? 0) / 119 - 1) < 0.05 && Math.abs((most ?? 0) / 208 - 1) < 0.05, tokens.value);
  for (const by of ["Model", "Target"]) {
    const [name] = by === "Model" ? ["echo"] : ["demo:echo"];
    t.same(await columnOf(page, `Speed by ${by}`, "First byte p50 / p95"), { [name as string]: first.value });
    t.same(await columnOf(page, `Speed by ${by}`, "Tokens/s p50 / p95"), { [name as string]: tokens.value });
  }
});
