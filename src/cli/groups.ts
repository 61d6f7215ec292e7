import type { LimitTable } from "../core/limits.ts";
import { type GroupTotals, groupTotals } from "../store/group-lines.ts";
import type { Keys } from "../store/keys.ts";
import type { Ledger } from "../store/ledger.ts";
import { formatCost, formatTable, groupDigits, numberColumns } from "../text/table.ts";
import { reportBehind } from "./behind.ts";
import { type BudgetSpending, budgetSpending, formatSpending, groupBudgets } from "./budget-spending.ts";
import { COMMAND, parsePastOption, parseVerbArguments, type Terminal } from "./verb.ts";

const OPTIONS = { since: { type: "string" }, json: { type: "boolean" } } as const;

/**
 * Runs the verb `groups`. Returns the exit code 0.
 * @param zone the time zone of days
 * @param limits those of gateway.yaml; undefined: unknown
 * @throws UsageError
 */
export async function runGroups(
  args: readonly string[],
  io: Terminal,
  { keys, ledger }: { keys: Keys; ledger: Ledger },
  zone: () => string,
  limits: () => LimitTable["groups"],
): Promise<number> {
  const { values } = parseVerbArguments(args, OPTIONS);
  const since = parsePastOption("--since", values.since, zone);
  reportBehind(ledger, io);
  const limited = limits();
  const owners = groupBudgets([...(limited?.keys() ?? [])], limited);
  const found = await groupTotals(
    keys,
    ledger,
    { by: ["group"], ...(since !== undefined && { since }) },
    owners.map(({ name }) => name),
  );
  const spent = owners.length === 0 ? [] : await budgetSpending(owners, ledger, zone());
  const lines = found.map((line): GroupTotals & { budgets?: BudgetSpending[] } => {
    const budgets = spent.filter(({ name }) => name === line.group);
    return budgets.length === 0 ? line : { ...line, budgets };
  });
  if (values.json) io.out(JSON.stringify(lines, undefined, 2));
  else if (lines.length === 0) io.out(`No groups yet. Put a key into one with: ${COMMAND} keys set KEY --group acme`);
  else {
    const columns = ["GROUP", ...numberColumns("KEYS", "REQUESTS", "COST"), ...(spent.length > 0 ? ["SPENT"] : [])];
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
