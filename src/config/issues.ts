import { z } from "zod";
import { ownProperty } from "../wire/values.ts";
import type { ConfigPath, Finding } from "./problems.ts";
import { isOptionText, isSecret } from "./secrets.ts";
import { didYouMeanMessage, knownNamesMessage, nearest, unknownNameMessage } from "./suggest.ts";
import { atPath, isMap, type YamlValue } from "./tree.ts";

type Issue = z.core.$ZodIssue;
type Missing = { path: ConfigPath; name: string };
type UnknownKey = { path: ConfigPath; name: string };

/**
 * Turns schema issues into messages, each with a path. A misspelt name and the name that is missing because of it become one
 * finding.
 * @param values the checked values
 * @param base their path in the file
 */
export function explainIssues(
  issues: readonly Issue[],
  schema: z.ZodType,
  values: YamlValue,
  base: ConfigPath = [],
): Finding[] {
  const missing: Missing[] = [];
  const unknownKeys: UnknownKey[] = [];
  const findings: Finding[] = [];
  for (const issue of issues.flatMap((issue) => intendedBranch(issue, values))) {
    const path = issue.path as ConfigPath;
    if (issue.code === "unrecognized_keys") unknownKeys.push(...issue.keys.map((name) => ({ path, name })));
    else if (issue.code === "invalid_type" && isMissing(values, path))
      missing.push({ path: path.slice(0, -1), name: String(path.at(-1)) });
    else findings.push(toFinding(issue, atPath(values, ...path), [...base, ...path], typesAt(schema, path)));
  }
  for (const { path, name } of unknownKeys) {
    const allowed = allowedKeys(schema, path);
    const taken = atPath(values, ...path);
    const free = allowed.filter((word) => !isMap(taken) || !Object.hasOwn(taken, word));
    const near =
      nearest(name, free) ??
      ownProperty(FOREIGN_NAMES, name.toLowerCase().replaceAll(/[_-]/g, ""))?.find((word) => free.includes(word)) ??
      missing.find((lack) => isSamePath(lack.path, path))?.name;
    const folded = missing.findIndex((lack) => isSamePath(lack.path, path) && lack.name === near);
    if (folded >= 0) missing.splice(folded, 1);
    const homes = allowed
      .filter((word) => allowedKeys(schema, [...path, word]).includes(name))
      .map((word) => `"${word}"`);
    const keyWithValue = allowed.find((word) => name.startsWith(`${word}:`));
    findings.push({
      path: [...base, ...path, name],
      key: true,
      message: keyWithValue
        ? `a space is missing after "${keyWithValue}:"`
        : near
          ? didYouMeanMessage("key", name, near)
          : homes.length > 0
            ? `unknown key ${JSON.stringify(name)} here; it belongs under ${homes.join(" or ")}`
            : knownNamesMessage("key", name, allowed),
    });
  }
  for (const { path, name } of missing)
    findings.push({ path: [...base, ...path], key: true, message: `"${name}" is missing` });
  return findings;
}

/** Names used by other gateways and SDKs, in lower case as one word, with the names they may correspond to here. */
const FOREIGN_NAMES: Readonly<Record<string, readonly string[]>> = {
  ...Object.fromEntries(
    ["apikey", "apikeys", "apitoken", "authtoken", "accesstoken", "key", "keys", "token", "secret"].map((name) => [
      name,
      ["credential", "key"],
    ]),
  ),
  ...Object.fromEntries(
    ["baseurl", "apibase", "apiurl", "endpoint", "baseuri", "uri", "host"].map((name) => [name, ["url"]]),
  ),
};

const isSamePath = (a: ConfigPath, b: ConfigPath): boolean => a.join("\0") === b.join("\0");

/** Reports whether a value is absent from a map that exists. */
function isMissing(values: YamlValue, path: ConfigPath): boolean {
  const above = atPath(values, ...path.slice(0, -1));
  return path.length > 0 && isMap(above) && !Object.hasOwn(above, path.at(-1) as string);
}

