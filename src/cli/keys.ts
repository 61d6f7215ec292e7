import { thrownMessage } from "../core/errors.ts";
import type { Limits } from "../core/limit-kinds.ts";
import { groupAndParents, keyLimits, type LimitTable, limitScope } from "../core/limits.ts";
import { type Audit, editDetail } from "../store/audit.ts";
import { keyVersion } from "../store/key-rows.ts";
import type { IssuedKey, KeyEdit, KeyRecord, Keys, NewKey } from "../store/keys.ts";
import type { Ledger } from "../store/ledger.ts";
import { UsageError } from "../text/format-error.ts";
import { formatLimitOptions } from "../text/key-limits.ts";
import { parseTimeSpan } from "../text/moments.ts";
import { formatTable, formatUtc, groupDigits, printTable } from "../text/table.ts";
import { type AuditedChange, recordChange } from "./author.ts";
import { reportBehind } from "./behind.ts";
import { type BudgetSpending, budgetSpending, formatSpending, groupBudgets } from "./budget-spending.ts";
import { checkOptionsNotEmpty, FIELD_OPTIONS, type FieldOptions, parseKeyFields } from "./key-fields.ts";
import { COMMAND, parseVerbArguments, printFailure, printJson, type Terminal, wrongCommand } from "./verb.ts";

const OVERLAP = "24h";

const OPTIONS = { ...FIELD_OPTIONS, overlap: { type: "string" }, json: { type: "boolean" } } as const;

type KeyOptions = FieldOptions & { overlap?: string; json?: boolean };

/** The limits and names of gateway.yaml that concern keys. */
export interface KeyConfig {
  /** Ids of models. */
  readonly models: readonly string[];
  readonly limits: LimitTable;
  /** The time zone of budgets. */
  readonly timezone: string;
  /** Returns why such limits could not be enforced; undefined: they can. */
  unenforceableReason(limits: Limits, models?: readonly string[]): Promise<string | undefined>;
}

interface KeyActionContext {
  keys: Keys;
  audit: Audit;
  ledger: Ledger;
  io: Terminal;
  options: KeyOptions;
  /** @throws ConfigError if gateway.yaml is invalid: most actions work without it. */
  config(): KeyConfig;
}

/** An action, its options, and whether it needs a key. */
interface KeyAction {
  act(name: string, context: KeyActionContext): Promise<AuditedChange | undefined>;
  readonly takes: readonly string[];
  readonly named: boolean;
}

const KEY_ACTIONS: Record<string, KeyAction> = {
  create: { act: create, takes: Object.keys(FIELD_OPTIONS).filter((field) => field !== "name"), named: true },
  list: { act: list, takes: [], named: false },
  show: { act: show, takes: [], named: true },
  set: { act: set, takes: Object.keys(FIELD_OPTIONS), named: true },
  rotate: { act: rotate, takes: ["overlap"], named: true },
  disable: { act: switchTo("disable"), takes: [], named: true },
  enable: { act: switchTo("enable"), takes: [], named: true },
  revoke: { act: revoke, takes: [], named: true },
};

/** Runs the verb `keys`. Returns the exit code: 0 done, 1 failed. @throws UsageError */
export async function runKeys(
  args: readonly string[],
  io: Terminal,
  { keys, audit, ledger }: { keys: Keys; audit: Audit; ledger: Ledger },
  config: () => KeyConfig,
): Promise<number> {
  try {
    const { action, name, options } = parseKeyCommand(args);
    const changed = await action.act(name, { keys, audit, ledger, io, options, config });
    if (changed) await recordChange(changed, audit);
    return 0;
  } catch (error) {
    return printFailure(error, io);
  }
}

/** Parses the arguments of `keys`, which needs no store. @throws UsageError */
export function parseKeyCommand(args: readonly string[]): { action: KeyAction; name: string; options: KeyOptions } {
  const { values, positionals } = parseVerbArguments(args, OPTIONS, Infinity);
  const [verb = "", name = "", ...more] = positionals;
  const action = Object.hasOwn(KEY_ACTIONS, verb) ? KEY_ACTIONS[verb] : undefined;
  if (!action) throw wrongCommand("keys", verb, Object.keys(KEY_ACTIONS));
  if (action.named !== (name !== "") || more.length > 0) throw new UsageError(wrongArguments(verb, action.named));
  for (const option of Object.keys(values))
    if (option !== "json" && !action.takes.includes(option))
      throw new UsageError(`--${option} is not an option of keys ${verb}.`);
  if (values.overlap !== undefined) parseOverlap(values.overlap);
  return { action, name, options: values };
}

