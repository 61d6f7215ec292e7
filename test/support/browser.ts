import { existsSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { type Browser, chromium, type Page } from "playwright-core";

/** The browser for tests of the pages; undefined: none is installed. The headless shell takes half the CPU of the others. */
export const CHROMIUM = ["chromium-headless-shell", "chromium", "chromium-browser", "google-chrome"]
  .map((name) => `/usr/bin/${name}`)
  .find(existsSync);

/** Why tests with a browser are skipped; false: they are not. With `GATEWAY_TEST_CHROMIUM=required` they fail without one. */
export const noBrowser: string | false =
  CHROMIUM !== undefined || process.env["GATEWAY_TEST_CHROMIUM"] === "required" ? false : "there is no Chromium here";

const FLAGS =
  "--no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking --disable-component-update --disable-sync";

/** Starts a headless browser; the caller closes it. @throws the error that prevents the start */
export function openBrowser(): Promise<Browser> {
  return chromium.launch({ executablePath: CHROMIUM ?? "chromium", args: FLAGS.split(" ") });
}

/** The sizes and themes in which every page is checked. */
const LOOKS = [1280, 360].flatMap((width) =>
  (["light", "dark"] as const).map((colorScheme) => ({ width, colorScheme })),
);

const AXE = readFileSync(fileURLToPath(import.meta.resolve("axe-core/axe.min.js")), "utf8");

/** Returns what axe-core finds serious or critical on a page: the rule, and where. */
export async function faultsOf(page: Page): Promise<string[]> {
  // Not by a script element, which the page's policy blocks.
  await page.evaluate(AXE);
  return page.evaluate(async () => {
    const { axe } = globalThis as unknown as {
      axe: {
        run(): Promise<{
          violations: {
            id: string;
            impact: string;
            nodes: { target: string[]; html: string; failureSummary: string }[];
          }[];
        }>;
      };
    };
    const { violations } = await axe.run();
    return violations
      .filter(({ impact }) => impact === "serious" || impact === "critical")
      .flatMap(({ id, nodes }) =>
        nodes.map(
          ({ target, html, failureSummary }) =>
            `${id} at ${target.join(" ")}: ${html.slice(0, 120)} ${failureSummary.slice(0, 200)}`,
        ),
      );
  });
}

/** Returns by how many pixels a page is wider than its window. */
const overflowOf = (page: Page): Promise<number> =>
  page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth");

/** Returns the problems of a page in each of `LOOKS`. */
export async function looksOf(page: Page): Promise<{ where: string; faults: string[]; overflow: number }[]> {
  const found = [];
  for (const { width, colorScheme } of LOOKS) {
    await page.setViewportSize({ width, height: 800 });
    await page.emulateMedia({ colorScheme });
    found.push({
      where: `at ${width}, ${colorScheme}`,
      faults: await faultsOf(page),
      overflow: await overflowOf(page),
    });
  }
  return found;
}