/** Returns the issues of the intended branch of a union: the one that accepts this kind of value, or has a similar word. */
function intendedBranch(issue: Issue, values: YamlValue): Issue[] {
  if (issue.code !== "invalid_union") return [issue];
  const value = atPath(values, ...(issue.path as ConfigPath));
  const isOther = (inner: Issue): boolean =>
    inner.path.length === 0 &&
    (inner.code === "invalid_type"
      ? !isFraction(inner, value)
      : inner.code === "invalid_union"
        ? inner.errors.every((issues) => issues.some(isOther))
        : inner.code === "invalid_value" && !isNear(inner.values, value));
  const meant = issue.errors.find((issues) => !issues.some(isOther));
  if (!meant) return [issue];
  return meant
    .map((inner) => ({ ...inner, path: [...issue.path, ...inner.path] }))
    .flatMap((inner) => intendedBranch(inner, values));
}

const isNear = (words: readonly unknown[], value: YamlValue): boolean =>
  typeof value === "string" && nearest(value, words.map(String)) !== undefined;

/** Reports whether a number was given where an integer is expected. */
const isFraction = ({ expected }: z.core.$ZodIssueInvalidType, value: YamlValue): boolean =>
  expected === "int" && typeof value === "number";

/** @param types the schema's types at the path */
function toFinding(issue: Issue, value: YamlValue, path: ConfigPath, types: readonly z.core.$ZodType[]): Finding {
  switch (issue.code) {
    case "invalid_type":
      return {
        path,
        message: `expected ${TYPE_WORDS[issue.expected] ?? issue.expected}, found ${describeValue(value, path)}${fixHint(issue.expected, value, path, types)}`,
      };
    case "invalid_value": {
      const words = issue.values.map(String);
      const meant = /^(yes|true|on)$/i.test(String(value))
        ? "on"
        : /^(no|false|off)$/i.test(String(value))
          ? "off"
          : "";
      if (words.includes(meant))
        return {
          path,
          message: `expected one of ${words.join(", ")}, found ${describeValue(value, path)}; write ${meant}`,
        };
      const named = typeof value === "string" && !isSecret(path, value) && !isOptionText(path, value, words);
      return {
        path,
        message: named
          ? unknownNameMessage("value", value, words)
          : `expected one of ${words.join(", ")}, found ${describeValue(value, path)}`,
      };
    }
    case "invalid_key":
      return { path, key: true, message: issue.issues[0]?.message ?? issue.message };
    case "invalid_union":
      return {
        path,
        message: `${issue.message === "Invalid input" ? "expected something else" : issue.message}, found ${describeValue(value, path)}`,
      };
    case "too_small":
    case "too_big":
      return { path, message: boundMessage(issue) };
    default:
      return { path, message: issue.message };
  }
}

/** The counted unit of values that have a length. */
const LENGTH_UNITS: Record<string, string> = {
  string: " characters",
  array: " entries",
  set: " entries",
  map: " entries",
};

/** Describes a bound that has no message of its own: the library's are like "Too small: expected number to be >=1". */
function boundMessage(issue: z.core.$ZodIssueTooSmall | z.core.$ZodIssueTooBig): string {
  if (!/^Too (?:small|big): /.test(issue.message)) return issue.message;
  const { inclusive = true } = issue;
  const most =
    issue.code === "too_small"
      ? inclusive
        ? `${issue.minimum} or more`
        : `more than ${issue.minimum}`
      : `${inclusive ? "at most" : "less than"} ${issue.maximum}`;
  const counted = LENGTH_UNITS[issue.origin];
  return counted === undefined ? `must be ${most}` : `must have ${most}${counted}`;
}

const TYPE_WORDS: Record<string, string> = {
  string: "text",
  number: "a number",
  int: "a whole number",
  boolean: "true or false",
  array: "a list",
  object: "a map",
  record: "a map",
};

const isHidden = (path: ConfigPath, value: YamlValue): boolean =>
  isSecret(path, String(value)) || isOptionText(path, String(value));

/** Describes a value for a message; never shows one that may be a secret. */
function describeValue(value: YamlValue, path: ConfigPath): string {
  if (value === null || value === undefined) return "nothing";
  if (Array.isArray(value)) return "a list";
  if (typeof value === "object") return "a map";
  if (isHidden(path, value)) return typeof value === "string" ? "text" : `a ${typeof value}`;
  return typeof value === "string" ? `the text ${JSON.stringify(value)}` : `the ${typeof value} ${value}`;
}

