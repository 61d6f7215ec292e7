import { MAX_NAME } from "./window.ts";

/** The type of a JSON value. */
export type JsonKind = "string" | "number" | "object" | "array" | "true" | "false" | "null";

/** Returns a kind of value with its article, like `an array`. */
export const describeKind = (kind: JsonKind): string =>
  /^(?:true|false|null)$/.test(kind) ? kind : `${/^[ao]/.test(kind) ? "an" : "a"} ${kind}`;

/** One member of the top-level object. Offsets count bytes from the start of the text. */
export interface Member {
  /** The name, unescaped. */
  readonly name: string;
  /** Where the name begins: at its quote. */
  readonly keyStart: number;
  /** The span of the value. */
  readonly start: number;
  readonly end: number;
  readonly kind: JsonKind;
}

/** The positions of the parts of a JSON text. */
export interface Scan {
  /** The type of the top-level value. */
  readonly kind: JsonKind;
  /** Its members in order, if it is an object. */
  readonly members: readonly Member[];
  /** The top-level value's span, without the white space around it. */
  readonly start: number;
  readonly end: number;
  /** For the engine: which of the texts that it looks for may occur below the top level, one bit each; and escapes in names. */
  readonly seen: number;
  /** Returns the member of that name; of duplicates the last one, as `JSON.parse` does. */
  find(name: string): Member | undefined;
}

/** The number of members above which a map is faster than a linear search. */
const MAP_THRESHOLD = 16;

/** The members found so far. */
export class MemberList {
  readonly all: Member[] = [];
  private byName: Map<string, Member> | undefined;

  add(member: Member): void {
    this.all.push(member);
    if (this.byName) this.index(member);
    else if (this.all.length > MAP_THRESHOLD) {
      this.byName = new Map();
      for (const each of this.all) this.index(each);
    }
  }

  /** Returns the last member of that name. */
  find(name: string): Member | undefined {
    if (this.byName && name.length <= MAX_NAME) return this.byName.get(name);
    for (let i = this.all.length - 1; i >= 0; i--) if ((this.all[i] as Member).name === name) return this.all[i];
    return undefined;
  }

  /** Longer names, which only answers may have, would all be in one chain of the map. */
  private index(member: Member): void {
    if (member.name.length <= MAX_NAME) this.byName?.set(member.name, member);
  }
}

/** A completely scanned text. */
export class ScanResult implements Scan {
  constructor(
    readonly kind: JsonKind,
    private readonly list: MemberList,
    readonly start: number,
    readonly end: number,
    readonly seen: number,
  ) {}

  get members(): readonly Member[] {
    return this.list.all;
  }

  find(name: string): Member | undefined {
    return this.list.find(name);
  }
}
