import { GatewayError } from "../core/errors.ts";
import type { RequestFiles } from "../core/protocol.ts";
import type { ValueReceiver } from "../wire/multipart.ts";
import type { BodyReferenceFinder, ObjectReference } from "./reference-finder.ts";

const LINE_END = 10;

/** How lines are read. */
interface LineReader {
  /** Reports whether whole lines may name an object, without parsing them. */
  mayRefer(bytes: Buffer): boolean;
  /** Creates the finder for the JSON of a line. */
  finder(): BodyReferenceFinder;
}

/** Limit of objects in lines before the purpose is known: a vendor's batch has as many lines. */
const MAX_PENDING = 50_000;

/**
 * Finds the objects that the requests in an uploaded file name, one in each line, while the form arrives. Lines are buffered one
 * at a time. What other files contain is not checked; the purpose may come after the file.
 */
export class RequestFileFinder implements ValueReceiver {
  /** Whether the file contains requests; undefined: its purpose is not known yet. */
  private hasRequests: boolean | undefined;
  private line: BodyReferenceFinder | undefined;
  private lineNumber = 1;
  /** By id: a file usually names an object in many lines. */
  private readonly found = new Map<string, ObjectReference>();
  /** Why the file cannot be checked any further. */
  private fault: GatewayError | undefined;

  constructor(
    private readonly files: RequestFiles,
    private readonly lines: LineReader,
  ) {}

  isPurpose(field: string): boolean {
    return field === this.files.purposeField;
  }

  /** @throws GatewayError `invalid_form` for a second purpose: vendors differ in which one they take */
  setPurpose(purpose: string): void {
    if (this.hasRequests !== undefined)
      throw new GatewayError("invalid_form", { message: `The field ${this.files.purposeField} occurs twice.` });
    this.hasRequests = this.files.purposes.includes(purpose.trim().toLowerCase());
  }

  /** Called for each part that is not a short text. */
  receiver(field: string): ValueReceiver | undefined {
    // A purpose that is sent as a file cannot be read here, but perhaps by the vendor.
    if (this.isPurpose(field)) this.hasRequests = true;
    return field === this.files.field && this.hasRequests !== false ? this : undefined;
  }

  push(bytes: Buffer): void {
    const [first, last] = [bytes.indexOf(LINE_END), bytes.lastIndexOf(LINE_END)];
    // Most lines name nothing: searching all whole ones at once costs far less than parsing each.
    const skips = last > first && !this.lines.mayRefer(bytes.subarray(first + 1, last + 1));
    let start = 0;
    for (let at = first; at >= 0; at = bytes.indexOf(LINE_END, start)) {
      if (start === 0 || !skips) this.readLine(bytes.subarray(start, at));
      this.end();
      start = at + 1;
    }
    this.readLine(bytes.subarray(start));
  }

  /** Ends a line, and with it the file. */
  end(): void {
    this.collect(() => this.line?.end() ?? []);
    this.line = undefined;
    this.lineNumber++;
  }

  /**
   * Returns the objects found so far, each once; none unless the file is known to contain requests: vendors refuse one without a
   * purpose.
   * @throws GatewayError where a line of requests cannot be read, or names too many objects
   */
  take(): readonly ObjectReference[] {
    const { found, fault, hasRequests } = this;
    if (hasRequests === undefined) return [];
    const references = hasRequests ? [...found.values()] : [];
    found.clear();
    if (hasRequests && fault) throw fault;
    return references;
  }

  private readLine(bytes: Buffer): void {
    if (bytes.length === 0) return;
    this.collect(() => {
      this.line ??= this.lines.finder();
      return this.line.push(bytes);
    });
  }

  private collect(find: () => readonly ObjectReference[]): void {
    const { files, found, lineNumber } = this;
    if (this.fault || this.hasRequests === false) return;
    try {
      for (const reference of find())
        if (!found.has(reference.id))
          found.set(reference.id, { ...reference, param: `${files.field}.${lineNumber}.${reference.param}` });
    } catch (thrown) {
      this.fail(thrown, GatewayError.from(thrown).message);
    }
    if (found.size > MAX_PENDING)
      this.fail(undefined, `More than ${MAX_PENDING} objects are named before the field ${files.purposeField}.`);
  }

  private fail(cause: unknown, why: string): void {
    const message = `Line ${this.lineNumber} of the file cannot be checked for objects of other keys. ${why}`;
    this.fault = new GatewayError("invalid_field", { message, param: this.files.field, cause });
  }
}
