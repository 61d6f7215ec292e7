import type { Changed, Feature, FeatureUse, IncomingRequest, Opaque } from "model-gateway/protocol";
import { type Fields, fieldsOf, invalidField } from "model-gateway/protocol";

/** This protocol's name, as it stands in conversations and opaque state. */
export const NAME = "openai-responses" as const;

/** What goes on while one request is read: what it said so far, and whether its forms are kept. */
export class Reading {
  readonly uses: FeatureUse[] = [];
  readonly changed: Changed[] = [];

  constructor(private readonly asked: Pick<IncomingRequest, "open" | "native">) {}

  /** The members of a value. @throws GatewayError `invalid_field` when it is no object. */
  fields(value: unknown, at: string): Fields {
    return fieldsOf(value, at, this.uses, this.same);
  }

  /** @param hint what to do where it is refused */
  say(feature: Feature, path: string, hint?: string): void {
    this.uses.push({ feature, path, ...(hint !== undefined && { hint }) });
  }

  /** Says that something is put in other words, as nobody else has the client's. */
  change(path: string, why: string): void {
    this.changed.push({ path, why });
  }

  /** A member `native`, only where it was asked for. */
  native<T>(native: T): { native?: T } {
    return this.asked.native ? { native } : {};
  }

  /** Whether it shall become the same again: then even what nobody here knows stays, for the vendor to judge. */
  get same(): boolean {
    return this.asked.native === true;
  }

  open(text: string): Opaque {
    return this.asked.open(text, "encrypted");
  }
}

/** A member of any kind that somebody else takes; undefined where it is null. */
export const peek = ({ of }: Fields, name: string): unknown => of[name] ?? undefined;

/** @throws GatewayError `invalid_field` when it is no string, or absent. */
export function need(fields: Fields, name: string): string {
  const text = fields.text(name);
  if (text === undefined) throw invalidField(fields.path(name), `${fields.path(name)} must be a string.`);
  return text;
}

/**
 * One of some words; another one stays with the rest where the request shall become the same again.
 * @throws GatewayError `invalid_field` when it is none of them
 */
export function oneOf<const T extends string>(
  reading: Reading,
  fields: Fields,
  name: string,
  words: readonly T[],
): T | undefined {
  const value = peek(fields, name);
  const word = words.find((word) => word === value);
  if (word !== undefined) fields.any(name);
  if (value === undefined || word !== undefined || reading.same) return word;
  throw invalidField(fields.path(name), `${fields.path(name)} must be one of ${words.join(", ")}.`);
}

/** Values that say nothing, by the names of members: what is meant where they are left out. */
export type Usual = Readonly<Record<string, readonly unknown[]>>;

/** Leaves members that say nothing with the rest. */
export function leaveUsual(fields: Fields, usual: Usual): void {
  for (const [name, values] of Object.entries(usual)) if (values.includes(fields.of[name])) fields.leave(name);
}

/** Leaves members with the rest that only count the vendor's own things, like ids of what it keeps. */
export function leave(fields: Fields, ...names: readonly string[]): void {
  for (const name of names) fields.leave(name);
}
