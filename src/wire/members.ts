/** What a JSON value is. */
export type JsonKind = "string" | "number" | "object" | "array" | "true" | "false" | "null";

/** A kind of value in a sentence, like `an array`. */
export const kindInWords = (kind: JsonKind): string =>
  /^(?:true|false|null)$/.test(kind) ? kind : `${/^[ao]/.test(kind) ? "an" : "a"} ${kind}`;

/** One member of the top-level object. Offsets count bytes from the start of the text. */
export interface Member {
  /** The name, unescaped. */
  readonly name: string;
  /** Where the name stands, its quotes included. */
  readonly keyStart: number;
  readonly keyEnd: number;
  /** Where the value stands. */
  readonly start: number;
  readonly end: number;
  readonly kind: JsonKind;
}

/** Where things stand in a JSON text. */
export interface Scan {
  /** What the top-level value is. */
  readonly kind: JsonKind;
  /** Its members in order, when it is an object. */
  readonly members: readonly Member[];
  /** The top-level value's span, without the white space around it. */
  readonly start: number;
  readonly end: number;
  /** Bytes of the whole text. */
  readonly length: number;
  /** Bits of the watches (`Watch`) for which there may be something below the top level. */
  readonly seen: number;
  /** The member of that name; the last one where names may repeat, as `JSON.parse` has it. */
  find(name: string): Member | undefined;
}

/** From how many members on a map is faster than a look at each. */
const MANY = 16;

/** The members found so far. */
export class MemberList {
  readonly all: Member[] = [];
  private byName: Map<string, Member> | undefined;

  add(member: Member): void {
    this.all.push(member);
    if (this.byName) this.byName.set(member.name, member);
    else if (this.all.length > MANY) this.byName = new Map(this.all.map((each) => [each.name, each]));
  }

  /** The last member of that name. */
  find(name: string): Member | undefined {
    if (this.byName) return this.byName.get(name);
    for (let i = this.all.length - 1; i >= 0; i--) if ((this.all[i] as Member).name === name) return this.all[i];
    return undefined;
  }
}

/** A text that has been scanned to its end. */
export class ScanResult implements Scan {
  constructor(
    readonly kind: JsonKind,
    private readonly list: MemberList,
    readonly start: number,
    readonly end: number,
    readonly length: number,
    readonly seen: number,
  ) {}

  get members(): readonly Member[] {
    return this.list.all;
  }

  find(name: string): Member | undefined {
    return this.list.find(name);
  }
}
