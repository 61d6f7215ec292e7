import { GROUP, KEY_PATH, LABEL, TAG } from "../config/schema.ts";
import { unknown } from "../config/suggest.ts";
import { matchesAny } from "../core/glob.ts";
import { Networks } from "../core/networks.ts";
import type { KeyEdit, KeyRecord } from "../store/keys.ts";
import { LIMIT_OPTIONS, type LimitOptions, limitsOf } from "../text/key-limits.ts";
import { utc } from "../text/table.ts";
import { when } from "../text/when.ts";

/** Command line options for the fields of a key. */
export const FIELD_OPTIONS = {
  name: { type: "string" },
  group: { type: "string" },
  models: { type: "string" },
  paths: { type: "string" },
  addresses: { type: "string" },
  owner: { type: "string" },
  tag: { type: "string", multiple: true },
  expires: { type: "string" },
  ...LIMIT_OPTIONS,
} as const;

/** The values of these options. */
export type FieldOptions = {
  [Name in Exclude<keyof typeof FIELD_OPTIONS, "tag" | keyof LimitOptions>]?: string;
} & { tag?: string[] } & LimitOptions;

/** What the command line says is wrong with it, as opposed to what went wrong. */
export class KeysMisuse extends Error {}

/**
 * Converts options to fields. An empty text removes a field, as does `never` for the expiry.
 * @param known ids of gateway.yaml's models
 * @param before the key's own tags and limits, to which new ones are added
 * @throws KeysMisuse, or Error for an unknown model
 */
export function fieldsOf(
  options: FieldOptions,
  known: readonly string[],
  before: Pick<KeyRecord, "tags" | "limits"> = {},
): KeyEdit {
  const { name, group, models, paths, addresses, owner, tag, expires } = options;
  const edit: KeyEdit = {};
  if (name !== undefined) edit.name = name;
  if (group !== undefined) edit.group = matching(group, GROUP, "--group", "a path like acme/research");
  if (owner !== undefined) edit.owner = matching(owner, LABEL, "--owner", "1 to 100 characters");
  if (models !== undefined) edit.models = listed(models, "--models", (model) => checkModel(model, known));
  if (paths !== undefined) edit.paths = listed(paths, "--paths", checkPath);
  if (addresses !== undefined) edit.addresses = listed(addresses, "--addresses", checkAddress);
  if (tag !== undefined) edit.tags = tagged(tag, before.tags);
  if (expires !== undefined) edit.expires = expires === "" || expires === "never" ? null : moment(expires);
  try {
    const limits = limitsOf(options, before.limits);
    if (limits !== undefined) edit.limits = limits;
  } catch (thrown) {
    throw new KeysMisuse((thrown as Error).message);
  }
  return edit;
}

/**
 * Refuses empty options for a new key: an empty text usually is an unset variable, and would leave the key unlimited.
 * @throws KeysMisuse
 */
export function checkGiven(options: FieldOptions): void {
  const empty = Object.entries(options).find(([, value]) => value === "");
  if (empty) throw new KeysMisuse(`--${empty[0]} is empty: say what it shall be, or leave it out.`);
}

function matching(text: string, pattern: RegExp, option: string, form: string): string | null {
  if (text === "") return null;
  if (!pattern.test(text)) throw new KeysMisuse(`${option} takes ${form}.`);
  return text;
}

function listed(text: string, option: string, check: (word: string) => void): string[] | null {
  if (text === "") return null;
  const words = text.split(",").map((word) => word.trim());
  if (words.includes("")) throw new KeysMisuse(`${option} takes texts with commas between them.`);
  for (const word of words) check(word);
  return words;
}

/** Keys allow models by id only: with any other name, an alias included, the key would allow nothing. */
function checkModel(model: string, known: readonly string[]): void {
  if (known.some((id) => matchesAny([model], id))) return;
  throw new Error(
    model.includes("*") ? `--models: no model matches ${model}.` : `--models: ${unknown("model", model, known)}`,
  );
}

function checkPath(path: string): void {
  if (!KEY_PATH.test(path))
    throw new KeysMisuse(`--paths: ${path} is no path; write one like /v1/chat/*, or GET /v1/files/*.`);
}

function checkAddress(address: string): void {
  try {
    new Networks([address]);
  } catch (thrown) {
    throw new KeysMisuse(`--addresses: ${(thrown as Error).message}.`);
  }
}

function tagged(
  written: readonly string[],
  before: Readonly<Record<string, string>> = {},
): Record<string, string> | null {
  const tags = new Map(Object.entries(before));
  const named = new Set<string>();
  for (const text of written) {
    const at = text.indexOf("=");
    const [name, value] = at < 0 ? [text, undefined] : [text.slice(0, at), text.slice(at + 1)];
    if (value === undefined || !TAG.test(name) || (value !== "" && !LABEL.test(value)))
      throw new KeysMisuse(`--tag takes NAME=VALUE, like team=search; ${JSON.stringify(text)} is none.`);
    if (named.has(name)) throw new KeysMisuse(`--tag names ${name} twice; a key has one ${name}.`);
    named.add(name);
    if (value === "") tags.delete(name);
    else tags.set(name, value);
  }
  return tags.size === 0 ? null : Object.fromEntries(tags);
}

function moment(text: string): number {
  const now = Date.now();
  let at: number;
  try {
    at = when(text, 1, now);
  } catch (thrown) {
    throw new KeysMisuse(`--expires: ${(thrown as Error).message}`);
  }
  if (at <= now) throw new KeysMisuse(`--expires: ${utc(at)} has passed.`);
  return at;
}
