import { fileURLToPath } from "node:url";
import type { Page } from "playwright-core";
import t from "tap";
import { noBrowser, openBrowser } from "./browser.ts";
import { startConsole } from "./console.ts";
import { KEY } from "./key.ts";
import { plainEntry } from "./plain-entry.ts";

// Regenerates the pictures of docs/pages.md: node --import ./src/loader/register.js test/support/pictures.ts

const FOLDER = fileURLToPath(new URL("../../docs/pages/", import.meta.url));
const OTHER = "other-key-0123456789abcdef";
const YAML = `
providers:
  openai: { url: https://api.openai.com/v1, credential: not-a-key-0123456789, speaks: [openai-chat, openai-responses] }
  anthropic: { url: https://api.anthropic.com/v1, credential: not-a-key-0123456789, protocol: anthropic-messages }
  gemini: { url: https://generativelanguage.googleapis.com/v1beta, credential: not-a-key-0123456789, protocol: gemini }
  away: { url: "http://127.0.0.1:9/v1", protocol: openai-chat }
  demo: { url: "demo:" }
models:
  gpt-5.6: { name: GPT-5.6, facts: { thinking: level, prefill: false }, targets: [openai:gpt-5.6] }
  claude-opus-5: { name: Claude Opus 5, description: For the hardest work, targets: [anthropic:claude-opus-5] }
  claude-sonnet-5: { name: Claude Sonnet 5, targets: [anthropic:claude-sonnet-5] }
  gemini-3.1-pro: { name: Gemini 3.1 Pro, targets: ["gemini:gemini-3.1-pro-preview"] }
  echo: { name: Echo, description: Says what you said, price: { input: 1, output: 5 }, targets: [demo:echo] }
  demo-tool: { description: Calls the first tool you offer, can: [tools], targets: [demo:tool] }
  demo-reasoning: { description: Thinks before it echoes, can: [reasoning], price: { input: 2, output: 10 }, targets: [demo:reasoning] }
  demo-slow: { description: Takes three seconds, targets: [demo:slow] }
  reliable: { output: 1k, price: { input: 1, output: 5 }, targets: [away:model-1], fallback: [echo] }
limits: { groups: { acme: { budget: [$200/day, $2000/month] }, beta: { budget: $400/month } } }
keys: { test: { key: ${KEY}, group: acme/research, tags: { team: search } }, other: { key: ${OTHER}, group: beta, rpm: 4 } }
timezone: UTC
`;
const HOUR = 3_600_000;
const DAYS = 14;
/** Dollars per request, and requests per hour. */
const SPENDERS: readonly [model: string, target: string, key: string, usd: number, often: number][] = [
  ["gpt-5.6", "openai:gpt-5.6", "test", 0.8, 3],
  ["claude-opus-5", "anthropic:claude-opus-5", "test", 1.1, 2],
  ["claude-sonnet-5", "anthropic:claude-sonnet-5", "other", 0.3, 3],
  ["gemini-3.1-pro", "gemini:gemini-3.1-pro-preview", "other", 0.4, 2],
];

t.setTimeout(300_000);
t.test("pictures", { skip: noBrowser }, async (t) => {
  const gateway = await startConsole(t, YAML);
  const { ledger } = gateway.gateway.stores;
  const now = Date.now();
  for (let hour = 0; hour < DAYS * 24; hour++)
    for (const [at, [model, target, key, usd, often]] of SPENDERS.entries())
      for (let n = 0; n < often; n++) {
        // Costs vary by day and by hour.
        const share = 1 + Math.sin(hour / 7 + at) / 2 + Math.sin(hour / 24 + 2 * at) / 3;
        const firstByte = 220 + ((hour * 37 + n * 91 + at * 53) % 400);
        const out = 300 + ((hour * 13 + n * 71) % 900);
        ledger.append(
          plainEntry(now - hour * HOUR - n * 60_000 - at * 1000 - 30_000, {
            ...{ model, target, key, group: key === "test" ? "acme/research" : "beta", streaming: true, firstByte },
            ...{ duration: firstByte + out * 11, cost: Math.round(usd * share * 1e9) },
            usage: { in: { total: 900 + ((hour * 7) % 4000), cached: 600 }, out: { total: out }, raw: null },
          }),
        );
      }
  for (let n = 0; n < 6; n++) await gateway.askModel("echo", { text: `number ${n} of some` });
  for (let n = 0; n < 6; n++) await gateway.askModel("demo-reasoning", { key: OTHER });
  const id = await gateway.askModel("reliable");
  await ledger.flush();

  const browser = await openBrowser();
  t.teardown(() => browser.close());
  const screenshot = async (
    name: string,
    address: string,
    { height = 860, dark = false, act = async (_: Page) => {} } = {},
  ) => {
    for (const width of [1100, ...(process.env["PICTURES_AT"] ?? "").split(",").filter(Boolean).map(Number)]) {
      const colorScheme = dark ? "dark" : "light";
      const context = await browser.newContext({ viewport: { width, height }, colorScheme });
      const page = await context.newPage();
      await page.goto(address);
      await page.locator("h1").first().waitFor();
      await act(page);
      await page.locator("[aria-busy=true]").first().waitFor({ state: "detached" });
      await page.waitForTimeout(500);
      const path = width === 1100 ? `${FOLDER}${name}.png` : `${process.env["PICTURES_IN"]}/${name}-${width}.png`;
      await page.screenshot({ path, fullPage: width !== 1100 });
      await context.close();
    }
  };
  await screenshot("marketplace", `${gateway.url}/`, { height: 800 });
  await screenshot("model", `${gateway.url}/models/claude-opus-5`);
  await screenshot("playground", `${gateway.url}/play?a=echo&b=demo-reasoning`, {
    act: async (page) => {
      await page.getByLabel("Key", { exact: true }).fill(KEY);
      for (const text of ["What is the weather in Lisbon today?", "And tomorrow?"]) {
        await page.getByLabel(/^Message/).fill(text);
        await page.getByRole("button", { name: "Send" }).click();
        await page
          .getByText(/^whole/)
          .nth(1)
          .waitFor();
        await page.locator(".pane .verbatim").filter({ hasText: text }).nth(1).waitFor();
      }
      await page
        .getByText(/^Events/)
        .first()
        .click();
    },
  });
  const running = Array.from({ length: 8 }, async (_, n) => {
    await new Promise((later) => setTimeout(later, n * 250));
    await gateway.askModel("demo-slow", { key: n % 4 === 3 ? OTHER : KEY, text: "one two three" });
  });
  await screenshot("now", `${gateway.base}/`, { act: (page) => page.locator("tbody tr").nth(4).waitFor() });
  await Promise.all(running);
  await screenshot("request", `${gateway.base}/requests/${id}`, { dark: true, height: 700 });
  await screenshot("money", `${gateway.base}/money?since=7d`, { height: 860 });
  await screenshot("config", `${gateway.base}/config`, { dark: true });
});
