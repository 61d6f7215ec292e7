import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import t from "tap";
import { noBrowser } from "../support/browser.ts";
import { CONSOLE_YAML, columnOf, consolePage, startConsole } from "../support/console.ts";
import { KEY } from "../support/key.ts";

const options = { skip: noBrowser };

t.test("the config is shown with its secrets masked, and with the changes of a reload", options, async (t) => {
  const gateway = await startConsole(t);
  const page = await consolePage(t, gateway, "/config");
  const text = await page.getByRole("region", { name: /^gateway.yaml/ }).innerText();
  t.match(text, "thinker");
  t.notOk(text.includes(KEY) || (await page.content()).includes(KEY), "no key is visible anywhere");
  const { appendFileSync } = await import("node:fs");
  appendFileSync(`${gateway.folder}/gateway.yaml`, "body: { limit: 1MiB }\n");
  await page.getByRole("button", { name: "Compare with the file on disk" }).click();
  t.match(await page.getByRole("table", { name: "Changes" }).innerText(), /body\.limit/);
  appendFileSync(`${gateway.folder}/gateway.yaml`, "bodi: {}\n");
  const other = await consolePage(t, gateway, "/config", true);
  await other.getByRole("button", { name: "Compare with the file on disk" }).click();
  t.match(await other.getByRole("alert").innerText(), /unknown key "bodi"/);
});

t.test("a link to a line of the file shows that line", options, async (t) => {
  const gateway = await startConsole(t, `${CONSOLE_YAML}${"# nothing\n".repeat(100)}`);
  const page = await consolePage(t, gateway, "/config?line=90");
  const line = page.locator(".marked");
  await line.waitFor();
  const box = await line.boundingBox();
  const seen = await page.getByRole("region", { name: /^gateway.yaml/ }).boundingBox();
  if (!box || !seen) throw new Error("neither is drawn");
  t.ok(box.y >= seen.y && box.y + box.height <= seen.y + seen.height, "in the part of the file that is shown");
  t.ok(box.y >= 0 && box.y + box.height <= 800, "in the window");
});

t.test("a request is explained without a call to a provider", options, async (t) => {
  const gateway = await startConsole(t);
  const page = await consolePage(t, gateway, "/config");
  await page.getByLabel("Path", { exact: true }).fill("/v1/chat/completions");
  await page.getByLabel("Model", { exact: true }).fill("fragile");
  await page.getByLabel("Key, by name").fill("test");
  await page.getByRole("button", { name: "Explain" }).click();
  const found = page.getByRole("region", { name: "Explanation" });
  await found.waitFor();
  t.match(await found.innerText(), /accepts it as test/);
  t.same(await found.getByRole("table", { name: "Targets, in order" }).locator("tbody th").allInnerTexts(), [
    "down:x",
    "demo:echo",
  ]);
  await found.getByText("What down:x would get").click();
  t.match(await found.innerText(), /"model": "x"/);
  t.equal((await gateway.gateway.stores.ledger.recent(1)).length, 0);
  const link = page.url();
  t.same(Object.fromEntries(new URL(link).searchParams), {
    path: "/v1/chat/completions",
    model: "fragile",
    key: "test",
  });
  const other = await consolePage(t, gateway, link.slice(gateway.base.length), true);
  await other.getByRole("region", { name: "Explanation" }).waitFor();
  t.equal(await other.getByLabel("Model", { exact: true }).inputValue(), "fragile");
  t.match(await other.getByRole("region", { name: "Explanation" }).innerText(), /accepts it as test/);
  await other.getByLabel("Key, by name").fill(KEY);
  await other.getByLabel("Model", { exact: true }).fill("echo");
  await other.getByRole("button", { name: "Explain" }).click();
  await other.waitForURL((url) => url.searchParams.get("model") === "echo");
  t.equal(new URL(other.url()).searchParams.get("key"), "test", "a typed key is in the address by its name");
  await other.getByLabel("Key, by name").fill(`${KEY}-mistyped`);
  await other.getByRole("button", { name: "Explain" }).click();
  await other.getByRole("alert").waitFor();
  await other.waitForURL((url) => !url.searchParams.has("key"));
});

t.test("a reload that failed keeps its lines in the audit trail", options, async (t) => {
  const gateway = await startConsole(t);
  const file = join(gateway.folder, "gateway.yaml");
  writeFileSync(file, `${readFileSync(file, "utf8")}nonsense: 1\n`);
  await gateway.gateway.reload().catch(() => {});
  const page = await consolePage(t, gateway, "/audit");
  const told = page.locator("td pre");
  t.match(await told.innerText(), /gateway\.yaml:\d+:1 error: .*\n.*> \d+ \| nonsense: 1\n/s);
  t.equal(await page.evaluate('getComputedStyle(document.querySelector("td pre")).whiteSpace'), "pre-wrap");
});

t.test("a generation is shown with its worker where there are several", options, async (t) => {
  const page = await consolePage(t, await startConsole(t), "/config");
  t.same(Object.keys(await columnOf(page, "Generations", "Since")), ["1 serves"]);
  t.equal(await page.getByRole("columnheader", { name: "Worker" }).count(), 0);
  const since = Date.now();
  const generations = [41, 42].map((worker) => ({ number: 1, since, serving: true, worker }));
  await page.route("**/api/generations", (route) => route.fulfill({ json: { generations } }));
  await page.reload();
  const workers = page.locator('td[data-title="Worker"]');
  await workers.first().waitFor();
  t.same(await workers.allInnerTexts(), ["41", "42"]);
});
