import { ANSWER_OPTIONS, JsonError, Scanner } from "../wire/json.ts";
import { Occurrences } from "../wire/occurrences.ts";
import type { ImageMembers, Protocol } from "./protocol.ts";
import { checkUsage, type Usage } from "./usage.ts";

/** Bytes of a response up to which parsing costs less than scanning. */
const MAX_PARSED_BYTES = 4096;

/** U+FEFF, which some servers put before JSON. */
const BYTE_ORDER_MARK = [0xef, 0xbb, 0xbf];

/** Extracts usage from a JSON body as it passes, in the format of any of several protocols. Of the rest it keeps a short body only. */
export class JsonUsage {
  /** Why usage could not be read: the body is not JSON, or a protocol's reader throws. Contains nothing of the body. */
  fault: string | undefined;
  /** Bytes received. */
  bytes = 0;
  /** The id that the usage belongs to, where it may be reported again; see `StoredResponses.late`. */
  late: string | undefined;
  /** The parsed body, where it is whole and short. */
  json: unknown;
  /** The id of the object that the response is. */
  id: string | undefined;
  /** The response says that it is still being made. */
  unfinished = false;
  /** The response says that it was not made in the background: its usage was reported when it was made. */
  foreground = false;

  /** The members that a scan captures; determined when the first response is too large to be parsed. */
  private members: readonly string[] = [];
  /** What has arrived of a body that may be short. */
  private beginning: Buffer | undefined;
  /** The bytes of a byte order mark that have been passed over; all, once the body has begun. */
  private markBytes = 0;
  private scanner: Scanner | undefined;
  /** Counters of the members that mark images. */
  private readonly marks: readonly Occurrences[] | undefined;

  constructor(private readonly protocols: readonly Protocol[]) {
    // Base64 contains no quotes, and those within a string are escaped.
    this.marks = protocols[0]?.images?.contentMembers.map((name) => new Occurrences(JSON.stringify(name)));
  }

  /** Takes the next bytes, with arbitrary boundaries. Never throws. */
  push(bytes: Buffer): void {
    this.bytes += bytes.length;
    const body = this.skipByteOrderMark(bytes);
    if (this.fault === undefined && body.length > 0) this.take(body);
  }

  /** Takes the next bytes of the JSON text. */
  private take(bytes: Buffer): void {
    if (this.marks) for (const mark of this.marks) mark.push(bytes);
    if (!this.scanner && (this.beginning?.length ?? 0) + bytes.length < MAX_PARSED_BYTES) {
      this.beginning = this.beginning ? Buffer.concat([this.beginning, bytes]) : bytes;
      return;
    }
    this.recordFault(() => {
      this.scanner ??= this.startScanner();
      this.scanner.push(bytes);
    });
  }

  /** Returns the usage of the whole body. Never throws. */
  end(): Usage | undefined {
    const { beginning, scanner } = this;
    if (!(beginning || scanner) || this.fault !== undefined) return undefined;
    return this.recordFault(() => {
      if (!scanner) this.json = JSON.parse(String(beginning)) as unknown;
      const json = scanner ? this.capturedMembers(scanner) : this.json;
      this.id = shortText((json as { id?: unknown } | null)?.id);
      const images = this.protocols[0]?.images;
      return images ? this.addImages(images, json) : this.read(json);
    });
  }

  /** The number of images whose start has been seen. */
  get imageCount(): number {
    return Math.max(0, ...(this.marks ?? []).map((mark) => mark.count));
  }

  /** Returns the loggable part of an error: foreign messages may quote what they read. */
  static loggableError(thrown: unknown): string {
    return thrown instanceof JsonError ? thrown.message : thrown instanceof Error ? thrown.name : "unknown";
  }

  private skipByteOrderMark(bytes: Buffer): Buffer {
    let start = 0;
    for (; this.markBytes < BYTE_ORDER_MARK.length && start < bytes.length; start++, this.markBytes++)
      if (bytes[start] !== BYTE_ORDER_MARK[this.markBytes]) {
        this.markBytes = BYTE_ORDER_MARK.length;
        break;
      }
    return start > 0 ? bytes.subarray(start) : bytes;
  }

  private startScanner(): Scanner {
    const names = this.protocols.flatMap(({ usageMembers, storedResponses, images }) => [
      ...usageMembers,
      ...(storedResponses?.background.members ?? []),
      ...(images ? [images.sizeMember, images.qualityMember] : []),
    ]);
    this.members = [...new Set(["id", ...names])];
    const scanner = new Scanner({ capture: this.members, ...ANSWER_OPTIONS });
    if (this.beginning) scanner.push(this.beginning);
    this.beginning = undefined;
    return scanner;
  }

  /** Returns the captured members, each parsed on access: some are long, and needed only if others say so. */
  private capturedMembers(scanner: Scanner): Record<string, unknown> {
    scanner.end();
    const members: Record<string, unknown> = {};
    const words = Object.assign({}, ...this.protocols.map(({ usageWords }) => usageWords)) as Record<string, string>;
    for (const name of this.members) {
      const bytes = scanner.captured(name);
      const word = words[name];
      if (bytes && (word === undefined || bytes.includes(word)))
        Object.defineProperty(members, name, { get: () => JSON.parse(bytes.toString()) as unknown });
    }
    return members;
  }

  /**
   * Reads usage in the format of the first protocol that finds a total; otherwise returns the first vendor usage without totals.
   */
  private read(json: unknown): Usage | undefined {
    let other: Usage | undefined;
    for (const protocol of this.protocols) {
      const usage = protocol.usage(json);
      if (usage) checkUsage(usage);
      if (!usage || (usage.in.total === undefined && usage.out.total === undefined)) {
        other ??= usage;
        continue;
      }
      const { id = "", protocols } = this;
      this.late = protocol.storedResponses?.background.id(json);
      this.unfinished = protocol.storedResponses?.background.unfinished(json) ?? false;
      this.foreground =
        protocol.storedResponses?.background.foreground(json) ?? protocols.some((each) => each.fetchedIds?.test(id));
      return usage;
    }
    return other;
  }

  /** Adds the number of images, and the size and quality that the response reports. */
  private addImages({ sizeMember, qualityMember }: ImageMembers, json: unknown): Usage | undefined {
    const usage = this.read(json);
    const count = this.imageCount;
    if (count === 0) return usage;
    const images: NonNullable<Usage["images"]> = { count };
    const { [sizeMember]: large, [qualityMember]: good } = json as Record<string, unknown>;
    if (typeof large === "string") images.size = large;
    if (typeof good === "string") images.quality = good;
    return { in: {}, out: {}, raw: undefined, ...usage, images };
  }

  private recordFault<T>(act: () => T): T | undefined {
    try {
      return act();
    } catch (thrown) {
      this.fault = JsonUsage.loggableError(thrown);
      return undefined;
    }
  }
}

/** Maximum length of an id: vendors' ids are shorter. */
const MAX_ID = 256;

const shortText = (value: unknown): string | undefined =>
  typeof value === "string" && value !== "" && value.length <= MAX_ID ? value : undefined;
