import { FOLDED, foldCase, inAnyCase } from "../wire/any-case.ts";
import { changesAt, type JsonPath } from "../wire/paths.ts";
import { type Edit, removeMembers } from "../wire/splice.ts";
import { asObject } from "../wire/values.ts";
import type { Body } from "./body.ts";
import type { Protocol } from "./protocol.ts";

/** Members by which a request is judged: its models, how much may come out, and whose objects it names. */
class JudgedMembers {
  /** As they are. */
  private readonly exact: ReadonlySet<string>;
  /** As a reader takes them that does not mind case, and those alone that this makes others. */
  private readonly folded: ReadonlySet<string>;
  private readonly changed: ReadonlySet<string>;
  /** Those within a member: where the text of one may hold look-alikes is told without reading it. */
  private readonly inner = new Map<string, { readonly exact: Set<string>; pattern: RegExp }>();

  constructor({ output, otherModels, objects }: Protocol) {
    const paths = output ? [...output.tokens, ...output.times] : [];
    const [tier] = output?.tier ?? [];
    const all = [
      ...["model", "service_tier", tier, output?.further, output?.later, ...(otherModels?.below ?? [])],
      ...[...(objects?.top ?? []), ...(objects?.anywhere ?? [])],
    ].filter((name) => name !== undefined);
    this.exact = new Set([...paths.map(([name]) => String(name)), ...all]);
    this.folded = new Set([...this.exact].map(foldCase));
    this.changed = new Set([...this.folded].filter((name) => !this.exact.has(name)));
    for (const [outer, name] of paths) {
      if (typeof name !== "string") continue;
      const { exact } = this.inner.get(String(outer)) ?? { exact: new Set() };
      exact.add(name);
      const names = [...exact].map((each) => `(?!${each}")${inAnyCase(each)}`);
      this.inner.set(String(outer), { exact, pattern: new RegExp(`"(?:${names.join("|")})"|\\\\u`) });
    }
  }

  /** Look-alikes at the top of a body. */
  top({ scan }: Body): string[] {
    const { exact, folded, changed } = this;
    const found: string[] = [];
    for (const { name } of scan?.members ?? []) {
      const is = FOLDED.test(name)
        ? folded.has(foldCase(name)) && !exact.has(name)
        : changed.size > 0 && changed.has(name);
      if (is) found.push(name);
    }
    return found;
  }

  /** Look-alikes within the members that have something by which it is judged. */
  within(body: Body): JsonPath[] {
    const found: JsonPath[] = [];
    for (const [outer, { exact, pattern }] of this.inner) {
      const member = body.member(outer);
      if (member?.kind !== "object" || !pattern.test(body.slice(member.start, member.end).toString("latin1"))) continue;
      const like = new Set([...exact].map(foldCase));
      for (const name in asObject(body.value(outer)))
        if (like.has(foldCase(name)) && !exact.has(name)) found.push([outer, name]);
    }
    return found;
  }
}

const known = new WeakMap<Protocol, JudgedMembers>();

/**
 * Members that servers which read names in any case (written in Go, most of them) take for one by which a request was judged,
 * and the edits that take them out.
 */
export function lookAlikes(body: Body, protocol: Protocol): { names: readonly string[]; edits: Edit[] } {
  let judged = known.get(protocol);
  if (!judged) {
    judged = new JudgedMembers(protocol);
    known.set(protocol, judged);
  }
  const top = judged.top(body);
  const inner = judged.within(body);
  return {
    names: [...top, ...inner.map((path) => path.join("."))],
    edits: [
      ...(body.scan && top.length > 0 ? removeMembers(body.scan, top) : []),
      ...(inner.length > 0 ? changesAt(body.bytes(), { remove: inner }) : []),
    ],
  };
}
