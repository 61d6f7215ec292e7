import type { Member, Scan } from "./members.ts";
import { totalLength } from "./pieces.ts";

/** Replaces bytes `start` to `end` of a text. Offsets refer to the text before any edit. */
export interface Edit {
  readonly start: number;
  readonly end: number;
  readonly bytes: Buffer;
  /**
   * Marks the addition or removal of a member. Its comma depends on the other edits of its neighbours, so `splice` determines it
   * when all edits are known.
   */
  readonly member?: { readonly scan: Scan; readonly name: string; readonly gone: boolean };
}

const EMPTY = Buffer.alloc(0);

/**
 * Returns the pieces of a text with edits applied; bytes outside the edits are not copied. Edits may come in any order. An edit
 * inside a removed range is dropped; of several for the same range the last one is used.
 * @throws Error when edits overlap in another way, or exceed the text
 */
export function splice(pieces: readonly Buffer[], edits: readonly Edit[]): Buffer[] {
  const result: Buffer[] = [];
  let index = 0;
  let base = 0;
  const copy = (from: number, to: number): void => {
    for (let at = from; at < to; ) {
      const piece = pieces[index];
      if (!piece) throw new Error(`An edit stands at byte ${to} of a text of ${base} bytes.`);
      const end = base + piece.length;
      const copyEnd = Math.min(end, to);
      if (at === base && copyEnd === end) result.push(piece);
      else if (at < end) result.push(piece.subarray(at - base, copyEnd - base));
      at = Math.max(at, copyEnd);
      if (at >= end) {
        index++;
        base = end;
      }
    }
  };
  let at = 0;
  for (const edit of effectiveEdits(edits)) {
    copy(at, edit.start);
    if (edit.bytes.length > 0) result.push(edit.bytes);
    at = edit.end;
  }
  const length = totalLength(pieces);
  if (at > length) throw new Error(`An edit ends at byte ${at} of a text of ${length} bytes.`);
  copy(at, length);
  return result;
}

/** Bytes `start` to `end` of a text. */
export interface ByteSpan {
  readonly start: number;
  readonly end: number;
}

/**
 * Returns the position of a span after edits. An edit inside it, or at one of its ends, becomes part of it.
 * @throws Error as `splice`, and when an edit overlaps the span partially
 */
export function shiftSpan({ start, end }: ByteSpan, edits: readonly Edit[]): ByteSpan {
  let shift = 0;
  let growth = 0;
  for (const edit of effectiveEdits(edits)) {
    const difference = edit.bytes.length - (edit.end - edit.start);
    if (edit.start >= start && edit.end <= end) growth += difference;
    else if (edit.end <= start) shift += difference;
    else if (edit.start < end)
      throw new Error(`An edit of bytes ${edit.start} to ${edit.end} cuts the span at ${start}.`);
  }
  return { start: start + shift, end: end + shift + growth };
}

/** Removes top-level members, each with its comma; other white space is kept. Removing all leaves `{}`. */
export function removeMembers(scan: Scan, names: Iterable<string>): Edit[] {
  const unwanted = new Set(names);
  return scan.members
    .filter((member) => unwanted.has(member.name))
    .map(({ name, keyStart, end }) => ({ start: keyStart, end, bytes: EMPTY, member: { scan, name, gone: true } }));
}

/** Replaces the value of a member. */
export function replaceMember(member: Member, json: string): Edit {
  return { start: member.start, end: member.end, bytes: Buffer.from(json) };
}

/**
 * Sets a top-level member: replaces its value, or adds the member before the others.
 * @throws Error when the text is not an object
 */
export function setMember(scan: Scan, name: string, json: string): Edit {
  const member = scan.find(name);
  if (member) return replaceMember(member, json);
  if (scan.kind !== "object") throw new Error(`A member can only be set in an object, not in ${scan.kind}.`);
  const at = scan.start + 1;
  const bytes = Buffer.from(`${JSON.stringify(name)}:${json}`);
  return { start: at, end: at, bytes, member: { scan, name, gone: false } };
}

/** Returns the effective edits, sorted and without overlaps. */
function effectiveEdits(edits: readonly Edit[]): readonly Edit[] {
  if (edits.length === 0 || (edits.length === 1 && !(edits[0] as Edit).member)) return edits;
  const effective: Edit[] = [];
  const sorted = resolveCommas(edits).sort(
    (a, b) => a.start - b.start || Number(a.end > a.start) - Number(b.end > b.start) || b.end - a.end,
  );
  for (const edit of sorted) {
    const previous = effective.at(-1);
    if (!previous || edit.start >= previous.end) effective.push(edit);
    else if (edit.start === previous.start && edit.end === previous.end) effective[effective.length - 1] = edit;
    else if (previous.bytes.length > 0 || edit.end > previous.end)
      throw new Error(
        `Two edits overlap: bytes ${previous.start} to ${previous.end} and ${edit.start} to ${edit.end}.`,
      );
  }
  return effective;
}

/** Replaces the edits of members by ones that take each other into account. */
function resolveCommas(edits: readonly Edit[]): Edit[] {
  const resolved: Edit[] = [];
  const changes = new Map<Scan, { gone: Set<string>; added: Map<string, Buffer> }>();
  for (const edit of edits) {
    if (!edit.member) {
      resolved.push(edit);
      continue;
    }
    const { scan, name, gone } = edit.member;
    let change = changes.get(scan);
    if (!change) {
      change = { gone: new Set(), added: new Map() };
      changes.set(scan, change);
    }
    if (gone) change.gone.add(name);
    else change.added.set(name, edit.bytes);
  }
  for (const [scan, { gone, added }] of changes)
    resolved.push(...additionEdits(scan, gone, added), ...removalEdits(scan, gone));
  return resolved;
}

function additionEdits(scan: Scan, gone: ReadonlySet<string>, added: ReadonlyMap<string, Buffer>): Edit[] {
  if (added.size === 0) return [];
  const start = scan.start + 1;
  const parts = [...added.values()].map((bytes) => bytes.toString());
  if (scan.members.some((member) => !gone.has(member.name))) parts.push("");
  return [{ start, end: start, bytes: Buffer.from(parts.join(",")) }];
}

/** Removes each run of members with the comma after it, the last run with the comma before it. */
function removalEdits(scan: Scan, gone: ReadonlySet<string>): Edit[] {
  const result: Edit[] = [];
  const { members } = scan;
  for (let i = 0; i < members.length; i++) {
    const first = i;
    while (i < members.length && gone.has((members[i] as Member).name)) i++;
    if (i === first) continue;
    const previous = members[first - 1];
    const next = members[i];
    const last = members[i - 1] as Member;
    if (next) result.push({ start: (members[first] as Member).keyStart, end: next.keyStart, bytes: EMPTY });
    else if (previous) result.push({ start: previous.end, end: last.end, bytes: EMPTY });
    else result.push({ start: scan.start + 1, end: scan.end - 1, bytes: EMPTY });
  }
  return result;
}
