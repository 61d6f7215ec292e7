import { readFileSync, writeFileSync } from "node:fs";
import type { Page } from "playwright-core";
import t from "tap";
import { parse, parseDocument } from "yaml";
import { looksOf, noBrowser } from "../support/browser.ts";
import { CONSOLE_YAML, consolePage, type StartedConsole, startConsole, traffic } from "../support/console.ts";
import { plainEntry } from "../support/plain-entry.ts";

const options = { skip: noBrowser };
const SECRET = "narrow-key-0123456789abcdef";
const YAML = CONSOLE_YAML.replace(
  /^limits:.*$/m,
  "limits: { groups: { acme: { budget: $100/month }, acme/research: { rpm: 600, budget: { amount: $2/day, soft: true } }, acme-2: { tpm: 1M } } }",
)
  .replace(
    /^keys: \{/m,
    `keys: { narrow: { key: ${SECRET}, models: [echo], paths: [/v1/*], rpm: 60, tpm: off, budget: [$5/day, { amount: $50/month, soft: true }] }, free: { key: free-key-0123456789abcdef },`,
  )
  .replace(/^( {2}down: \{ .*) \}$/m, '$1, concurrency: 7, health: { failures: 3, open: "1m" } }');

/**
 * As a person pastes it: each value that the lines have takes the place of the one that is there. @returns what a reload
 * changes
 */
async function paste({ gateway, folder }: StartedConsole, lines: string): Promise<readonly string[]> {
  const file = `${folder}/gateway.yaml`;
  const whole = parseDocument(readFileSync(file, "utf8"));
  const put = (path: readonly string[], value: unknown): void => {
    if (value !== null && typeof value === "object" && !Array.isArray(value))
      for (const [name, each] of Object.entries(value)) put([...path, name], each);
    else whole.setIn(path, whole.createNode(value));
  };
  put([], parse(lines) ?? {});
  writeFileSync(file, whole.toString());
  return (await gateway.reload()).changes.map(({ path }) => path);
}

const linesOf = (page: Page, what: string): Promise<string> =>
  page.getByRole("region", { name: `lines for gateway.yaml: ${what}`, exact: true }).innerText();

t.test(
  "lines to copy start with the current values of the file: pasted unchanged, they change nothing",
  options,
  async (t) => {
    const gateway = await startConsole(t, YAML);
    const page = await consolePage(t, gateway, "/keys");
    const shown = new Map<string, string>();
    for (const [button, what] of [
      ["Change in gateway.yaml narrow", "narrow"],
      ["Change in gateway.yaml free", "free"],
      ["Limit acme", "acme"],
      ["Limit acme/research", "acme/research"],
    ] as const) {
      await page.getByRole("button", { name: button, exact: true }).click();
      shown.set(what, await linesOf(page, what));
    }
    await page.goto(`${gateway.base}/providers`);
    for (const what of ["down", "away"]) {
      await page.getByRole("button", { name: `Change ${what} in gateway.yaml` }).click();
      shown.set(what, await linesOf(page, what));
    }
    for (const [what, lines] of shown) {
      t.same(await paste(gateway, lines), [], what);
      t.notMatch(lines, /key-0123456789abcdef/, `${what}: no secret`);
    }
    t.same(parse(shown.get("narrow") ?? ""), {
      keys: {
        narrow: {
          ...{ models: ["echo"], paths: ["/v1/*"], rpm: 60, tpm: "off" },
          budget: ["$5/day", { amount: "$50/month", soft: true }],
        },
      },
    });
    t.match(parse(shown.get("down") ?? ""), {
      providers: { down: { concurrency: 7, health: { failures: 3, open: "1m" } } },
    });
    t.match(shown.get("down"), /# window: 30s/, "inherited settings are comments");
    t.same(await paste(gateway, (shown.get("narrow") ?? "").replace("rpm: 60", "rpm: 50")), ["keys.narrow.rpm"]);
  },
);

t.test(
  "keys have their own limits and their last use, and groups are a tree with their allowed models",
  options,
  async (t) => {
    const gateway = await startConsole(t, YAML);
    await traffic(gateway);
    const { ledger } = gateway.gateway.stores;
    ledger.append(plainEntry(new Date(2026, 0, 2, 3, 4).getTime(), { key: "narrow" }));
    await ledger.flush();
    const page = await consolePage(t, gateway, "/keys");
    const row = (table: string, name: string) =>
      page
        .getByRole("table", { name: table })
        .locator("tbody tr")
        .filter({ has: page.getByRole("link", { name, exact: true }) });
    await page.locator("[aria-busy=true]").first().waitFor({ state: "detached" });
    await row("Keys", "narrow").getByText("Jan 02, 03:00").waitFor();
    t.equal(
      await row("Keys", "narrow").locator('td[data-title="Own limits"]').innerText(),
      "rpm 60\ntpm off\nbudget $5/day, $50/month soft",
    );
    t.equal(await row("Keys", "free").locator('td[data-title="Used last"]').innerText(), "never");
    const groups = page.getByRole("table", { name: "Groups" });
    t.same(await groups.locator("tbody th").allInnerTexts(), ["acme", "research", "acme-2"]);
    t.equal(
      await row("Groups", "acme/research").locator('td[data-title="Limits"]').innerText(),
      "rpm 600\nbudget $2/day soft",
    );
    const left = async (name: string) => (await row("Groups", name).getByRole("link").boundingBox())?.x ?? 0;
    t.ok((await left("acme/research")) > (await left("acme")) + 10, "children are indented further");
  },
);

t.test("a key that somebody else has changed since its form was opened is not overwritten", options, async (t) => {
  const gateway = await startConsole(t, YAML);
  const { keys } = gateway.gateway.stores;
  await keys.create({ name: "shared", models: ["echo"] });
  // Browsers log a refused change as an error.
  const page = await consolePage(t, gateway, "/keys", true);
  const open = () => page.getByRole("button", { name: "Change shared" }).click();
  const save = async (paths: string) => {
    await page.getByLabel("Paths").fill(paths);
    await page.getByRole("button", { name: "Save" }).click();
  };
  await open();
  await keys.edit("shared", { owner: "ann" });
  await save("/v1/*");
  await page.getByRole("alert").getByText("changed by somebody else").waitFor();
  t.match(await keys.show("shared"), { owner: "ann", paths: undefined });
  await page.getByRole("alert").getByText("can be saved again").waitFor();
  t.equal(await page.getByLabel("Owner").inputValue(), "ann", "what it is now");
  t.equal(await page.getByLabel("Paths").inputValue(), "/v1/*", "what the operator has written stays");
  await page.getByRole("button", { name: "Save" }).click();
  await page.getByRole("form").waitFor({ state: "detached" });
  t.match(await keys.show("shared"), { owner: "ann", paths: ["/v1/*"] });
});

t.test("beside a key with a long name, its buttons are whole", options, async (t) => {
  const gateway = await startConsole(t, YAML);
  const name = "a-long-name-of-a-key-for-the-department-of-administrative-affairs-and-more";
  await gateway.gateway.stores.keys.create({ name, group: "acme/research/of-a-long-name", owner: "Ada" });
  const page = await consolePage(t, gateway, "/keys");
  await page.setViewportSize({ width: 1280, height: 900 });
  const row = page.getByRole("row").filter({ has: page.getByRole("link", { name, exact: true }) });
  await row.waitFor();
  const cut = await row.evaluate((row) => {
    const acts = row.querySelector(".acts");
    return acts && acts.scrollWidth - acts.clientWidth;
  });
  t.equal(cut, 0, "pixels of them beyond their cell");
});

t.test("a group is switched off with its keys, and on again", options, async (t) => {
  const gateway = await startConsole(t, YAML);
  const { keys } = gateway.gateway.stores;
  await keys.create({ name: "member", group: "acme/research" });
  const page = await consolePage(t, gateway, "/keys");
  page.on("dialog", (dialog) => void dialog.accept());
  const state = (table: string, name: string) =>
    page
      .getByRole("table", { name: table })
      .locator("tbody tr")
      .filter({ has: page.getByRole("link", { name, exact: true }) })
      .locator('td[data-title="State"]');
  await page.getByRole("button", { name: "Switch off acme", exact: true }).click();
  await state("Groups", "acme").getByText("switched off").waitFor();
  await state("Groups", "acme/research").getByText("with acme").waitFor();
  await state("Keys", "member").getByText("acme is switched off").waitFor();
  t.equal(await keys.disabledGroup("acme/research"), "acme");
  for (const { where, faults, overflow } of await looksOf(page)) {
    t.same(faults, [], `${where}: axe finds nothing serious`);
    t.ok(overflow <= 0, `${where}: nothing is wider than the window`);
  }
  await page.getByRole("button", { name: "Switch off acme/research", exact: true }).click();
  await state("Keys", "member").getByText("acme/research is switched off").waitFor();
  await page.getByRole("button", { name: "Switch on acme/research", exact: true }).click();
  await state("Keys", "member").getByText("acme is switched off").waitFor();
  await page.getByRole("button", { name: "Switch on acme", exact: true }).click();
  await state("Keys", "member").getByText("works").waitFor();
  t.equal(await keys.disabledGroup("acme"), undefined);
});

t.test(
  "of a rotated key with an expiry, both ends are shown: its own, and that of its old secret",
  options,
  async (t) => {
    const gateway = await startConsole(t, YAML);
    const { keys } = gateway.gateway.stores;
    const HOUR = 3_600_000;
    const expires = Date.now() + 400 * 24 * HOUR;
    const { record } = await keys.create({ name: "turning", expires });
    await keys.rotate(record.id, HOUR);
    const page = await consolePage(t, gateway, "/keys");
    const row = page.getByRole("table", { name: "Keys" }).locator("tbody tr").filter({ hasText: "turning" });
    const state = row.locator('td[data-title="State"]');
    await state.getByText("old secret").waitFor();
    const ends = await state.locator("time").evaluateAll((all) => all.map((each) => each.getAttribute("datetime")));
    t.equal(ends[0], new Date(expires).toISOString());
    t.ok(Date.parse(ends[1] ?? "") < Date.now() + 2 * HOUR, `${ends[1]} is that of the old secret`);
    t.match(await state.innerText(), `${new Date(expires).getFullYear()}, `, "another year is named");
  },
);

t.test("a key that was changed in one field is otherwise the same, also where it has expired", options, async (t) => {
  const gateway = await startConsole(t, YAML);
  const { keys } = gateway.gateway.stores;
  const expires = Date.now() - 30 * 3_600_000;
  const { record } = await keys.create({ name: "old", expires, tags: { team: "new york, usa", query: "a=b" } });
  const page = await consolePage(t, gateway, "/keys");
  await page.getByRole("button", { name: "Change old" }).click();
  await page.getByLabel("Owner").fill("Ada");
  await page.getByRole("button", { name: "Save" }).click();
  await page.getByRole("button", { name: "Save" }).waitFor({ state: "detached", timeout: 10_000 });
  t.same(await keys.show(record.id), { ...record, owner: "Ada" });
});

t.test("a key that was just made is shown with client settings for its allowed models", options, async (t) => {
  const gateway = await startConsole(t, YAML);
  const page = await consolePage(t, gateway, "/keys");
  await page.getByRole("button", { name: "Make a key" }).click();
  await page.getByLabel("Name").fill("phone");
  await page.getByLabel(/^Models/).fill("th*, slow");
  await page.getByRole("button", { name: "Make it" }).click();
  const secret = (await page.getByRole("region", { name: "the key of phone" }).innerText()).trim();
  const use = page.getByRole("region", { name: "Use it" });
  t.same(await use.getByLabel("Model").locator("option").allInnerTexts(), ["thinker", "slow"]);
  await use.getByLabel("Model").selectOption("slow");
  await use.getByLabel(/^Address/).fill("https://models.example.com/");
  const told = await use.getByRole("region").first().innerText();
  t.match(told, "https://models.example.com/v1/chat/completions");
  t.match(told, secret);
  t.match(told, '"model":"slow"');
  t.notMatch(page.url(), secret);
  for (const { where, faults, overflow } of await looksOf(page)) {
    t.same(faults, [], `${where}: axe finds nothing serious`);
    t.ok(overflow <= 0, `${where}: nothing is wider than the window`);
  }
  await page.getByRole("button", { name: "I have it" }).click();
  await use.waitFor({ state: "detached" });
  t.notOk((await page.content()).includes(secret), "it is no longer shown anywhere");
});
