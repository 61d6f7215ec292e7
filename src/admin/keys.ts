import { z } from "zod";
import { GROUP, KEY_PATH, LABEL, TAG } from "../config/schema.ts";
import { GatewayError } from "../core/errors.ts";
import type { Limits } from "../core/limit-kinds.ts";
import { Networks } from "../core/networks.ts";
import { unkeptLimits } from "../marketplace/budgets.ts";
import { editDetail } from "../store/audit.ts";
import { groupLines } from "../store/group-lines.ts";
import type { IssuedKey, KeyEdit, KeyRecord, NewKey } from "../store/keys.ts";
import { limitsOf, limitWords } from "../text/key-limits.ts";
import { span } from "../text/when.ts";
import { AdminError } from "./errors.ts";
import { type AdminAct, type AdminAnswer, type AdminRequest, read } from "./route.ts";
import type { AdminSubject } from "./served.ts";
import { spanOf } from "./span.ts";

const network = z.string().refine((text) => {
  try {
    return new Networks([text]) !== undefined;
  } catch {
    return false;
  }
}, "expected an address or a range like 10.0.0.0/8");

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

/** How long the old key stays valid. */
export const Rotation = z.strictObject({ overlap: z.string().default("24h") });

/** Formats a limit as on the command line; null removes it. */
const written = (value: string | number | null | undefined): string | undefined =>
  value === undefined ? undefined : String(value ?? "");

/**
 * @param before the key's current limits
 * @throws AdminError that names the field
 */
function fieldsOf(body: unknown, before?: KeyRecord["limits"]): KeyEdit {
  const { rpm, tpm, concurrency, budget, ...fields } = read(KeyFieldsSchema, body);
  const options = { rpm: written(rpm), tpm: written(tpm), concurrency: written(concurrency) };
  const sums = budget === undefined ? undefined : [budget ?? ""].flat();
  try {
    const given = Object.entries({ ...options, budget: sums }).filter(([, value]) => value !== undefined);
    const limits = limitsOf(Object.fromEntries(given), before);
    return { ...(fields as KeyEdit), ...(limits !== undefined && { limits }) };
  } catch (thrown) {
    throw new AdminError("bad_request", (thrown as Error).message.replace(/^--/, ""));
  }
}

/**
 * Returns what is shown of a key: never its hash; its limits in the form of gateway.yaml, and for a key of gateway.yaml also what
 * that says.
 */
function shown({ hash: _, limits, ...record }: KeyRecord, { limits: table, written }: AdminSubject["config"]) {
  if (record.source === "store") return { ...record, ...(limits && ownWords(limits)) };
  const own = table.keys?.get(record.id) ?? {};
  return { ...record, ...ownWords(own), written: written.keys.get(record.id) ?? {} };
}

/** Formats limits in the form in which they are set; `off` is included where it overrides a limit for all keys. */
function ownWords(limits: Limits) {
  const { rpm, tpm, concurrency, budgets } = limits;
  const lifted = Object.entries({ rpm, tpm, concurrency }).filter(([, most]) => most === 0);
  return {
    ...limitWords(limits),
    ...Object.fromEntries(lifted.map(([name]) => [name, "off"])),
    ...(budgets?.length === 0 && { budget: ["off"] }),
  };
}

const issued = ({ key: secret, record }: IssuedKey, { config }: AdminSubject) => ({
  key: shown(record, config),
  secret,
});

/**
 * Returns the store's answer.
 * @throws AdminError where the store refuses, which the client can correct, or fails, which it cannot
 */
async function asked<T>(answer: Promise<T>): Promise<T> {
  try {
    return await answer;
  } catch (thrown) {
    if (thrown instanceof GatewayError && thrown.status < 500) throw new AdminError("conflict", thrown.message);
    const cause = thrown instanceof GatewayError ? (thrown.cause ?? thrown) : thrown;
    throw new AdminError(
      "unavailable",
      `The store cannot do that at the moment: ${cause instanceof Error ? cause.message : String(cause)}`,
      { cause },
    );
  }
}

export const list: AdminAct = async ({ stores, config }) => {
  const all = await asked(stores.keys.list());
  return { body: { keys: all.map((key) => shown(key, config)) } };
};

/** Separate from the list of keys, which is often needed without this. */
export const used: AdminAct = async ({ stores }) => {
  const all = await asked(stores.keys.list());
  return { body: { keys: Object.fromEntries(await stores.ledger.lastUsed(all.map(({ id }) => id))) } };
};

