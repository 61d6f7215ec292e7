import type { JsonObject } from "../wire/values.ts";
import type { EncodeContext } from "./codec.ts";
import type { Conversation, FeatureUse, ReasoningConfig } from "./conversation.ts";
import type { Feature } from "./features.ts";
import { type Fields, invalidField } from "./fields.ts";

/** A conversation's field that a setting maps to; `reasoning.…` are the members of its `reasoning`. */
export type SettingField =
  | Exclude<keyof Conversation, "protocol" | "task" | "stream" | "turns" | "turnsAt" | "uses" | "changed">
  | `reasoning.${keyof ReasoningConfig}`;

/**
 * One setting of a protocol: a member of its requests and the field with the same meaning. The same row decodes and encodes
 * it, so that the two cannot disagree.
 */
export interface Setting {
  /** Its path in a request, with dots between names. */
  readonly path: string;
  /** Older names, read where the first one is absent, and never written. */
  readonly olderNames?: readonly string[];
  readonly field: SettingField;
  /** The feature that its use declares; absent: every protocol has it. */
  readonly feature?: Feature;
  readonly type: "number" | "integer" | "text" | "flag" | "texts" | "any";
  /** The vendor's range; other values are refused when the request is encoded. */
  readonly range?: readonly [min: number, max: number];
  /** Maximum number of elements, or characters. */
  readonly maxLength?: number;
  /** True: dropped where the model takes no sampling settings. */
  readonly sampling?: true;
  /** Wire values and their meanings; other wire values are refused, and a meaning without a wire value is dropped. */
  readonly valueMap?: Readonly<Record<string, string>>;
  /** Reports whether a value has no effect, like the default: it is not declared. */
  readonly hasNoEffect?: (value: unknown) => boolean;
  /** Replaces the default decoding by `type`. Undefined: no value that the vocabulary has. @param conversation what is decoded so far */
  readonly read?: (fields: Fields, name: string, conversation: Conversation) => unknown;
  /** Replaces the default encoding. Undefined: nothing is written. */
  readonly write?: (value: never, conversation: Conversation, context: EncodeContext) => unknown;
}

/** Returns the client's path of a feature's first use, for messages. @param fallback returned if nothing was declared */
export const pathOfUse = (
  { uses }: { readonly uses: readonly FeatureUse[] },
  feature: Feature,
  fallback: string = feature,
): string => uses.find((use) => use.feature === feature)?.path ?? fallback;

/**
 * Decodes the settings of a request into a conversation, and declares the features they use.
 * @throws GatewayError `invalid_field` that names the client's field
 */
export function readSettings(table: readonly Setting[], body: Fields, conversation: Conversation): void {
  for (const setting of table) {
    const place = findSetting(setting, body);
    if (!place) continue;
    const { fields, name } = place;
    const value = readValue(setting, fields, name, conversation);
    if (value === undefined) continue;
    assign(conversation, setting.field, value);
    if (setting.feature && !setting.hasNoEffect?.(value)) fields.declare(name, setting.feature);
    // An older name adds nothing beside the newer one.
    if (setting.olderNames)
      for (const olderName of namesOf(setting))
        if (olderName !== name && !olderName.includes(".")) fields.ignore(olderName);
  }
}

/** Encodes a conversation's settings as members. @throws GatewayError as `context.refuse` makes it */
export function writeSettings(
  table: readonly Setting[],
  conversation: Conversation,
  context: EncodeContext,
): JsonObject {
  const body: JsonObject = {};
  for (const setting of table) {
    const value = valueIn(conversation, setting.field);
    if (value === undefined) continue;
    const written = encodeValue(setting, value, conversation, context);
    if (written !== undefined) setPath(body, setting.path, written);
  }
  return body;
}

/** Returns a settings table's rows for the fidelity table. */
export const settingFields = (table: readonly Setting[]): (readonly [field: string, feature: Feature])[] =>
  table.flatMap((setting) => (setting.feature ? [[namesOf(setting).join(", "), setting.feature] as const] : []));

const namesOf = ({ path, olderNames = [] }: Setting): readonly string[] => [path, ...olderNames];

