import { parseArgs } from "node:util";
import type { LimitTable } from "../core/limits.ts";
import { type GroupTotals, groupTotals } from "../store/group-lines.ts";
import type { Keys } from "../store/keys.ts";
import type { Ledger, LedgerQuery } from "../store/ledger.ts";
import { parsePastMoment } from "../text/moments.ts";
import { formatCost, formatTable, groupDigits } from "../text/table.ts";
import { reportBehind } from "./behind.ts";
import { type BudgetSpending, budgetSpending, formatSpending, groupBudgets } from "./budget-spending.ts";
import { USAGE } from "./help/groups.ts";
import { argumentErrorText, COMMAND, type Terminal } from "./verb.ts";

/**
 * Runs the verb `groups`. Returns the exit code: 0 done, 1 failed, 2 not understood.
 * @param zone the time zone of days
 * @param limits those of gateway.yaml; undefined: unknown
 */
export async function runGroups(
  args: readonly string[],
  io: Terminal,
  { keys, ledger }: { keys: Keys; ledger: Ledger },
  zone = () => "UTC",
  limits: () => LimitTable["groups"] = () => undefined,
): Promise<number> {
  let parsed: { query: LedgerQuery; json: boolean };
  try {
    parsed = parseArguments(args, zone);
  } catch (thrown) {
    io.err(argumentErrorText((thrown as Error).message, USAGE));
    return 2;
  }
  reportBehind(ledger, io);
  const limited = limits();
  const owners = groupBudgets([...(limited?.keys() ?? [])], limited);
  const found = await groupTotals(
    keys,
    ledger,
    parsed.query,
    owners.map(({ name }) => name),
  );
  const spent = owners.length === 0 ? [] : await budgetSpending(owners, ledger, zone());
  const lines = found.map((line): GroupTotals & { budgets?: BudgetSpending[] } => {
    const budgets = spent.filter(({ name }) => name === line.group);
    return budgets.length === 0 ? line : { ...line, budgets };
  });
  if (parsed.json) io.out(JSON.stringify(lines, undefined, 2));
  else if (lines.length === 0) io.out(`No groups yet. Put a key into one with: ${COMMAND} keys set KEY --group acme`);
  else {
    const columns = [
      ...[{ title: "GROUP" }, { title: "KEYS", right: true }, { title: "REQUESTS", right: true }],
      ...[{ title: "COST", right: true }, ...(spent.length > 0 ? [{ title: "SPENT" }] : [])],
    ];
    const rows = lines.map(({ group, keys, requests, cost, budgets }) => [
      group,
      groupDigits(keys.length),
      groupDigits(requests),
      formatCost(cost),
      ...(spent.length > 0 ? [budgets ? formatSpending(budgets) : "-"] : []),
    ]);
    for (const line of formatTable(columns, rows)) io.out(line);
  }
  return 0;
}

/** @throws Error describing a mistake on the command line */
function parseArguments(args: readonly string[], zone: () => string): { query: LedgerQuery; json: boolean } {
  const { values } = parseArgs({
    args: [...args],
    options: { since: { type: "string" }, json: { type: "boolean", default: false } },
  });
  const { since, json } = values;
  return {
    query: { by: ["group"], ...(since !== undefined && { since: parsePastMoment(since, Date.now(), zone) }) },
    json,
  };
}