function fixHint(expected: string, value: YamlValue, path: ConfigPath, types: readonly z.core.$ZodType[]): string {
  if (expected === "object") return mapHint(types, path);
  if (expected === "record") return "; write { NAME: … }";
  const plain = typeof value === "string" || typeof value === "number" || typeof value === "boolean";
  if (!plain) return "";
  const text = isHidden(path, value) ? "…" : value;
  if (expected === "boolean" && /^(yes|no|on|off)$/i.test(String(value)))
    return `; write ${/^(yes|on)$/i.test(String(value))}`;
  if (expected === "array") return typeof value === "boolean" ? "" : `; write [${text}]`;
  if (expected === "string")
    return typeof value === "boolean"
      ? `; if that is meant, put it in quotes: "${text}"`
      : `; put it in quotes: "${text}"`;
  if (expected === "number" || expected === "int")
    return typeof value === "string" ? numberHint(value, isHidden(path, value), types) : "";
  return "";
}

/** Describes how to write a number given as a text: without its quotes, sign or unit. */
function numberHint(text: string, hidden: boolean, types: readonly z.core.$ZodType[]): string {
  if (Number.isFinite(Number(text))) return "; write it without quotes";
  const [, digits, percent] = /^\$?(\d+(?:\.\d+)?)\s*(?:(%)|[A-Za-z$€/ ]*)$/.exec(text) ?? [];
  if (digits === undefined || hidden) return "; write digits, like 2";
  const isShare = types.some((type) => type instanceof z.ZodNumber && type.maxValue === 1);
  return `; write ${percent && isShare ? Number(digits) / 100 : digits}`;
}

/** Describes how to write a map: with its required names, or else with those allowed. */
function mapHint(types: readonly z.core.$ZodType[], path: ConfigPath): string {
  const maps = types.filter((type) => type instanceof z.ZodObject);
  const names = maps.flatMap((map) => Object.keys(map.shape));
  const needed = maps.flatMap((map) =>
    Object.entries(map.shape).flatMap(([name, type]) => (isRequired(type) ? name : [])),
  );
  if (names.length === 0) return "";
  const [first = ""] = names;
  const braces = (some: readonly string[]) =>
    `; write { ${some.map((name) => `${name}: ${isSecret([...path, name], "x") ? "$NAME" : "…"}`).join(", ")} }`;
  if (needed.length > 0) return braces(needed);
  return (
    braces([first]) +
    (names.length > 1
      ? `, or with ${names.slice(1, MAX_HINT_NAMES).join(", ")}${names.length > MAX_HINT_NAMES ? ", …" : ""}`
      : "")
  );
}

/** Maximum number of names that are shown. */
const MAX_HINT_NAMES = 8;

const isRequired = (type: z.core.$ZodType): boolean => !z.safeParse(type, undefined).success;

/** Returns the names that a schema allows at a path, in any of its branches. */
export function allowedKeys(schema: z.ZodType, path: ConfigPath = []): string[] {
  const types = typesAt(schema, path);
  return [...new Set(types.flatMap((type) => (type instanceof z.ZodObject ? Object.keys(type.shape) : [])))];
}

/** Returns the texts that a schema enumerates at a path, in any of its branches. */
export function allowedValues(schema: z.ZodType, path: ConfigPath): string[] {
  const words = typesAt(schema, path).flatMap((type): unknown[] =>
    type instanceof z.ZodEnum ? type.options : type instanceof z.ZodLiteral ? [...type.values] : [],
  );
  return words.filter((word) => typeof word === "string");
}

function typesAt(schema: z.ZodType, path: ConfigPath): z.core.$ZodType[] {
  let here: z.core.$ZodType[] = [schema];
  for (const step of path) here = here.flatMap(unwrapType).flatMap((type) => typeBelow(type, step));
  return here.flatMap(unwrapType);
}

/** Unwraps a type; returns all branches of a union. */
function unwrapType(type: z.core.$ZodType): z.core.$ZodType[] {
  if (type instanceof z.ZodUnion) return type.options.flatMap(unwrapType);
  if (type instanceof z.ZodPipe) return unwrapType(type.def.in);
  if (
    type instanceof z.ZodOptional ||
    type instanceof z.ZodNullable ||
    type instanceof z.ZodDefault ||
    type instanceof z.ZodPrefault
  )
    return unwrapType(type.def.innerType);
  return [type];
}

function typeBelow(type: z.core.$ZodType, step: string | number): z.core.$ZodType[] {
  if (type instanceof z.ZodObject) return Object.hasOwn(type.shape, step) ? [type.shape[step]] : [];
  if (type instanceof z.ZodRecord) return [type.valueType];
  return type instanceof z.ZodArray ? [type.element] : [];
}
