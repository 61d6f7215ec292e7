import { GatewayError } from "../core/errors.ts";
import { CR, LF } from "../wire/grammar.ts";
import type { BodyReferenceFinder, ObjectReference } from "./reference-finder.ts";

/** Bytes of memory that a piece of a buffered line needs besides its text. */
const PIECE_OVERHEAD = 256;

/** How lines are read. */
interface LineReader {
  /** Reports whether whole lines may name an object, without parsing them. */
  mayRefer(bytes: Buffer): boolean;
  /** Creates the finder for the JSON of a line. */
  finder(): BodyReferenceFinder;
}

/** Finds the objects that the requests in a file name, one in each line, while it arrives. Lines are buffered one at a time. */
export class RequestLines {
  private line: BodyReferenceFinder | undefined;
  private lineNumber = 1;
  /** By id: a file usually names an object in many lines. */
  private readonly found = new Map<string, ObjectReference>();
  /** Why the file cannot be checked any further. */
  private fault: GatewayError | undefined;
  /** Whether the line's last byte so far is a carriage return. */
  private returned = false;
  /** Bytes of memory for the line that has not ended yet. */
  buffered = 0;

  /** @param field the field with the file, for error messages */
  constructor(
    private readonly field: string,
    private readonly reader: LineReader,
  ) {}

  /** Number of objects found and not taken yet. */
  get pending(): number {
    return this.found.size;
  }

  push(bytes: Buffer): void {
    const first = bytes.indexOf(LF);
    if (first < 0) {
      this.readLine(bytes);
      return;
    }
    const last = bytes.lastIndexOf(LF);
    this.readLine(bytes.subarray(0, first));
    this.end();
    if (last > first) this.readWholeLines(bytes.subarray(first + 1, last + 1));
    this.readLine(bytes.subarray(last + 1));
  }

  /**
   * Reads lines, each with its end. Most name nothing: searching them together, and where something is found each half again, costs
   * far less than parsing each.
   */
  private readWholeLines(bytes: Buffer): void {
    if (!this.reader.mayRefer(bytes)) {
      this.lineNumber += countLines(bytes);
      return;
    }
    const last = bytes.length - 1;
    const middle = bytes.lastIndexOf(LF, last >> 1);
    const cut = middle >= 0 ? middle : bytes.indexOf(LF);
    if (cut < last) {
      this.readWholeLines(bytes.subarray(0, cut + 1));
      this.readWholeLines(bytes.subarray(cut + 1));
    } else {
      this.readLine(bytes.subarray(0, last));
      this.end();
    }
  }

  /** Ends a line, and with it the file. */
  end(): void {
    this.collect(() => this.line?.end() ?? []);
    this.line = undefined;
    this.returned = false;
    this.buffered = 0;
    this.lineNumber++;
  }

  /**
   * Returns the objects found since the last call, each once.
   * @throws GatewayError where a line cannot be read, or `fail` was called
   */
  take(): readonly ObjectReference[] {
    const references = [...this.found.values()];
    this.found.clear();
    if (this.fault) throw this.fault;
    return references;
  }

  /** Makes `take` throw: the file cannot be checked. */
  fail(why: string, cause?: unknown): void {
    const message = `Line ${this.lineNumber} of the file cannot be checked for objects of other keys. ${why}`;
    this.fault ??= new GatewayError("invalid_field", { message, param: this.field, cause });
  }

  private readLine(bytes: Buffer): void {
    if (bytes.length === 0) return;
    this.buffered += bytes.length + PIECE_OVERHEAD;
    const at = bytes.indexOf(CR);
    // Some readers end a line there: what is inside a value here would be a request of its own.
    if (this.returned || (at >= 0 && at < bytes.length - 1)) this.fail("It has a carriage return inside.");
    this.returned = at >= 0;
    this.collect(() => {
      this.line ??= this.reader.finder();
      return this.line.push(bytes);
    });
  }

  private collect(find: () => readonly ObjectReference[]): void {
    if (this.fault) return;
    const { field, found, lineNumber } = this;
    try {
      for (const reference of find())
        if (!found.has(reference.id))
          found.set(reference.id, { ...reference, param: `${field}.${lineNumber}.${reference.param}` });
    } catch (thrown) {
      this.fail(GatewayError.from(thrown).message, thrown);
    }
  }
}

/** Counts the ends of lines: one by one, as a call for each would cost more where lines are short. */
function countLines(bytes: Buffer): number {
  let count = 0;
  for (let i = 0; i < bytes.length; i++) if (bytes[i] === LF) count++;
  return count;
}
