import t from "tap";
import { looksOf, noBrowser } from "../support/browser.ts";
import { consolePage, startConsole, traffic } from "../support/console.ts";
import { plainEntry } from "../support/plain-entry.ts";

t.test(
  "every page of the console has a correct layout, wide and narrow, light and dark",
  { skip: noBrowser },
  async (t) => {
    const gateway = await startConsole(t);
    const id = await traffic(gateway);
    for (const path of ["/", "/requests", `/requests/${id}`, "/money", "/providers", "/keys", "/config", "/audit"]) {
      const page = await consolePage(t, gateway, path);
      await page.locator("[aria-busy=true]").first().waitFor({ state: "detached" });
      for (const { where, faults, overflow } of await looksOf(page)) {
        t.same(faults, [], `${path} ${where}: axe finds nothing serious`);
        t.ok(overflow <= 0, `${path} ${where}: nothing is wider than the window`);
      }
      await page.context().close();
    }
  },
);

t.test("on a phone the figures of a row are next to each other", { skip: noBrowser }, async (t) => {
  const gateway = await startConsole(t);
  await traffic(gateway);
  const page = await consolePage(t, gateway, "/requests");
  await page.setViewportSize({ width: 375, height: 800 });
  await page.locator("[aria-busy=true]").first().waitFor({ state: "detached" });
  const row = page.locator("tbody tr").first();
  const tops = await row
    .locator("td.number")
    .evaluateAll((cells) => cells.map((cell) => cell.getBoundingClientRect().y));
  t.equal(tops.length, 5);
  t.ok(new Set(tops).size <= 3, `lines: ${tops.join(", ")}`);
});

/** Top and height in whole pixels. */
type Place = { readonly top: number; readonly height: number };

t.test("the fields and buttons above the requests are in lines, all of one height", { skip: noBrowser }, async (t) => {
  const gateway = await startConsole(t);
  const page = await consolePage(t, gateway, "/requests");
  const places: Place[] = await page.locator(".bar :is(input, select, button)").evaluateAll((all) =>
    all.map((each) => {
      const { y, height } = each.getBoundingClientRect();
      return { top: Math.round(y), height: Math.round(height) };
    }),
  );
  t.equal(places.length, 12);
  t.equal(new Set(places.map(({ height }) => height)).size, 1, JSON.stringify(places));
  t.equal(new Set(places.map(({ top }) => top)).size, 2, JSON.stringify(places));
});

t.test("a key's buttons, dates and models are on one line each", { skip: noBrowser }, async (t) => {
  const gateway = await startConsole(t);
  const { keys, ledger } = gateway.gateway.stores;
  const expires = Date.now() + 90 * 86_400_000;
  const { record } = await keys.create({ name: "continuous-integration", group: "acme/research", expires });
  ledger.append(plainEntry(Date.now() - 1000, { key: record.id, cost: 12_345_678_900 }));
  await ledger.flush();
  const page = await consolePage(t, gateway, "/keys");
  const row = page.getByRole("table", { name: "Keys" }).locator("tbody tr").filter({ hasText: "continuous" });
  await row.locator('td[data-title="Used last"] time').waitFor();
  const tops = await row.getByRole("button").evaluateAll((all) => all.map((each) => each.getBoundingClientRect().y));
  t.equal(tops.length, 4);
  t.equal(new Set(tops).size, 1, `buttons: ${tops.join(", ")}`);
  for (const inline of await row.locator("time").or(row.getByText("every model")).all())
    t.equal(await inline.evaluate((each) => each.getClientRects().length), 1, await inline.innerText());
});

t.test(
  "in the colours that a system sets for contrast the state and the chosen page are seen",
  { skip: noBrowser },
  async (t) => {
    const page = await consolePage(t, await startConsole(t), "/providers");
    await page.emulateMedia({ forcedColors: "active" });
    await page.locator(".dot").first().waitFor();
    const dot = await page.evaluate('getComputedStyle(document.querySelector(".dot"), "::before").forcedColorAdjust');
    t.equal(dot, "none");
    const chosen = 'getComputedStyle(document.querySelector("nav a[aria-current]")).textDecorationLine';
    t.equal(await page.evaluate(chosen), "underline");
  },
);
