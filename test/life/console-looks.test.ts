import t from "tap";
import { looksOf, noBrowser } from "../support/browser.ts";
import { consolePage, startConsole, traffic } from "../support/console.ts";

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
