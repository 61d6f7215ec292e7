import { FOLDABLE, foldCase } from "../wire/any-case.ts";
import { asObject } from "../wire/values.ts";
import { GatewayError } from "./errors.ts";
import type { Protocol, TextNames } from "./protocol.ts";

/** The exact names, and their case-folded spellings. */
interface CompiledNames {
  readonly containers: ReadonlySet<string>;
  readonly exact: ReadonlySet<string>;
  readonly folded: ReadonlySet<string>;
}

const compiled = new WeakMap<TextNames, CompiledNames>();

function compile({ containers, members }: TextNames): CompiledNames {
  const exact = new Set([...containers, ...members]);
  return { containers: new Set(containers), exact, folded: new Set([...exact].map(foldCase)) };
}

/**
 * Checks that no member with a text has its name in another spelling than the API's. Case-insensitive servers, mostly written in
 * Go, would read it, and a plugin that reads or replaces texts would not see it.
 * @throws GatewayError `invalid_field`
 */
export function checkTextNames(json: unknown, { texts }: Pick<Protocol, "texts">): void {
  if (!texts.names) return;
  const { containers, exact, folded } = compiled.getOrInsertComputed(texts.names, compile);
  const pending: { value: unknown; path: string }[] = [{ value: json, path: "" }];
  for (let next = pending.pop(); next; next = pending.pop()) {
    const { value, path } = next;
    if (Array.isArray(value)) {
      for (const [i, each] of value.entries()) pending.push({ value: each, path: `${path}${i}.` });
      continue;
    }
    const object = asObject(value) ?? {};
    // A list of the names of an object with very many takes longer than iteration.
    for (const name in object)
      if (containers.has(name)) pending.push({ value: object[name], path: `${path}${name}.` });
      else if (FOLDABLE.test(name) && !exact.has(name) && folded.has(foldCase(name)))
        throw otherSpellingError(path + name);
  }
}

const otherSpellingError = (param: string): GatewayError =>
  new GatewayError("invalid_field", {
    message: `The request has a member ${param}, in other letters than the API has it.`,
    hint: "Send each member by its name in the vendor's documentation: a text under another name is not checked here.",
    param,
  });
