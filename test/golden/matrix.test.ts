import { readFileSync, writeFileSync } from "node:fs";
import t from "tap";
import { matrixTable, refusedList, unexplained } from "./fidelity-page.ts";
import { matrix, origins } from "./matrix.ts";

const PAGE = new URL("../../docs/fidelity.md", import.meta.url);
/** Milliseconds for ten thousand answers on a busy machine. */
const LIMIT = 300_000;
t.setTimeout(LIMIT);
const found = await origins();

/** The page with what stands between two marks replaced. */
const between = (page: string, mark: string, text: string): string =>
  page.replace(
    new RegExp(`(<!-- ${mark} -->\n)[\\s\\S]*?(\n<!-- /${mark} -->)`),
    (_all, from: string, to: string) => `${from}${text}${to}`,
  );

t.test(
  "every recorded answer says the same to clients of the other protocols, or is listed with the reason",
  { skip: !found && "recordings are absent", timeout: LIMIT },
  async (t) => {
    const origins = found ?? [];
    t.ok(origins.length > 1700, `${origins.length} answers`);
    const verdicts = await matrix(t, origins);
    t.same(unexplained(verdicts, origins).slice(0, 10), []);
    const page = readFileSync(PAGE, "utf8");
    const now = between(between(page, "answers", matrixTable(verdicts)), "refused", refusedList(verdicts, origins));
    // `FIDELITY=write` brings the page up to date.
    if (process.env["FIDELITY"] === "write") writeFileSync(PAGE, now);
    else t.equal(page, now, "docs/fidelity.md tells these numbers");
  },
);