function wrongArguments(verb: string, named: boolean): string {
  if (!named) return `keys ${verb} takes no names.`;
  if (verb === "create") return "keys create takes one name; put it in quotes if it has spaces.";
  return `keys ${verb} takes one id or name; put a name in quotes if it has spaces.`;
}

async function create(name: string, context: KeyActionContext): Promise<AuditedChange> {
  const { keys, audit, io, options, config } = context;
  checkOptionsNotEmpty(options);
  const edit = parseKeyFields(options, config().models);
  await checkLimits(edit, config());
  const fields = Object.fromEntries(Object.entries(edit).filter(([, value]) => value !== null));
  const issued = await keys.create({ ...fields, name } as NewKey);
  // The key itself is printed whatever happens to the figures: it cannot be shown again.
  const [figures] = options.json ? await limitFigures([issued.record], context).catch(() => []) : [];
  const created = { action: "keys.create", subject: name, detail: fields };
  try {
    printIssued(issued, "it was revoked at once", options, io, figures);
  } catch (thrown) {
    await keys.revoke(issued.record.id);
    for (const change of [created, { action: "keys.revoke", subject: name, detail: {} }])
      await recordChange(change, audit);
    throw thrown;
  }
  return created;
}

/** @throws UsageError */
function parseOverlap(text: string): number {
  try {
    return parseTimeSpan(text, "--overlap");
  } catch (thrown) {
    throw new UsageError(thrownMessage(thrown));
  }
}

async function rotate(name: string, { keys, io, options }: KeyActionContext): Promise<AuditedChange> {
  const { overlap = OVERLAP } = options;
  const deliver = (issued: IssuedKey) => printIssued(issued, "the old one stays", options, io);
  const made =
    (await keys.rotate(name, parseOverlap(overlap), deliver)) ?? (await failUnchanged(name, keys, "rotated"));
  const until = made.record.rotating;
  if (!options.json)
    io.err(until === undefined ? "The old one no longer works." : `The old one works until ${formatUtc(until)}.`);
  return { action: "keys.rotate", subject: made.record.name, detail: { overlap } };
}

/**
 * Prints a new key, alone on standard output, so that KEY=$(… keys create ci) works.
 * @param undone what happens if it cannot be printed
 * @throws Error if standard output cannot be written: nobody has the key then
 */
function printIssued(
  { key, record }: IssuedKey,
  undone: string,
  { json }: KeyOptions,
  io: Terminal,
  figures?: LimitFigures,
): void {
  try {
    io.outNow(json ? JSON.stringify({ key, ...keyJson(record), ...figures }, undefined, 2) : key);
  } catch (thrown) {
    // Without the error's code, which the store would take for one of its own.
    throw new Error(`The new key cannot be printed, so ${undone}: ${thrownMessage(thrown)}.`);
  }
  if (!json)
    io.err("Keep it now: only its hash is stored. Clients send it as their API key: Authorization: Bearer gw_…");
}

async function list(_name: string, context: KeyActionContext): Promise<undefined> {
  const { keys, io, options } = context;
  const records = await keys.list();
  if (options.json) {
    const figures = await limitFigures(records, context);
    io.out(
      JSON.stringify(
        records.map((record, i) => ({ ...keyJson(record), ...figures[i] })),
        undefined,
        2,
      ),
    );
  } else if (records.length === 0) io.out(`No keys yet. Create one with: ${COMMAND} keys create NAME`);
  else {
    const titles = ["ID", "NAME", "GROUP", "OWNER", "MODELS", "SOURCE", "CREATED", "EXPIRES", "STATE"];
    const groups = await Promise.all(records.map((record) => disabledGroupOf(record, keys)));
    const rows = records.map((record, i) => [
      record.id,
      record.name,
      record.group ?? "-",
      record.owner ?? "-",
      record.models?.join(",") ?? "all",
      sourceLabel(record),
      record.source === "file" ? "-" : formatUtc(record.created),
      record.expires === undefined ? "never" : formatUtc(record.expires),
      stateLabel(record, groups[i]),
    ]);
    printTable(titles, rows, io);
  }
}

async function show(name: string, context: KeyActionContext): Promise<undefined> {
  const record = await findKey(name, context.keys);
  if (!record) throw noSuchKey(name);
  await printKey(record, context);
}

