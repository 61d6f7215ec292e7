import { JsonError, Scanner } from "../wire/json.ts";
import { Occurrences } from "../wire/occurrences.ts";
import type { PictureWords, Protocol } from "./protocol.ts";
import type { Usage } from "./usage.ts";

/** Bytes of an answer up to which parsing it costs less than scanning it. */
const SMALL = 4096;
/** A vendor's answer may have any number of names: one for each token and its neighbours, where their chances are asked for. */
const LIMITS = { maxKeys: 2 ** 31 - 1, maxDepth: 10_000 } as const;

/** Looks for usage in a JSON body as it passes, in the words of any of some protocols; keeps nothing else of it. */
export class JsonUsage {
  /** Why usage could not be read: the body is no JSON, or what a protocol makes of it fails. Holds nothing of the body. */
  fault: string | undefined;
  /** Bytes that have come. */
  bytes = 0;
  /** What the usage belongs to, where it may be told again; see `KeptAnswers.late`. */
  late: string | undefined;

  /** Those that a scan captures; worked out when the first answer is too large to be parsed. */
  private members: readonly string[] = [];
  private first: Buffer | undefined;
  private scanner: Scanner | undefined;
  /** For the members that tell pictures. */
  private readonly marks: readonly Occurrences[] | undefined;

  constructor(private readonly protocols: readonly Protocol[]) {
    // No base64 has quotes, and those within a text are escaped.
    this.marks = protocols[0]?.pictures?.marks.map((name) => new Occurrences(JSON.stringify(name)));
  }

  /** The next bytes, cut anywhere. Never throws. */
  push(bytes: Buffer): void {
    this.bytes += bytes.length;
    if (this.fault !== undefined) return;
    if (this.marks) for (const mark of this.marks) mark.push(bytes);
    if (!this.first && bytes.length < SMALL) {
      this.first = bytes;
      return;
    }
    this.guarded(() => {
      this.scanner ??= this.begun();
      this.scanner.push(bytes);
      this.first ??= bytes;
    });
  }

  /** What the whole body told. Never throws. */
  end(): Usage | undefined {
    const { first, scanner } = this;
    if (!first || this.fault !== undefined) return undefined;
    return this.guarded(() => {
      const json = scanner ? this.captured(scanner) : (JSON.parse(first.toString()) as unknown);
      const pictures = this.protocols[0]?.pictures;
      return pictures ? this.counted(pictures, json) : this.read(json);
    });
  }

  /** Pictures that have begun by now. */
  get pictures(): number {
    return Math.max(0, ...(this.marks ?? []).map((mark) => mark.count));
  }

  /** What may be told of a failure to read: others' messages may quote what they read. */
  static faultOf(thrown: unknown): string {
    return thrown instanceof JsonError ? thrown.message : thrown instanceof Error ? thrown.name : "unknown";
  }

  private begun(): Scanner {
    const names = this.protocols.flatMap(({ usageMembers, kept, pictures }) => [
      ...usageMembers,
      ...(kept?.late.members ?? []),
      ...(pictures ? [pictures.size, pictures.quality] : []),
    ]);
    this.members = [...new Set(names)];
    const scanner = new Scanner({ capture: this.members, duplicates: "allow", ...LIMITS });
    if (this.first) scanner.push(this.first);
    return scanner;
  }

  /** Each is parsed when somebody looks at it: some are long, and looked at only where others tell that they matter. */
  private captured(scanner: Scanner): Record<string, unknown> {
    scanner.end();
    const members: Record<string, unknown> = {};
    for (const name of this.members) {
      const bytes = scanner.captured(name);
      if (bytes) Object.defineProperty(members, name, { get: () => JSON.parse(bytes.toString()) as unknown });
    }
    return members;
  }

  /** In the words of the first protocol that finds a total; where none does, what a vendor told is kept as it is. */
  private read(json: unknown): Usage | undefined {
    let other: Usage | undefined;
    for (const protocol of this.protocols) {
      const usage = protocol.usage(json);
      if (!usage || (usage.in.total === undefined && usage.out.total === undefined)) {
        other ??= usage;
        continue;
      }
      this.late = protocol.kept?.late.id(json);
      return usage;
    }
    return other;
  }

  /** With how many pictures there are, and what the answer says of them. */
  private counted({ size, quality }: PictureWords, json: unknown): Usage | undefined {
    const usage = this.read(json);
    const count = this.pictures;
    if (count === 0) return usage;
    const images: NonNullable<Usage["images"]> = { count };
    const { [size]: large, [quality]: good } = json as Record<string, unknown>;
    if (typeof large === "string") images.size = large;
    if (typeof good === "string") images.quality = good;
    return { in: {}, out: {}, raw: undefined, ...usage, images };
  }

  private guarded<T>(act: () => T): T | undefined {
    try {
      return act();
    } catch (thrown) {
      this.fault = JsonUsage.faultOf(thrown);
      return undefined;
    }
  }
}
