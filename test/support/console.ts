import type { Browser, Page } from "playwright-core";
import t, { type Test } from "tap";
import { ConsolePages } from "../../src/console/console-pages.ts";
import { PageFiles } from "../../src/console/page-files.ts";
import { startAdmin } from "../admin/support.ts";
import { noBrowser, openBrowser } from "./browser.ts";
import { KEY } from "./key.ts";

const OTHER = "other-key-0123456789abcdef";
/** A file with models that respond, are refused and fail. */
export const CONSOLE_YAML = `
providers:
  demo: { url: "demo:" }
  away: { url: "http://127.0.0.1:9/v1", protocol: openai-chat, credential: $AWAY }
  down: { url: "http://127.0.0.1:9/v1", protocol: openai-chat }
models:
  echo: { price: { input: 1000, output: 2000 }, targets: [demo:echo] }
  thinker: { price: { input: 300, output: 900 }, targets: [demo:reasoning] }
  slow: { targets: [demo:slow] }
  limited: { targets: [demo:error-429] }
  fragile: { output: 1k, price: { input: 1, output: 1 }, targets: [down:x], fallback: [echo] }
limits: { groups: { acme: { budget: $100/month } } }
keys: { test: { key: ${KEY}, group: acme/research, tags: { team: search } }, other: { key: ${OTHER}, rpm: 2 } }
`;

let browser: Browser | undefined;
if (!noBrowser) browser = await openBrowser();
t.teardown(() => browser?.close());
const files = await PageFiles.shared();

/** Starts a gateway with its console, and a function that sends requests. */
export async function startConsole(t: Test, yaml = CONSOLE_YAML) {
  const running = await startAdmin(t, yaml, { pages: new ConsolePages(files) });
  const ask = async (model: string, { key = KEY, text = "Hello" } = {}) => {
    const answer = await fetch(`${running.url}/v1/chat/completions`, {
      method: "POST",
      headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
      body: JSON.stringify({ model, stream: true, messages: [{ role: "user", content: text }] }),
    });
    // The result of a broken response is in the ledger.
    await answer.text().catch(() => {});
    return answer.headers.get("x-request-id") ?? "";
  };
  return { ...running, askModel: ask };
}

export type StartedConsole = Awaited<ReturnType<typeof startConsole>>;

/** Sends some requests. @returns the id of one with two attempts */
export async function traffic({ askModel, gateway }: StartedConsole): Promise<string> {
  for (let i = 0; i < 3; i++) await askModel("echo", { text: `number ${i} of some` });
  for (let i = 0; i < 3; i++) await askModel("thinker", { key: OTHER });
  await askModel("limited");
  const id = await askModel("fragile");
  await gateway.stores.ledger.flush();
  return id;
}

/** Opens a page of the console; browser errors fail the test. */
export async function consolePage(t: Test, { base }: StartedConsole, path: string, quiet = false): Promise<Page> {
  const context = await (browser as Browser).newContext({ viewport: { width: 1280, height: 800 } });
  t.teardown(() => context.close());
  const page = await context.newPage();
  if (!quiet) page.on("console", (line) => line.type() === "error" && t.fail(`the browser logs: ${line.text()}`));
  page.on("pageerror", (error) => t.fail(error.message));
  await page.goto(base + path);
  await page.locator("h1").first().waitFor();
  return page;
}

/** Returns a column of the first table with that caption, by the row's header. */
export async function columnOf(page: Page, caption: string, title: string): Promise<Record<string, string>> {
  const table = page.getByRole("table", { name: caption, exact: true });
  await table.waitFor();
  const rows = await table.locator("tbody tr").all();
  const cells = await Promise.all(
    rows.map(async (row) => [
      (await row.locator("th").innerText()).split("\n")[0] ?? "",
      (await row.locator(`td[data-title="${title}"]`).innerText()).split("\n")[0] ?? "",
    ]),
  );
  return Object.fromEntries(cells);
}
