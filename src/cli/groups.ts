import { parseArgs } from "node:util";
import type { LimitTable } from "../core/limits.ts";
import { type GroupLine, groupLines } from "../store/group-lines.ts";
import type { Keys } from "../store/keys.ts";
import type { Ledger, LedgerQuery } from "../store/ledger.ts";
import { dollars, table, thousands } from "../text/table.ts";
import { past } from "../text/when.ts";
import { USAGE } from "./help/groups.ts";
import { groupBudgets, type SpentBudget, spentOf, spentWords } from "./spent.ts";
import { COMMAND, misuseText, type Terminal } from "./verb.ts";

/**
 * Runs the verb `groups`. Returns the exit code: 0 done, 1 failed, 2 not understood.
 * @param zone the time zone of days
 * @param limits those of gateway.yaml; undefined: unknown
 */
export async function run(
  args: readonly string[],
  io: Terminal,
  { keys, ledger }: { keys: Keys; ledger: Ledger },
  zone = () => "UTC",
  limits: () => LimitTable["groups"] = () => undefined,
): Promise<number> {
  let asked: { query: LedgerQuery; json: boolean };
  try {
    asked = read(args, zone);
  } catch (thrown) {
    io.err(misuseText((thrown as Error).message, USAGE));
    return 2;
  }
  const limited = limits();
  const owners = groupBudgets([...(limited?.keys() ?? [])], limited);
  const found = await groupLines(
    keys,
    ledger,
    asked.query,
    owners.map(({ name }) => name),
  );
  const spent = owners.length === 0 ? [] : await spentOf(owners, ledger, zone());
  const lines = found.map((line): GroupLine & { budgets?: SpentBudget[] } => {
    const budgets = spent.filter(({ name }) => name === line.group);
    return budgets.length === 0 ? line : { ...line, budgets };
  });
  if (asked.json) io.out(JSON.stringify(lines, undefined, 2));
  else if (lines.length === 0) io.out(`No groups yet. Put a key into one with: ${COMMAND} keys set KEY --group acme`);
  else {
    const columns = [
      ...[{ title: "GROUP" }, { title: "KEYS", right: true }, { title: "REQUESTS", right: true }],
      ...[{ title: "COST", right: true }, ...(spent.length > 0 ? [{ title: "SPENT" }] : [])],
    ];
    const rows = lines.map(({ group, keys, requests, cost, budgets }) => [
      group,
      thousands(keys.length),
      thousands(requests),
      dollars(cost),
      ...(spent.length > 0 ? [budgets ? spentWords(budgets) : "-"] : []),
    ]);
    for (const line of table(columns, rows)) io.out(line);
  }
  return 0;
}

/** @throws Error describing a mistake on the command line */
function read(args: readonly string[], zone: () => string): { query: LedgerQuery; json: boolean } {
  const { values } = parseArgs({
    args: [...args],
    options: { since: { type: "string" }, json: { type: "boolean", default: false } },
  });
  const { since, json } = values;
  return { query: { by: ["group"], ...(since !== undefined && { since: past(since, Date.now(), zone) }) }, json };
}
