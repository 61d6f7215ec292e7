import { anyCasePattern, foldCase } from "../wire/any-case.ts";
import { type JsonPath, pathEdits } from "../wire/paths.ts";
import { type Edit, removeMembers } from "../wire/splice.ts";
import { asList, asObject } from "../wire/values.ts";
import type { Body } from "./body.ts";
import { GatewayError } from "./errors.ts";
import type { Protocol } from "./protocol.ts";
import { tierMembers } from "./service-tier.ts";

/** Maximum number of look-alikes in a body: they have no legitimate use, and removing many is wasted work. */
const MAX_LOOK_ALIKES = 100;
/** Maximum number of cached names, and their maximum length; a client can invent any number. */
const MAX_CACHED = 500;
const MAX_CACHED_NAME = 64;

/** Members inside an object, or inside the entries of a list. */
class InnerMembers {
  readonly folded: ReadonlySet<string>;
  /** Matches a text that may contain a look-alike of them. */
  readonly pattern: RegExp;

  constructor(
    readonly kind: "object" | "array",
    readonly exact: ReadonlySet<string>,
  ) {
    this.folded = new Set([...exact].map(foldCase));
    const likes = [...exact].map((each) => `(?!${each}")${anyCasePattern(each)}`);
    this.pattern = new RegExp(`"(?:${likes.join("|")})"|\\\\u`);
  }
}

/** Members by which a request is checked: its models, its output limits, and the objects it names. */
class CheckedMembers {
  /** The exact names. */
  private readonly exact: ReadonlySet<string>;
  /** The case-folded names. */
  private readonly folded: ReadonlySet<string>;
  /** Nested members, by the outer member's name. */
  private readonly inner = new Map<string, InnerMembers>();
  /** Cached results by name: the same few names occur in every body. */
  private readonly cache = new Map<string, boolean>();

  constructor(protocol: Protocol) {
    const { output, otherModels, objects, includeUsage } = protocol;
    const paths = output ? [...output.tokens, ...output.multipliers] : [];
    const [tier] = output?.premiumTier ?? [];
    const lists = [otherModels?.topLevel, otherModels?.searched, otherModels?.vendorChoice];
    const names = [tier, output?.fallbackModels, output?.background, includeUsage?.member({}).name];
    this.exact = new Set([
      "model",
      ...paths.map(([name]) => String(name)),
      ...tierMembers(protocol),
      ...names.filter((name) => name !== undefined),
      ...[...lists, objects?.topLevel, objects?.anyDepth].flatMap((list) => list ?? []),
    ]);
    this.folded = new Set([...this.exact].map(foldCase));
    const nested = paths.flatMap(([outer, name]) => (typeof name === "string" ? [{ outer: String(outer), name }] : []));
    for (const [outer, all] of Map.groupBy(nested, ({ outer }) => outer))
      this.inner.set(outer, new InnerMembers("object", new Set(all.map(({ name }) => name))));
    if (output?.fallbackModels === undefined) return;
    const each = ["model", ...(tier === undefined ? [] : [tier]), ...output.tokens.map(([name]) => String(name))];
    this.inner.set(output.fallbackModels, new InnerMembers("array", new Set(each)));
  }

  /** Returns look-alikes at the top level of a body. */
  topLookAlikes({ scan }: Body): string[] {
    const found: string[] = [];
    for (const { name } of scan?.members ?? []) if (this.isLookAlike(name)) found.push(name);
    return found;
  }

  private isLookAlike(name: string): boolean {
    const known = this.cache.get(name);
    if (known !== undefined) return known;
    const is = this.folded.has(foldCase(name)) && !this.exact.has(name);
    if (this.cache.size < MAX_CACHED && name.length <= MAX_CACHED_NAME) this.cache.set(name, is);
    return is;
  }

  /** Returns look-alikes inside members that contain checked ones. */
  nestedLookAlikes(body: Body): JsonPath[] {
    const found: JsonPath[] = [];
    for (const [outer, { kind, exact, folded, pattern }] of this.inner) {
      const member = body.member(outer);
      if (member?.kind !== kind) continue;
      if (!pattern.test(body.slice(member.start, member.end).toString("latin1"))) continue;
      const value = body.value(outer);
      const list = asList(value).map((each, i) => [[outer, i], each] as const);
      const objects = kind === "array" ? list : [[[outer], value] as const];
      for (const [path, object] of objects)
        for (const name in asObject(object))
          if (folded.has(foldCase(name)) && !exact.has(name)) found.push([...path, name]);
    }
    return found;
  }
}

/** Look-alikes of a body: their names, with the path, and the edits that remove them. */
export interface LookAlikes {
  readonly names: readonly string[];
  readonly edits: readonly Edit[];
}

const NONE: LookAlikes = { names: [], edits: [] };

const checkedMembers = new WeakMap<Protocol, CheckedMembers>();

function addCheckedMembers(protocol: Protocol): CheckedMembers {
  const checked = new CheckedMembers(protocol);
  checkedMembers.set(protocol, checked);
  return checked;
}

/**
 * Finds members that case-insensitive servers (mostly written in Go) read as one by which a request was checked, and the edits
 * that remove them.
 * @throws GatewayError `invalid_field` where there are more than a mistake would explain
 */
export function lookAlikes(body: Body, protocol: Protocol): LookAlikes {
  const checked = checkedMembers.get(protocol) ?? addCheckedMembers(protocol);
  const top = checked.topLookAlikes(body);
  const inner = checked.nestedLookAlikes(body);
  if (top.length === 0 && inner.length === 0) return NONE;
  const names = [...top, ...inner.map((path) => path.join("."))];
  if (names.length > MAX_LOOK_ALIKES) {
    const param = names[0] as string;
    throw new GatewayError("invalid_field", {
      message: `The request has ${names.length} members like ${param}, in other letters than the API has them.`,
      hint: "Send each member by its name in the vendor's documentation.",
      param,
    });
  }
  return {
    names,
    edits: [
      ...(body.scan && top.length > 0 ? removeMembers(body.scan, top) : []),
      ...(inner.length > 0 ? pathEdits(body.bytes(), { remove: inner }) : []),
    ],
  };
}
