import { execFile } from "node:child_process";
import { promisify } from "node:util";
import t from "tap";
import { noBrowser } from "../support/browser.ts";
import { consolePage, startConsole, traffic } from "../support/console.ts";
import { KEY } from "../support/key.ts";
import { plainEntry } from "../support/plain-entry.ts";

const options = { skip: noBrowser };

t.test("the page of a request links to an explanation of it under the current configuration", options, async (t) => {
  const gateway = await startConsole(t);
  const id = await traffic(gateway);
  const answer = await fetch(`${gateway.url}/v1beta/models/echo:generateContent`, {
    method: "POST",
    headers: { "x-goog-api-key": KEY, "content-type": "application/json" },
    body: JSON.stringify({ contents: [{ role: "user", parts: [{ text: "Hello" }] }] }),
  });
  await answer.text();
  await gateway.gateway.stores.ledger.flush();
  const explained = {
    [id]: "/v1/chat/completions",
    [answer.headers.get("x-request-id") ?? ""]: "/v1beta/models/echo:streamGenerateContent",
  };
  for (const [request, path] of Object.entries(explained)) {
    const page = await consolePage(t, gateway, `/requests/${request}`);
    await page.getByRole("link", { name: "Explain what would become of it now" }).click();
    const found = page.getByRole("region", { name: "Explanation" });
    await found.waitFor();
    t.match(await found.innerText(), /model echo; key test.*accepts it as test/s);
    t.equal(await page.getByLabel("Path", { exact: true }).inputValue(), path);
    t.same(Object.fromEntries(new URL(page.url()).searchParams), { model: "echo", key: "test", path });
    await page.context().close();
  }
});

t.test("a row of requests without a target, model or key links to exactly those", options, async (t) => {
  const gateway = await startConsole(t);
  await traffic(gateway);
  await gateway.askModel("nothing");
  await gateway.gateway.stores.ledger.flush();
  const page = await consolePage(t, gateway, "/");
  const errors = page.getByRole("table", { name: "Errors by target" }).locator("tbody tr");
  await errors.filter({ hasText: "the gateway" }).filter({ hasText: "404" }).getByRole("link").click();
  const rows = page.getByRole("table", { name: "Requests" }).locator("tbody tr");
  await rows.first().waitFor();
  t.match(new URL(page.url()).search, /without=target/);
  t.equal(await rows.count(), 1);
  await page.goto(`${gateway.base}/money?by=model`);
  await page.getByRole("table", { name: "Spend by model" }).getByRole("link", { name: "–", exact: true }).click();
  await rows.first().waitFor();
  t.match(await rows.allInnerTexts(), [/nobody was asked/]);
  await page.getByLabel("Has no").selectOption("");
  await rows.nth(8).waitFor();
  t.equal(await rows.count(), 9);
});

t.test("a request that was interrupted before its answer has no status", options, async (t) => {
  const gateway = await startConsole(t);
  await traffic(gateway);
  const { ledger } = gateway.gateway.stores;
  const cut = plainEntry(Date.now() - 1000, { model: "slow", target: "demo:slow", status: 0, outcome: "interrupted" });
  ledger.append(cut);
  await ledger.flush();
  const page = await consolePage(t, gateway, "/");
  const error = page.getByRole("table", { name: "Errors by target" }).locator("tbody tr").filter({ hasText: "slow" });
  t.equal(await error.locator('td[data-title="Status"]').innerText(), "–");
  await error.getByRole("link").click();
  const rows = page.getByRole("table", { name: "Requests" }).locator("tbody tr");
  await rows.first().waitFor();
  t.equal(await rows.count(), 1);
  t.equal(await rows.locator('td[data-title="Outcome"]').innerText(), "interrupted");
  await page.goto(`${gateway.base}/requests/${cut.id}`);
  await page.locator("dl.facts").getByText("interrupted", { exact: true }).waitFor();
});

t.test("a gateway without requests shows how to send the first one, and it works", options, async (t) => {
  const gateway = await startConsole(t);
  for (const path of ["/", "/requests?key=test"]) {
    const page = await consolePage(t, gateway, path);
    const curl = await page.getByRole("region", { name: "a first request" }).innerText();
    const address = /http:\/\/127\.0\.0\.1:\d+/.exec(curl)?.[0] ?? "";
    const text = curl.replace(address, gateway.url).replace("YOUR_KEY", KEY);
    t.not(text, curl);
    if (path === "/") {
      await page.getByText("No attempt failed in the last hour.").waitFor();
      t.equal(await page.getByText("No request in the last hour.").count(), 1, "not for models and again for targets");
      t.equal(await page.getByText("of 0 answers").count(), 1);
      continue;
    }
    const { stdout } = await promisify(execFile)("sh", ["-c", text]);
    t.match(stdout, /Hello/);
    await gateway.gateway.stores.ledger.flush();
    await page.goto(`${gateway.base}/requests?key=nobody`);
    await page.getByText("No request fits.").waitFor();
    t.equal(await page.getByRole("region", { name: "a first request" }).count(), 0);
    await page.goto(`${gateway.base}/`);
    await page.getByText("No request runs now.").waitFor();
  }
});

t.test("of many keys 200 are drawn at once, and all are found", options, async (t) => {
  const gateway = await startConsole(t);
  const page = await consolePage(t, gateway, "/audit");
  const keys = Array.from({ length: 5000 }, (_, n) => ({ id: `k${n}`, name: `key ${n}`, source: "store", created: 1 }));
  await page.route("**/api/keys", (route) => route.fulfill({ json: { keys } }));
  await page.goto(`${gateway.base}/keys`);
  const rows = page.getByRole("table", { name: "Keys" }).locator("tbody tr");
  await rows.nth(199).waitFor();
  t.equal(await rows.count(), 200);
  await page.getByRole("button", { name: "Show more" }).click();
  await rows.nth(399).waitFor();
  t.equal(await rows.count(), 400);
  t.match(await page.getByText(/of 5,000$/).innerText(), "400 of 5,000");
  await page.getByLabel("Find").fill("k4999");
  await page.keyboard.press("Enter");
  await rows.nth(1).waitFor({ state: "detached" });
  t.match(await rows.innerText(), "key 4999");
});
