import { GROUP, KEY_PATH, LABEL, TAG } from "../config/schema/key.ts";
import { thrownMessage } from "../core/errors.ts";
import { Networks } from "../core/networks.ts";
import type { KeyEdit, KeyRecord } from "../store/keys.ts";
import { UsageError } from "../text/format-error.ts";
import { LIMIT_OPTIONS, type LimitOptions, mergeLimits } from "../text/key-limits.ts";
import { unknownModelMessage } from "../text/key-models.ts";
import { parseMoment } from "../text/moments.ts";
import { formatUtc } from "../text/table.ts";
import { parseOption } from "./verb.ts";

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

/**
 * Converts options to fields. An empty text removes a field, as does `never` for the expiry.
 * @param known ids of gateway.yaml's models
 * @param before the key's own tags and limits, to which new ones are added
 * @throws UsageError
 */
export function parseKeyFields(
  options: FieldOptions,
  known: readonly string[],
  before: Pick<KeyRecord, "tags" | "limits"> = {},
): KeyEdit {
  const { name, group, models, paths, addresses, owner, tag, expires } = options;
  const edit: KeyEdit = {};
  if (name !== undefined) edit.name = name;
  if (group !== undefined) edit.group = matchPattern(group, GROUP, "--group", "a path like acme/research");
  if (owner !== undefined) edit.owner = matchPattern(owner, LABEL, "--owner", "1 to 100 characters");
  if (models !== undefined) edit.models = parseList(models, "--models", (model) => checkModel(model, known));
  if (paths !== undefined) edit.paths = parseList(paths, "--paths", checkPath);
  if (addresses !== undefined) edit.addresses = parseList(addresses, "--addresses", checkAddress);
  if (tag !== undefined) edit.tags = parseTags(tag, before.tags);
  if (expires !== undefined) edit.expires = expires === "" || expires === "never" ? null : parseExpiry(expires);
  try {
    const limits = mergeLimits(options, before.limits);
    if (limits !== undefined) edit.limits = limits;
  } catch (thrown) {
    throw new UsageError(thrownMessage(thrown));
  }
  return edit;
}

/**
 * Refuses empty options for a new key: an empty text usually is an unset variable, and would leave the key unlimited.
 * @throws UsageError
 */
export function checkOptionsNotEmpty(options: FieldOptions): void {
  const empty = Object.entries(options).find(([, value]) => [value].flat().includes(""));
  if (empty) throw new UsageError(`--${empty[0]} is empty: give it a value, or leave it out.`);
}

function matchPattern(text: string, pattern: RegExp, option: string, form: string): string | null {
  if (text === "") return null;
  if (!pattern.test(text)) throw new UsageError(`${option} takes ${form}.`);
  return text;
}

function parseList(text: string, option: string, check: (word: string) => void): string[] | null {
  if (text === "") return null;
  const words = text.split(",").map((word) => word.trim());
  if (words.includes("")) throw new UsageError(`${option} takes a list separated by commas, without empty entries.`);
  for (const word of words) check(word);
  return words;
}

function checkModel(model: string, known: readonly string[]): void {
  const why = unknownModelMessage(model, known);
  if (why !== undefined) throw new UsageError(`--models: ${why}`);
}

const checkAddress = (address: string) => parseOption("--addresses", () => new Networks([address]));

function checkPath(path: string): void {
  if (!KEY_PATH.test(path))
    throw new UsageError(`--paths: ${path} is not a path; write one like /v1/chat/*, or GET /v1/files/*.`);
}

function parseTags(
  written: readonly string[],
  before: Readonly<Record<string, string>> = {},
): Record<string, string> | null {
  const tags = new Map(Object.entries(before));
  const named = new Set<string>();
  for (const text of written) {
    const at = text.indexOf("=");
    const [name, value] = at < 0 ? [text, undefined] : [text.slice(0, at), text.slice(at + 1)];
    if (value === undefined || !TAG.test(name) || (value !== "" && !LABEL.test(value)))
      throw new UsageError(`--tag takes NAME=VALUE, like team=search; ${JSON.stringify(text)} is none.`);
    if (named.has(name)) throw new UsageError(`--tag ${name} is given twice; a key has one ${name}.`);
    named.add(name);
    if (value === "") tags.delete(name);
    else tags.set(name, value);
  }
  return tags.size === 0 ? null : Object.fromEntries(tags);
}

function parseExpiry(text: string): number {
  const now = Date.now();
  const at = parseOption("--expires", () => parseMoment(text, 1, now));
  if (at <= now) throw new UsageError(`--expires: ${formatUtc(at)} has passed.`);
  return at;
}
