import { nearest } from "../config/suggest.ts";
import { groupAndParents, type LimitTable } from "../core/limits.ts";
import type { Audit } from "../store/audit.ts";
import { type GroupTotals, groupTotals } from "../store/group-totals.ts";
import type { Keys } from "../store/keys.ts";
import type { Ledger } from "../store/ledger.ts";
import { UsageError } from "../text/format-error.ts";
import { formatCost, formatUtc, groupDigits, numberColumns, printTable } from "../text/table.ts";
import { recordChange } from "./author.ts";
import { reportBehind } from "./behind.ts";
import { type BudgetSpending, budgetSpending, formatSpending, groupBudgets } from "./budget-spending.ts";
import {
  COMMAND,
  parsePastOption,
  parseVerbArguments,
  printFailure,
  printJson,
  type Terminal,
  wrongCommand,
} from "./verb.ts";

const OPTIONS = { since: { type: "string" }, json: { type: "boolean", default: false } } as const;

/** What each command does, and its word in the past. */
const SWITCHES = { disable: ["disableGroup", "Disabled"], enable: ["enableGroup", "Enabled"] } as const;

/** The stores of the verb. */
interface GroupStores {
  readonly keys: Keys;
  readonly ledger: Ledger;
  readonly audit: Audit;
}

type GroupCommand =
  | { command: "list"; since: number | undefined; json: boolean }
  | { command: keyof typeof SWITCHES; name: string; json: boolean };

/**
 * Runs the verb `groups`. Returns the exit code: 0 done, 1 there is no such group.
 * @param zone the time zone of days
 * @param limits those of gateway.yaml; undefined: unknown
 * @throws UsageError
 */
export async function runGroups(
  args: readonly string[],
  io: Terminal,
  stores: GroupStores,
  zone: () => string,
  limits: () => LimitTable["groups"],
): Promise<number> {
  const parsed = parseGroupCommand(args, zone);
  if (parsed.command === "list") return listGroups(parsed, io, stores, zone, limits());
  try {
    await switchGroup(parsed.command, parsed.name, stores, [...(limits()?.keys() ?? [])], io, parsed.json);
    return 0;
  } catch (thrown) {
    return printFailure(thrown, io);
  }
}

/** Parses the arguments of `groups`, which needs no store. @throws UsageError */
export function parseGroupCommand(args: readonly string[], zone: () => string): GroupCommand {
  const { values, positionals } = parseVerbArguments(args, OPTIONS, 2);
  const { since, json } = values;
  const [command, name] = positionals;
  if (command === undefined) return { command: "list", since: parsePastOption("--since", since, zone), json };
  if (command !== "disable" && command !== "enable") throw wrongCommand("groups", command, ["disable", "enable"]);
  if (!name) throw new UsageError(`groups ${command} takes one group.`);
  if (since !== undefined) throw new UsageError(`--since is not an option of groups ${command}.`);
  return { command, name, json };
}

/** @param limited groups of gateway.yaml @throws Error if there is no such group: a misspelt one would disable nothing */
async function switchGroup(
  command: keyof typeof SWITCHES,
  name: string,
  { keys, ledger, audit }: GroupStores,
  limited: readonly string[],
  io: Terminal,
  json: boolean,
): Promise<void> {
  const known = (await groupTotals(keys, ledger, { by: ["group"] }, limited)).map(({ group }) => group);
  if (!known.includes(name)) {
    const near = nearest(name, known);
    throw new Error(
      `There is no group ${name}; ${near === undefined ? `see: ${COMMAND} groups` : `did you mean ${near}?`}`,
    );
  }
  const [act, done] = SWITCHES[command];
  await keys[act](name);
  const by = await keys.disabledGroup(name);
  if (json) io.out(JSON.stringify({ group: name, disabled_by: by ?? null }));
  else
    io.out(
      `${done} ${name}${command === "enable" && by !== undefined ? `; ${by} is still disabled, and its keys with it` : ""}.`,
    );
  await recordChange({ action: `groups.${command}`, subject: name, detail: {} }, audit);
}

async function listGroups(
  { since, json }: Extract<GroupCommand, { command: "list" }>,
  io: Terminal,
  { keys, ledger }: GroupStores,
  zone: () => string,
  limited: LimitTable["groups"],
): Promise<number> {
  reportBehind(ledger, io);
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
  const disabled = new Map(lines.flatMap(({ group, disabled }) => (disabled === undefined ? [] : [[group, disabled]])));
  if (json) printJson(lines.map(lineJson), io);
  else if (lines.length === 0) io.out(`No groups yet. Put a key into one with: ${COMMAND} keys set KEY --group acme`);
  else {
    const columns = ["GROUP", ...numberColumns("KEYS", "REQUESTS", "COST"), ...(spent.length > 0 ? ["SPENT"] : [])];
    if (disabled.size > 0) columns.push("STATE");
    const rows = lines.map(({ group, keys, requests, cost, budgets }) => [
      group,
      groupDigits(keys.length),
      groupDigits(requests),
      formatCost(cost),
      ...(spent.length > 0 ? [budgets ? formatSpending(budgets) : "-"] : []),
      ...(disabled.size > 0 ? [stateLabel(group, disabled)] : []),
    ]);
    printTable(columns, rows, io);
  }
  return 0;
}

/** A line with its time as a text. */
const lineJson = ({ disabled, ...line }: GroupTotals) => ({
  ...line,
  ...(disabled !== undefined && { disabled: new Date(disabled).toISOString() }),
});

/** @param disabled groups that are disabled themselves, and since when */
function stateLabel(group: string, disabled: ReadonlyMap<string, number>): string {
  const by = groupAndParents(group).find((each) => disabled.has(each));
  if (by === undefined) return "on";
  return by === group ? `disabled ${formatUtc(disabled.get(by) ?? 0)}` : `disabled by ${by}`;
}
