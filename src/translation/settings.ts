import { asObject, dropUndefined, type JsonObject, ownProperty } from "../wire/values.ts";
import type { EncodeContext } from "./codec.ts";
import type { Conversation, FeatureUse, ReasoningConfig } from "./conversation.ts";
import type { Feature } from "./features.ts";
import { type Fields, isObject } from "./fields.ts";

/** A conversation's field that a setting maps to; `reasoning.…` are the members of its `reasoning`. */
type SettingField =
  | Exclude<keyof Conversation, "protocol" | "task" | "stream" | "turns" | "turnsAt" | "uses" | "changed">
  | `reasoning.${keyof ReasoningConfig}`;

/**
 * One setting of a protocol: a member of its requests and the field with the same meaning. The same row decodes and encodes
 * it, so that the two cannot disagree. `read` and `write` are for mappings that none of the other properties describes.
 * @typeParam Members the class of a request's members, if the protocol has one of its own
 */
export interface Setting<Members extends Fields = Fields> {
  /** Its path in a request, with dots between names. */
  readonly path: string;
  /** Older names, read where the first one is absent, and never written. */
  readonly olderNames?: readonly string[];
  /** Another member of the same object: beside it, this one is left unread, and thus dropped. */
  readonly unless?: string;
  readonly field: SettingField;
  /** The feature that its use declares; absent: every protocol has it. */
  readonly feature?: Feature;
  /** An empty list of texts has no effect, and is not written. */
  readonly type: "number" | "integer" | "text" | "flag" | "texts" | "text or texts" | "object" | "any";
  /** For an object: its members, all texts, by their names in conversations, which keep the client's paths of them in `paths`. */
  readonly members?: Readonly<Record<string, string>>;
  /** For one of several members that map to the same field, or to one that cannot be encoded. Absent: both directions. */
  readonly only?: "decode" | "encode";
  /** The vendor's range; other values are refused when the request is encoded. */
  readonly range?: readonly [min: number, max: number];
  /** Maximum number of elements, or characters. */
  readonly maxLength?: number;
  /** True: dropped where the model takes no sampling settings. */
  readonly sampling?: true;
  /** Wire values and their meanings; other wire values are refused, and a meaning without a wire value is dropped. */
  readonly valueMap?: Readonly<Record<string, string>>;
  /** True: wire values that `valueMap` does not have, or that are no object, are left unread and thus dropped, not refused. */
  readonly dropsUnknown?: true;
  /** Meanings and their wire values, for encoding only: several meanings may have the same. Others are dropped. */
  readonly encodeMap?: Readonly<Record<string, string>>;
  /** Reports whether a value has no effect, like the default: it is not declared. */
  readonly hasNoEffect?: (value: unknown) => boolean;
  /** Reports whether a model's vendor takes it; it is dropped for others, as many refuse what they do not know. Absent: all do. */
  readonly takenIf?: (target: EncodeContext) => boolean;
  /** Reports whether a value has to be written, unlike the vendor's default. Absent: always. */
  readonly writtenIf?: (value: never, conversation: Conversation, target: EncodeContext) => boolean;
  /** Replaces the default decoding by `type`. Undefined: no value that the vocabulary has. @param conversation what is decoded so far */
  readonly read?: (fields: Members, name: string, conversation: Conversation) => unknown;
  /** Replaces the default encoding. Undefined: nothing is written. */
  readonly write?: (value: never, conversation: Conversation, context: EncodeContext) => unknown;
}

/** A row of any protocol, where nothing is decoded. */
type AnySetting = Setting<never>;

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
export function readSettings<Members extends Fields>(
  table: readonly Setting<Members>[],
  body: Members,
  conversation: Conversation,
): void {
  for (const setting of table) {
    const place = setting.only === "encode" ? undefined : findSetting(setting, body);
    if (!place || (setting.unless !== undefined && place.fields.has(setting.unless))) continue;
    const { fields, name } = place;
    const value = readValue(setting, fields, name, conversation);
    if (value === undefined) continue;
    assign(conversation, setting.field, value);
    if (setting.feature && !isEmptyTexts(setting, value) && !setting.hasNoEffect?.(value))
      fields.declare(name, setting.feature);
    // An older name adds nothing beside the newer one.
    if (setting.olderNames)
      for (const olderName of namesOf(setting))
        if (olderName !== name && !olderName.includes(".")) fields.ignore(olderName);
  }
}

/** Encodes a conversation's settings as members. @throws GatewayError as `context.refuse` makes it */
export function writeSettings(
  table: readonly AnySetting[],
  conversation: Conversation,
  context: EncodeContext,
): JsonObject {
  const body: JsonObject = {};
  for (const setting of table) {
    const value = setting.only === "decode" ? undefined : valueIn(conversation, setting.field);
    if (value === undefined) continue;
    const written = encodeValue(setting, value, conversation, context);
    if (written !== undefined) setPath(body, setting.path, written);
  }
  return body;
}

