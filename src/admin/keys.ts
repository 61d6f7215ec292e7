import { z } from "zod";
import { network } from "../config/quantities.ts";
import { GROUP, KEY_PATH, LABEL, TAG } from "../config/schema/key.ts";
import { GatewayError, thrownMessage } from "../core/errors.ts";
import type { Limits } from "../core/limit-kinds.ts";
import { limitsProblem } from "../marketplace/budgets.ts";
import { editDetail } from "../store/audit.ts";
import { groupTotals } from "../store/group-totals.ts";
import { keyVersion } from "../store/key-rows.ts";
import type { IssuedKey, KeyEdit, KeyRecord, NewKey } from "../store/keys.ts";
import { formatOwnLimits, mergeLimits } from "../text/key-limits.ts";
import { unknownModelMessage } from "../text/key-models.ts";
import { parseTimeSpan } from "../text/moments.ts";
import { formatUtc } from "../text/table.ts";
import type { AdminGateway } from "./admin-gateway.ts";
import { AdminError } from "./errors.ts";
import { type AdminHandler, type AdminRequest, type AdminResponse, parseBody } from "./route.ts";
import { querySpan } from "./span.ts";

/** The fields of a key that a client may set; null removes a field. */
export const KeyFieldsSchema = z.strictObject({
  name: z.string().min(1).max(100).optional(),
  group: z.string().regex(GROUP).nullish(),
  owner: z.string().regex(LABEL).nullish(),
  tags: z.record(z.string().regex(TAG), z.string().regex(LABEL)).nullish(),
  models: z.array(z.string().min(1)).nullish(),
  paths: z.array(z.string().regex(KEY_PATH)).nullish(),
  addresses: z.array(network).nullish(),
  expires: z.int().positive().nullish(),
  rpm: z.union([z.string(), z.int()]).nullish(),
  tpm: z.union([z.string(), z.int()]).nullish(),
  concurrency: z.union([z.string(), z.int()]).nullish(),
  budget: z.union([z.string(), z.array(z.string())]).nullish(),
});

/** An edit, and the `version` of the key on which it is based. */
export const KeyEditSchema = KeyFieldsSchema.extend({ version: z.string().optional() });

/** How long the old key stays valid. */
export const RotationSchema = z.strictObject({ overlap: z.string().default("24h") });

/** Formats a limit as on the command line; null removes it. */
const limitText = (value: string | number | null | undefined): string | undefined =>
  value === undefined ? undefined : String(value ?? "");

/**
 * @param before the key's current limits and models
 * @throws AdminError that names the field
 */
function parseKeyFields(
  body: unknown,
  config: AdminGateway["config"],
  before: Pick<KeyRecord, "limits" | "models"> = {},
): KeyEdit {
  const { rpm, tpm, concurrency, budget, ...fields } = parseBody(KeyFieldsSchema, body);
  checkUsable(fields, config, before.models);
  const options = { rpm: limitText(rpm), tpm: limitText(tpm), concurrency: limitText(concurrency) };
  const sums = budget === undefined ? undefined : [budget ?? ""].flat();
  try {
    const given = Object.entries({ ...options, budget: sums }).filter(([, value]) => value !== undefined);
    const limits = mergeLimits(Object.fromEntries(given), before.limits);
    return { ...(fields as KeyEdit), ...(limits !== undefined && { limits }) };
  } catch (thrown) {
    throw new AdminError("bad_request", thrownMessage(thrown).replace(/^--/, ""));
  }
}

/** @throws AdminError for a key that could be used for nothing, because of a typing error */
function checkUsable(
  { models, expires }: Pick<z.output<typeof KeyFieldsSchema>, "models" | "expires">,
  config: AdminGateway["config"],
  before: readonly string[] = [],
): void {
  const ids = config.models.map(({ id }) => id);
  // A model that a key has already may be gone from gateway.yaml meanwhile.
  const added = models?.filter((model) => !before.includes(model)) ?? [];
  const [why] = added.flatMap((model) => unknownModelMessage(model, ids) ?? []);
  if (why !== undefined) throw new AdminError("bad_request", `models: ${why}`);
  if (typeof expires === "number" && expires <= Date.now())
    throw new AdminError("bad_request", `expires: ${formatUtc(expires)} has passed; it takes Unix milliseconds`);
}