async function set(name: string, context: KeyActionContext): Promise<AuditedChange> {
  const { keys, options, config } = context;
  const before = await keys.show(name);
  const edit = parseKeyFields(options, config().models, before);
  if (Object.keys(edit).length === 0) throw new UsageError("keys set needs an option with a field to change.");
  await checkLimits({ ...before, ...edit }, config());
  // Tags and limits that no option sets were read above: they would undo another operator's change since then.
  const based = before && (edit.tags !== undefined || edit.limits !== undefined) ? keyVersion(before) : undefined;
  const after = (await keys.edit(name, edit, based)) ?? (await failUnchanged(name, keys, "changed"));
  await printKey(after, context);
  return { action: "keys.edit", subject: before?.name ?? after.name, detail: editDetail(before, edit) };
}

function switchTo(state: "disable" | "enable") {
  return async (name: string, { keys, io, options }: KeyActionContext): Promise<AuditedChange> => {
    const record = (await keys[state](name)) ?? (await failUnchanged(name, keys, `${state}d`));
    const done = state === "disable" ? "Disabled" : "Enabled";
    io.out(options.json ? JSON.stringify(keyJson(record), undefined, 2) : `${done} ${name}.`);
    return { action: `keys.${state}`, subject: record.name, detail: {} };
  };
}

async function revoke(name: string, { keys, io, options }: KeyActionContext): Promise<AuditedChange> {
  const before = await keys.show(name);
  if (!(await keys.revoke(name))) await failUnchanged(name, keys, "revoked");
  io.out(options.json ? JSON.stringify({ revoked: name }) : `Revoked ${name}.`);
  return { action: "keys.revoke", subject: before?.name ?? name, detail: {} };
}

/** Returns the limits that apply to a key, and the owners of its budgets: itself and its groups. */
function limitsOf({ id, group, limits }: KeyRecord, all: LimitTable) {
  const own = keyLimits(all, id, limits);
  const groups = groupBudgets(group === undefined ? [] : groupAndParents(group), all.groups);
  return { own, owners: [{ kind: "key", name: id, budgets: own.budgets ?? [] } as const, ...groups] };
}

/** The limits that apply to a key, and what is spent of its budgets, for JSON. */
interface LimitFigures {
  readonly limits?: ReturnType<typeof formatLimitOptions>;
  readonly budgets?: readonly BudgetSpending[];
}

/** Returns the figures of each key; none where gateway.yaml is invalid, as its limits are unknown. */
async function limitFigures(
  records: readonly KeyRecord[],
  { io, config, ledger }: Pick<KeyActionContext, "io" | "config" | "ledger">,
): Promise<LimitFigures[]> {
  let all: LimitTable;
  let timezone: string;
  try {
    ({ limits: all, timezone } = config());
  } catch {
    return [];
  }
  const found = records.map((record) => limitsOf(record, all));
  const owners = new Map(found.flatMap(({ owners }) => owners).map((each) => [limitScope(each.kind, each.name), each]));
  if ([...owners.values()].some(({ budgets }) => budgets.length > 0)) reportBehind(ledger, io);
  const spending = await budgetSpending([...owners.values()], ledger, timezone);
  const byOwner = Map.groupBy(spending, ({ kind, name }) => limitScope(kind, name));
  return found.map(({ own, owners }) => ({
    limits: formatLimitOptions(own),
    budgets: owners.flatMap(({ kind, name }) => byOwner.get(limitScope(kind, name)) ?? []),
  }));
}