/** @throws AdminError where there is none */
async function known({ stores }: AdminSubject, name: string): Promise<KeyRecord> {
  const found = await asked(stores.keys.show(name));
  if (!found) throw new AdminError("not_found", `There is no key ${name}.`);
  return found;
}

export const show: AdminAct = async (subject, { names: [name = ""] }) => ({
  body: { key: shown(await known(subject, name), subject.config) },
});

/** @throws AdminError for limits that would not be enforced, instead of accepting them silently */
async function checkKept({ config }: AdminSubject, { limits, models }: Pick<KeyRecord, "limits" | "models">) {
  const why = limits && (await unkeptLimits(config, limits, models));
  if (why !== undefined) throw new AdminError("refused", why);
}

export const create: AdminAct = async (subject, { body }) => {
  const { stores } = subject;
  const fields = Object.entries(fieldsOf(body)).filter(([, value]) => value !== null);
  const wanted = Object.fromEntries(fields) as unknown as NewKey;
  if (wanted.name === undefined) throw new AdminError("bad_request", "name: a key needs one");
  await checkKept(subject, wanted);
  const made = await asked(stores.keys.create(wanted));
  const { name, ...detail } = wanted;
  return { body: issued(made, subject), audit: { action: "keys.create", subject: name, detail: { ...detail } } };
};

/** Changes one key of the store. */
async function changed<T>(
  subject: AdminSubject,
  { names: [name = ""] }: AdminRequest,
  action: string,
  act: (id: string) => Promise<T | undefined>,
  detail: Readonly<Record<string, unknown>> = {},
): Promise<{ result: T; audit: NonNullable<AdminAnswer["audit"]> }> {
  const record = await known(subject, name);
  if (record.source === "file")
    throw new AdminError("conflict", `The key ${record.name} stands in gateway.yaml, and is changed there.`);
  const result = await asked(act(record.id));
  if (result === undefined) throw new AdminError("conflict", `The key ${record.name} is revoked.`);
  return { result, audit: { action, subject: record.name, detail } };
}

export const edit: AdminAct = async (subject, request) => {
  const before = await known(subject, request.names[0] ?? "");
  const { limits, models } = before;
  const fields = fieldsOf(request.body, limits);
  if (fields.limits || fields.models !== undefined) {
    const now = fields.limits === undefined ? limits : fields.limits;
    const may = fields.models === undefined ? models : fields.models;
    await checkKept(subject, { ...(now && { limits: now }), ...(may && { models: may }) });
  }
  const act = (id: string) => subject.stores.keys.edit(id, fields);
  const { result, audit } = await changed(subject, request, "keys.edit", act, editDetail(before, fields));
  return { body: { key: shown(result, subject.config) }, audit };
};

export const rotate: AdminAct = async (subject, request) => {
  const { overlap } = read(Rotation, request.body);
  const milliseconds = spanned(overlap);
  const act = (id: string) => subject.stores.keys.rotate(id, milliseconds);
  const { result, audit } = await changed(subject, request, "keys.rotate", act, { overlap });
  return { body: issued(result, subject), audit };
};

function spanned(text: string): number {
  try {
    return span(text, "overlap");
  } catch (thrown) {
    throw new AdminError("bad_request", (thrown as Error).message);
  }
}

export const disable: AdminAct = async (subject, request) => {
  const act = (id: string) => subject.stores.keys.disable(id);
  const { result, audit } = await changed(subject, request, "keys.disable", act);
  return { body: { key: shown(result, subject.config) }, audit };
};

export const enable: AdminAct = async (subject, request) => {
  const act = (id: string) => subject.stores.keys.enable(id);
  const { result, audit } = await changed(subject, request, "keys.enable", act);
  return { body: { key: shown(result, subject.config) }, audit };
};

export const revoke: AdminAct = async (subject, request) => {
  const act = async (id: string) => (await subject.stores.keys.revoke(id)) || undefined;
  const { audit } = await changed(subject, request, "keys.revoke", act);
  return { audit };
};

/**
 * Lists groups with everything below them, as the verb `groups` shows them, and their limits in gateway.yaml, whether or not a
 * key is in them.
 */
export const groups: AdminAct = async ({ stores, config }, { query }) => {
  const span = spanOf(query, config.timezone);
  const limits = config.limits.groups ?? new Map<string, Limits>();
  const lines = await asked(groupLines(stores.keys, stores.ledger, { ...span, by: ["group"] }, [...limits.keys()]));
  const groups = lines.map((line) => ({
    ...{ ...line, ...ownWords(limits.get(line.group) ?? {}) },
    written: config.written.groups.get(line.group) ?? {},
  }));
  return { body: { ...span, groups } };
};