/**
 * Returns what is shown of a key: never its hash; its limits in the form of gateway.yaml, and for a key of gateway.yaml also what
 * that says.
 */
function toShownKey(key: KeyRecord, { limits: table, written }: AdminGateway["config"]) {
  const { hash: _, limits, ...record } = key;
  if (key.source === "store") return { ...record, ...(limits && formatOwnLimits(limits)), version: keyVersion(key) };
  const own = table.keys?.get(record.id) ?? {};
  return { ...record, ...formatOwnLimits(own), written: written.keys.get(record.id) ?? {} };
}

const toIssuedKey = ({ key: secret, record }: IssuedKey, { config }: AdminGateway) => ({
  key: toShownKey(record, config),
  secret,
});

/**
 * Returns the store's answer.
 * @throws AdminError where the store refuses, which the client can correct, or fails, which it cannot
 */
async function fromStore<T>(answer: Promise<T>): Promise<T> {
  try {
    return await answer;
  } catch (thrown) {
    if (thrown instanceof GatewayError && thrown.status < 500) throw new AdminError("conflict", thrown.message);
    const cause = thrown instanceof GatewayError ? (thrown.cause ?? thrown) : thrown;
    throw new AdminError("unavailable", `The store cannot do that at the moment: ${thrownMessage(cause)}`, { cause });
  }
}

export const list: AdminHandler = async ({ stores, config }) => {
  const all = await fromStore(stores.keys.list());
  return { body: { keys: all.map((key) => toShownKey(key, config)) } };
};

/** Separate from the list of keys, which is often needed without this. */
export const lastUsed: AdminHandler = async ({ stores }) => {
  const all = await fromStore(stores.keys.list());
  return { body: { keys: Object.fromEntries(await stores.ledger.lastUsed(all.map(({ id }) => id))) } };
};

/** @throws AdminError where there is none */
async function findKey({ stores }: AdminGateway, name: string): Promise<KeyRecord> {
  const found = await fromStore(stores.keys.show(name));
  if (!found) throw new AdminError("not_found", `There is no key ${name}.`);
  return found;
}

export const show: AdminHandler = async (gateway, { names: [name = ""] }) => ({
  body: { key: toShownKey(await findKey(gateway, name), gateway.config) },
});

/** @throws AdminError for limits that would not be enforced, instead of accepting them silently */
async function checkEnforceable({ config }: AdminGateway, { limits, models }: Pick<KeyRecord, "limits" | "models">) {
  const why = limits && (await limitsProblem(config, limits, models));
  if (why !== undefined) throw new AdminError("refused", why);
}

export const create: AdminHandler = async (gateway, { body }) => {
  const { stores } = gateway;
  const fields = Object.entries(parseKeyFields(body, gateway.config)).filter(([, value]) => value !== null);
  const wanted = Object.fromEntries(fields) as unknown as NewKey;
  if (wanted.name === undefined) throw new AdminError("bad_request", "name: a key needs one");
  await checkEnforceable(gateway, wanted);
  const made = await fromStore(stores.keys.create(wanted));
  const { name, ...detail } = wanted;
  return { body: toIssuedKey(made, gateway), audit: { action: "keys.create", subject: name, detail: { ...detail } } };
};

/** Changes one key of the store. */
async function changeKey<T>(
  gateway: AdminGateway,
  { names: [name = ""] }: AdminRequest,
  action: string,
  act: (id: string) => Promise<T | undefined>,
  detail: Readonly<Record<string, unknown>> = {},
): Promise<{ result: T; audit: NonNullable<AdminResponse["audit"]> }> {
  const record = await findKey(gateway, name);
  if (record.source === "file")
    throw new AdminError("conflict", `The key ${record.name} is defined in gateway.yaml: change it there.`);
  const result = await fromStore(act(record.id));
  if (result === undefined) throw new AdminError("conflict", `The key ${record.name} is revoked.`);
  return { result, audit: { action, subject: record.name, detail } };
}