/** Prints a key completely: as JSON, or one field per line. */
async function printKey(
  record: KeyRecord,
  { options: { json }, keys, io, config, ledger }: KeyActionContext,
): Promise<void> {
  const { limits: all, timezone } = config();
  const { own, owners } = limitsOf(record, all);
  const limits = formatLimitOptions(own);
  const behind = owners.some((owner) => owner.budgets.length > 0) ? reportBehind(ledger, io) : {};
  const budgets = await budgetSpending(owners, ledger, timezone);
  if (json) {
    printJson({ ...keyJson(record), limits, budgets, ...behind }, io);
    return;
  }
  const list = (values: readonly string[] | undefined) => values?.join(", ") ?? "all";
  const { tags = {} } = record;
  // With a key that is revoked, its old secret is too.
  const rotating = record.revoked === undefined ? record.rotating : undefined;
  const fields: [string, string][] = [
    ["id", record.id],
    ["name", record.name],
    ["state", stateLabel(record, await disabledGroupOf(record, keys))],
    ["source", sourceLabel(record)],
    ["group", record.group ?? "-"],
    ["owner", record.owner ?? "-"],
    [
      "tags",
      Object.entries(tags)
        .map((tag) => tag.join("="))
        .join(", ") || "-",
    ],
    ["models", list(record.models)],
    ["paths", list(record.paths)],
    ["addresses", list(record.addresses)],
    ["rpm", limits.rpm === undefined ? "off" : groupDigits(limits.rpm)],
    ["tpm", limits.tpm === undefined ? "off" : groupDigits(limits.tpm)],
    ["concurrency", limits.concurrency === undefined ? "off" : groupDigits(limits.concurrency)],
    ["budget", limits.budget?.join(", ") ?? "off"],
    ...owners.flatMap(({ kind, name }): [string, string][] => {
      const ownBudgets = budgets.filter((each) => each.kind === kind && each.name === name);
      return ownBudgets.length === 0
        ? []
        : [[kind === "key" ? "spent" : `spent by ${name}`, formatSpending(ownBudgets)]];
    }),
    ["created", record.source === "file" ? "-" : formatUtc(record.created)],
    ["expires", record.expires === undefined ? "never" : formatUtc(record.expires)],
    ...(rotating === undefined
      ? []
      : [
          ["old key", `${rotating > Date.now() ? "works" : "worked"} until ${formatUtc(rotating)}`] as [string, string],
        ]),
  ];
  for (const line of formatTable(["FIELD", "VALUE"], fields).slice(1)) io.out(line);
}

/** @throws Error for limits that could not be enforced */
async function checkLimits({ limits, models }: KeyEdit, { unenforceableReason }: KeyConfig): Promise<void> {
  const why = limits ? await unenforceableReason(limits, models ?? undefined) : undefined;
  if (why !== undefined) throw new Error(`The key's limits could not be enforced: ${why}.`);
}

const sourceLabel = ({ source }: KeyRecord): string => (source === "file" ? "gateway.yaml" : "store");

/** @param group the one by which it is disabled */
function stateLabel({ revoked, disabled, expires }: KeyRecord, group: string | undefined): string {
  if (revoked !== undefined) return `revoked ${formatUtc(revoked)}`;
  if (expires !== undefined && expires <= Date.now()) return "expired";
  if (disabled !== undefined) return `disabled ${formatUtc(disabled)}`;
  return group === undefined ? "on" : `disabled by group ${group}`;
}

const disabledGroupOf = ({ group }: KeyRecord, keys: Keys) =>
  group === undefined ? undefined : keys.disabledGroup(group);

/** Finds a key by id or name; if no key has the name now, the last revoked one that had it. */
async function findKey(idOrName: string, keys: Keys): Promise<KeyRecord | undefined> {
  const found = await keys.show(idOrName);
  if (found) return found;
  const gone = (await keys.list()).filter(({ name, revoked }) => name === idOrName && revoked !== undefined);
  return gone.sort((a, b) => (b.revoked ?? 0) - (a.revoked ?? 0))[0];
}

const noSuchKey = (name: string): Error => new Error(`There is no key ${name}. See: ${COMMAND} keys list`);

/** @throws Error with the reason why nothing was done */
async function failUnchanged(name: string, keys: Keys, what: string): Promise<never> {
  const found = await findKey(name, keys);
  if (found?.source === "file")
    throw new Error(
      `The key ${name} is defined in gateway.yaml: ${what === "revoked" ? "remove" : "change"} it there.`,
    );
  throw new Error(
    found
      ? `The key ${name} is revoked, so it cannot be ${what}${what === "changed" ? `; only its name, owner, group and tags can, by its id ${found.id}` : ""}.`
      : `There is no key ${name} that can be ${what}. See: ${COMMAND} keys list`,
  );
}

/** A record without its hash, in fixed order. */
function keyJson(record: KeyRecord) {
  const { id, name, source, group, owner, tags, models, paths, addresses } = record;
  const time = (at: number | undefined) => (at === undefined ? null : new Date(at).toISOString());
  return {
    id,
    name,
    group: group ?? null,
    owner: owner ?? null,
    tags: tags ?? {},
    models: models ?? null,
    paths: paths ?? null,
    addresses: addresses ?? null,
    source,
    created: source === "file" ? null : time(record.created),
    expires: time(record.expires),
    old_key_until: time(record.rotating),
    disabled: time(record.disabled),
    revoked: time(record.revoked),
  };
}
