import { asObject } from "../wire/values.ts";
import type { Limits } from "./limit-kinds.ts";
import type { Shape } from "./shape.ts";

/** The holder of a gateway key. */
export interface Caller {
  /** The key's public id, safe in logs. */
  id: string;
  /** The name that the operator gave the key. */
  name: string;
  /** Ids of the models it may use, in which `*` matches any text; undefined: all. */
  models?: readonly string[];
  /** Paths it may use, with the same patterns; `GET /v1/files/*` allows that method only; undefined: all. */
  paths?: readonly string[];
  /** Client addresses and ranges that it may be used from; undefined: all. */
  addresses?: readonly string[];
  /** The group it belongs to, like `acme/research`. */
  group?: string;
  /** Its owner, in the operator's words. */
  owner?: string;
  /** Labels by which the operator groups usage; the ledger stores them as they were at the time. */
  tags?: Readonly<Record<string, string>>;
  /** Limits set when the key was created; those absent are taken from gateway.yaml's limits for all keys. */
  limits?: Limits;
  /** Unix milliseconds from which the key is refused and its running requests end. */
  expires?: number;
}

export const CALLER_SHAPE: Shape<Caller> = {
  ...{ id: true, name: true, models: true, paths: true, addresses: true, group: true, owner: true, tags: true },
  ...{ limits: true, expires: true },
};

/** Members of a caller by their type, besides `tags` and `limits`. */
const TEXT_MEMBERS = ["id", "name", "group", "owner"] as const;
const LIST_MEMBERS = ["models", "paths", "addresses"] as const;

/** Callers that have been checked: a key's is the same object for each of its requests. */
const checkedCallers = new WeakSet<Caller>();

/** @throws TypeError for a value of a plugin that is no caller */
export function checkCallerType(caller: Caller): void {
  if (typeof caller !== "object" || caller === null) throw new TypeError("The caller is no object.");
  if (checkedCallers.has(caller)) return;
  for (const name of TEXT_MEMBERS)
    if (typeof caller[name] !== "string" && (caller[name] !== undefined || name === "id" || name === "name"))
      throw new TypeError(`caller.${name} is not a text.`);
  for (const name of LIST_MEMBERS)
    if (caller[name] !== undefined && !isTextList(caller[name]))
      throw new TypeError(`caller.${name} is not a list of texts.`);
  const tags = asObject(caller.tags);
  if (caller.tags !== undefined && !(tags && isTextList(Object.values(tags))))
    throw new TypeError("caller.tags are not texts by name.");
  // NaN, as of a token without a time, would never pass.
  if (caller.expires !== undefined && (typeof caller.expires !== "number" || Number.isNaN(caller.expires)))
    throw new TypeError("caller.expires is not a number of milliseconds.");
  checkedCallers.add(caller);
}

const isTextList = (list: unknown): boolean => Array.isArray(list) && list.every((each) => typeof each === "string");