export const edit: AdminHandler = async (gateway, request) => {
  const before = await findKey(gateway, request.names[0] ?? "");
  const { limits, models } = before;
  const { version, ...body } = parseBody(KeyEditSchema, request.body);
  const fields = parseKeyFields(body, gateway.config, before);
  if (fields.limits || fields.models !== undefined) {
    const now = fields.limits === undefined ? limits : fields.limits;
    const may = fields.models === undefined ? models : fields.models;
    await checkEnforceable(gateway, { ...(now && { limits: now }), ...(may && { models: may }) });
  }
  // Limits that the request does not set were read above: they would undo a change of another request since then.
  const based = version ?? (fields.limits ? keyVersion(before) : undefined);
  const act = (id: string) => gateway.stores.keys.edit(id, fields, based);
  const { result, audit } = await changeKey(gateway, request, "keys.edit", act, editDetail(before, fields));
  return { body: { key: toShownKey(result, gateway.config) }, audit };
};

export const rotate: AdminHandler = async (gateway, request) => {
  const { overlap } = parseBody(RotationSchema, request.body);
  const milliseconds = parseOverlap(overlap);
  const act = (id: string) => gateway.stores.keys.rotate(id, milliseconds);
  const { result, audit } = await changeKey(gateway, request, "keys.rotate", act, { overlap });
  return { body: toIssuedKey(result, gateway), audit };
};

function parseOverlap(text: string): number {
  try {
    return parseTimeSpan(text, "overlap");
  } catch (thrown) {
    throw new AdminError("bad_request", thrownMessage(thrown));
  }
}

const switchTo =
  (state: "disable" | "enable"): AdminHandler =>
  async (gateway, request) => {
    const act = (id: string) => gateway.stores.keys[state](id);
    const { result, audit } = await changeKey(gateway, request, `keys.${state}`, act);
    return { body: { key: toShownKey(result, gateway.config) }, audit };
  };
export const disable = switchTo("disable");
export const enable = switchTo("enable");

export const revoke: AdminHandler = async (gateway, request) => {
  const act = async (id: string) => (await gateway.stores.keys.revoke(id)) || undefined;
  const { audit } = await changeKey(gateway, request, "keys.revoke", act);
  return { audit };
};

const switchGroup =
  (state: "disable" | "enable"): AdminHandler =>
  async ({ stores, config }, { names: [name = ""] }) => {
    const limited = [...(config.limits.groups?.keys() ?? [])];
    const lines = await fromStore(groupTotals(stores.keys, stores.ledger, { by: ["group"] }, limited));
    if (!lines.some(({ group }) => group === name)) throw new AdminError("not_found", `There is no group ${name}.`);
    await fromStore(stores.keys[`${state}Group`](name));
    return { audit: { action: `groups.${state}`, subject: name, detail: {} } };
  };
export const disableGroup = switchGroup("disable");
export const enableGroup = switchGroup("enable");

/**
 * Lists groups with everything below them, as the verb `groups` shows them, and their limits in gateway.yaml, whether or not a
 * key is in them.
 */
export const groups: AdminHandler = async ({ stores, config }, { query }) => {
  const span = querySpan(query, config.timezone);
  const limits = config.limits.groups ?? new Map<string, Limits>();
  const lines = await fromStore(
    groupTotals(stores.keys, stores.ledger, { ...span, by: ["group"] }, [...limits.keys()]),
  );
  const groups = lines.map((line) => ({
    ...{ ...line, ...formatOwnLimits(limits.get(line.group) ?? {}) },
    written: config.written.groups.get(line.group) ?? {},
  }));
  return { body: { ...span, groups } };
};
