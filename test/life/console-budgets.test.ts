import t from "tap";
import { noBrowser } from "../support/browser.ts";
import { CONSOLE_YAML, consolePage, startConsole, traffic } from "../support/console.ts";

const options = { skip: noBrowser };

t.test("days of the chart are in the file's timezone, as on the rest of the page", options, async (t) => {
  const gateway = await startConsole(t, `${CONSOLE_YAML}timezone: Pacific/Kiritimati\n`);
  await traffic(gateway);
  const page = await consolePage(t, gateway, "/money?since=7d&by=key");
  await page.getByText("As a table").click();
  const table = page.getByRole("table", { name: "Spend by key and day" });
  const days = await table.locator("tbody th").allInnerTexts();
  t.equal(days.length, 8, "seven times 24 hours include part of an eighth day");
  t.equal(days[0], Temporal.Now.plainDateISO("Pacific/Kiritimati").toString());
  t.match(await table.locator("thead th").first().innerText(), /^day \(pacific\/kiritimati\)$/i);
  t.match(await table.locator("tbody tr").first().innerText(), /\$0\.\d/);
});

t.test("a budget shows when it will be used up at the current rate", options, async (t) => {
  const yaml = CONSOLE_YAML.replace(
    /^limits:.*$/m,
    "limits: { groups: { acme: { budget: [$100/month, { amount: $0.001/day, soft: true }] } } }",
  );
  const gateway = await startConsole(t, `${yaml}timezone: UTC\n`);
  await gateway.askModel("echo");
  const page = await consolePage(t, gateway, "/money");
  await page.getByText(/^Unsettled are requests whose provider told no or not all of its tokens/).waitFor();
  const cells = page.getByRole("table", { name: "Budgets" }).locator('td[data-title="Ends at this pace"]');
  await cells.first().waitFor();
  t.same(await cells.allInnerTexts(), ["it is spent", "not before it begins anew"]);
  const budgets = page.getByRole("table", { name: "Budgets" });
  t.equal(await budgets.locator(".fair").count(), 3, "a budget that only warns has the colour of a warning");
  t.equal(await budgets.locator(".bad").count(), 0);
  await page.goto(gateway.base);
  const banners = page.locator(".banner");
  await banners.nth(1).waitFor();
  t.same(
    (await banners.allInnerTexts()).map((text) => text.replace(/\d+ %.*/s, "").split("\n")),
    [
      ["Needs attention", "provider away: It is off: AWAY is not set. Look"],
      ["Warnings", "budget group acme: "],
    ],
  );
  t.same(await banners.evaluateAll((all) => all.map((each) => each.classList.contains("bad"))), [true, false]);
  await page.getByRole("link", { name: "Look at budget group acme" }).click();
  await budgets.waitFor();
});

t.test("budgets of keys made in the store are shown by the keys' names", options, async (t) => {
  const gateway = await startConsole(t);
  const made = await gateway.ask("POST", "/api/keys", { body: { name: "alice", budget: "$5/day" } });
  t.equal(made.status, 201);
  const page = await consolePage(t, gateway, "/money");
  const whose = page.getByRole("table", { name: "Budgets" }).locator("th[scope=row]");
  await whose.getByText("key alice").waitFor();
  t.notMatch((await whose.allInnerTexts()).join(), made.body.key.id);
});