/** Returns a settings table's rows for the fidelity table. */
export const settingFields = (table: readonly AnySetting[]): (readonly [field: string, feature: Feature])[] =>
  table.flatMap((setting) => (setting.feature ? [[namesOf(setting).join(", "), setting.feature] as const] : []));

const namesOf = ({ path, olderNames = [] }: AnySetting): readonly string[] => [path, ...olderNames];

/** Split paths by their text: tables are few and fixed, and each path is split once. */
const splitPaths = new Map<string, readonly string[]>();

const splitPath = (path: string): readonly string[] => splitPaths.getOrInsertComputed(path, () => path.split("."));

interface SettingPlace<Members extends Fields> {
  /** The innermost object that holds the setting. */
  fields: Members;
  /** The name it has there. */
  name: string;
}

function findSetting<Members extends Fields>(
  { path, olderNames = [] }: AnySetting,
  body: Members,
): SettingPlace<Members> | undefined {
  let place = findSettingAt(body, path);
  for (let i = 0; !place && i < olderNames.length; i++) place = findSettingAt(body, olderNames[i] as string);
  return place;
}

function findSettingAt<Members extends Fields>(body: Members, path: string): SettingPlace<Members> | undefined {
  const names = splitPath(path);
  let fields: Members | undefined = body;
  // Nested objects are of the same class as the body.
  for (let i = 0; i < names.length - 1; i++) fields = fields?.object(names[i] as string) as Members | undefined;
  const name = names[names.length - 1] as string;
  return fields?.has(name) ? { fields, name } : undefined;
}

function readValue<Members extends Fields>(
  setting: Setting<Members>,
  fields: Members,
  name: string,
  conversation: Conversation,
): unknown {
  const { valueMap } = setting;
  if (setting.dropsUnknown && !isKnown(setting, fields.members[name])) return undefined;
  if (setting.read) return setting.read(fields, name, conversation);
  if (setting.members) return readMembers(setting.members, fields.object(name));
  const value = plainValue(setting, fields, name);
  if (!valueMap || value === undefined) return value;
  const meaning = ownProperty(valueMap, String(value));
  return meaning ?? fields.refuse(name, `must be one of ${Object.keys(valueMap).join(", ")}.`);
}

function readMembers(members: Readonly<Record<string, string>>, object: Fields | undefined): JsonObject | undefined {
  const names = Object.entries(members);
  return (
    object && {
      ...dropUndefined(Object.fromEntries(names.map(([member, name]) => [member, object.text(name)]))),
      paths: Object.fromEntries(names.map(([member, name]) => [member, object.path(name)])),
    }
  );
}

const isKnown = ({ valueMap }: AnySetting, value: unknown): boolean =>
  valueMap ? typeof value === "string" && Object.hasOwn(valueMap, value) : isObject(value);

function plainValue({ type }: AnySetting, fields: Fields, name: string): unknown {
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
    case "text or texts":
      return fields.textOrTexts(name);
    case "object":
    case "any":
      return fields.any(name);
  }
}

function encodeValue(setting: AnySetting, value: unknown, conversation: Conversation, context: EncodeContext): unknown {
  const path = setting.feature ? pathOfUse(conversation, setting.feature) : setting.path;
  if (setting.sampling && context.facts.sampling === false) {
    context.drop(path, "The model takes no sampling settings");
    return undefined;
  }
  if (setting.takenIf && !setting.takenIf(context)) {
    context.drop(path, "The model's vendor is not known to take it");
    return undefined;
  }
  if (setting.range && typeof value === "number") {
    const [min, max] = setting.range;
    if (value < min || value > max) context.refuse(path, `It must be ${rangeText(min, max)} for this provider`);
  }
  if (setting.maxLength !== undefined && Array.isArray(value) && value.length > setting.maxLength)
    context.refuse(path, `This provider accepts at most ${setting.maxLength}`);
  if (setting.writtenIf && !setting.writtenIf(value as never, conversation, context)) return undefined;
  if (setting.write) return setting.write(value as never, conversation, context);
  if (setting.members)
    return dropUndefined(
      Object.fromEntries(Object.entries(setting.members).map(([member, name]) => [name, asObject(value)?.[member]])),
    );
  return encodeWord(setting, value, path, context);
}

/** Encodes a value for which the table has words; all other values stay. */
function encodeWord(setting: AnySetting, value: unknown, path: string, context: EncodeContext): unknown {
  const { valueMap, encodeMap } = setting;
  if (!valueMap && !encodeMap) return isEmptyTexts(setting, value) ? undefined : value;
  const word = encodeMap
    ? ownProperty(encodeMap, String(value))
    : Object.entries(valueMap ?? {}).find(([, meaning]) => meaning === value)?.[0];
  if (word === undefined) context.drop(path, `This provider has no equivalent of "${String(value)}"`);
  return word;
}

const isEmptyTexts = ({ type }: AnySetting, value: unknown): boolean =>
  type !== "any" && Array.isArray(value) && value.length === 0;

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
