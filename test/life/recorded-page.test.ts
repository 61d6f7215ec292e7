import t from "tap";
import { looksOf, noBrowser } from "../support/browser.ts";
import { CONSOLE_YAML, consolePage, startConsole } from "../support/console.ts";

t.test(
  "the page of a request shows both sides of what was recorded, once somebody asks",
  { skip: noBrowser },
  async (t) => {
    const chain = "[record, sse, auth, models, limits, rewrite, usage, record]";
    const record = JSON.stringify({ sample: 1, file: `${t.testdir()}/recorded.db` });
    const gateway = await startConsole(t, `${CONSOLE_YAML}chains: { llm: ${chain} }\nplugins: { record: ${record} }\n`);
    const id = await gateway.askModel("fragile", { text: "Where did it go wrong?" });
    await gateway.gateway.stores.ledger.flush();
    const page = await consolePage(t, gateway, `/requests/${id}`);
    t.equal((await gateway.gateway.stores.audit.list(10)).length, 0, "nobody has looked");
    await page.getByRole("button", { name: "Show request and answer" }).click();
    const client = page.getByRole("region", { name: "As the client saw it" });
    await client.getByText("Where did it go wrong?").waitFor();
    t.match(await client.getByRole("region", { name: "Answer to the client", exact: true }).innerText(), /data: /);
    const second = page.getByRole("region", { name: "Attempt 2, as the provider saw it" });
    t.match(await second.innerText(), /demo:echo/);
    t.match(
      await page.getByRole("region", { name: "Attempt 1, as the provider saw it" }).innerText(),
      /down:x[\s\S]*was not kept/,
    );
    const [looked] = await gateway.gateway.stores.audit.list(10);
    t.match(looked, { action: "requests.recorded", subject: id });
    for (const { where, faults, overflow } of await looksOf(page)) {
      t.same(faults, [], `${where}: axe finds nothing serious`);
      t.ok(overflow <= 0, `${where}: nothing is wider than the window`);
    }
  },
);