/** Split paths by their text: tables are few and fixed, and each path is split once. */
const splitPaths = new Map<string, readonly string[]>();

function splitPath(path: string): readonly string[] {
  let names = splitPaths.get(path);
  if (!names) {
    names = path.split(".");
    splitPaths.set(path, names);
  }
  return names;
}

interface SettingPlace {
  /** The innermost object that holds the setting. */
  fields: Fields;
  /** The name it has there. */
  name: string;
}

function findSetting({ path, olderNames = [] }: Setting, body: Fields): SettingPlace | undefined {
  let place = findSettingAt(body, path);
  for (let i = 0; !place && i < olderNames.length; i++) place = findSettingAt(body, olderNames[i] as string);
  return place;
}

function findSettingAt(body: Fields, path: string): SettingPlace | undefined {
  const names = splitPath(path);
  let fields: Fields | undefined = body;
  for (let i = 0; i < names.length - 1; i++) fields = fields?.object(names[i] as string);
  const name = names[names.length - 1] as string;
  return fields?.has(name) ? { fields, name } : undefined;
}

function readValue(setting: Setting, fields: Fields, name: string, conversation: Conversation): unknown {
  if (setting.read) return setting.read(fields, name, conversation);
  const value = plainValue(setting, fields, name);
  if (!setting.valueMap || value === undefined) return value;
  const word = setting.valueMap[String(value)];
  if (word === undefined)
    throw invalidField(
      fields.path(name),
      `${fields.path(name)} must be one of ${Object.keys(setting.valueMap).join(", ")}.`,
    );
  return word;
}

function plainValue({ type }: Setting, fields: Fields, name: string): unknown {
  switch (type) {
    case "number":
      return fields.number(name);
    case "integer":
      return fields.integer(name);
    case "text":
      return fields.text(name);
    case "flag":
      return fields.flag(name);
    case "texts":
      return fields.texts(name);
    case "any":
      return fields.any(name);
  }
}

function encodeValue(setting: Setting, value: unknown, conversation: Conversation, context: EncodeContext): unknown {
  const path = setting.feature ? pathOfUse(conversation, setting.feature) : setting.path;
  if (setting.range && typeof value === "number") {
    const [min, max] = setting.range;
    if (value < min || value > max) context.refuse(path, `It must be ${rangeText(min, max)} for this provider`);
  }
  if (setting.sampling && context.facts.sampling === false) {
    context.drop(path, "The model takes no sampling settings");
    return undefined;
  }
  if (setting.maxLength !== undefined && Array.isArray(value) && value.length > setting.maxLength)
    context.refuse(path, `This provider accepts at most ${setting.maxLength}`);
  if (setting.write) return setting.write(value as never, conversation, context);
  if (!setting.valueMap) return value;
  const word = Object.keys(setting.valueMap).find((candidate) => setting.valueMap?.[candidate] === value);
  if (word === undefined) context.drop(path, `This provider has no equivalent of "${String(value)}"`);
  return word;
}

function rangeText(min: number, max: number): string {
  if (max === Number.POSITIVE_INFINITY) return `${min} or more`;
  return min === Number.NEGATIVE_INFINITY ? `${max} or less` : `between ${min} and ${max}`;
}

function assign(conversation: Conversation, field: SettingField, value: unknown): void {
  const [name, member] = splitPath(field) as [keyof Conversation, string | undefined];
  if (member === undefined) (conversation as unknown as JsonObject)[name] = value;
  else conversation.reasoning = { ...conversation.reasoning, [member]: value };
}

function valueIn(conversation: Conversation, field: SettingField): unknown {
  const [name, member] = splitPath(field) as [keyof Conversation, keyof ReasoningConfig | undefined];
  return member === undefined ? conversation[name] : conversation.reasoning?.[member];
}

function setPath(body: JsonObject, path: string, value: unknown): void {
  const names = splitPath(path);
  let object = body;
  for (const name of names.slice(0, -1)) {
    object[name] ??= {};
    object = object[name] as JsonObject;
  }
  object[names.at(-1) as string] = value;
}
