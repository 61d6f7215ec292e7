import { existsSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { type Browser, chromium, type Page } from "playwright-core";

/** The browser that the pages are tried in; undefined: there is none here. */
export const CHROMIUM = ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"].find(existsSync);

/** Why a test with a browser is skipped; false: it is not. `GATEWAY_TEST_CHROMIUM=required` fails where there is none. */
export const noBrowser: string | false =
  CHROMIUM !== undefined || process.env["GATEWAY_TEST_CHROMIUM"] === "required" ? false : "there is no Chromium here";

const FLAGS =
  "--no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking --disable-component-update --disable-sync";

/** A browser without a window; to be closed by who asked. @throws what keeps it from starting */
export function openBrowser(): Promise<Browser> {
  return chromium.launch({ executablePath: CHROMIUM ?? "chromium", args: FLAGS.split(" ") });
}

/** The sizes and themes that every page is looked at in. */
const LOOKS = [1280, 360].flatMap((width) =>
  (["light", "dark"] as const).map((colorScheme) => ({ width, colorScheme })),
);

const AXE = readFileSync(fileURLToPath(import.meta.resolve("axe-core/axe.min.js")), "utf8");

/** What axe-core finds serious or critical on a page: the rule, and where. */
export async function faultsOf(page: Page): Promise<string[]> {
  // Not by a script element: the page's policy takes none.
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

/** Pixels by which a page is wider than its window. */
const overflowOf = (page: Page): Promise<number> =>
  page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth");

/** What is wrong with a page in each of `LOOKS`. */
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
