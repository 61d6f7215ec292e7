import { GatewayError } from "../core/errors.ts";
import type { RequestFiles } from "../core/object-members.ts";
import type { FormPart, ValueReceiver } from "../wire/multipart.ts";
import type { ObjectReference } from "./reference-finder.ts";
import type { RequestLines } from "./request-lines.ts";

/** Limit of objects in lines before the purpose is known: a vendor's batch has as many lines. */
const MAX_PENDING = 50_000;

/** Returns the field that some servers take a name for: in other letters, or as an element of a list. */
const fieldOf = (name: string): string =>
  name
    .trim()
    .replace(/\[\d*\]$/, "")
    .toLowerCase();

/** Reports whether the text of a purpose, which may be JSON, is that of a file with requests. */
export function isOfRequests(purpose: string, { purposes }: RequestFiles): boolean {
  const words: readonly string[] = purpose.toLowerCase().match(/[\w-]+/g) ?? [];
  return words.some((word) => purposes.includes(word));
}

/**
 * Finds the objects that the requests in an uploaded file name while its form arrives. What other files contain is not checked;
 * the purpose may come after the file.
 */
export class RequestFileFinder implements ValueReceiver {
  /** Whether the file contains requests; undefined: its purpose is not known yet. */
  private hasRequests: boolean | undefined;

  constructor(
    private readonly files: RequestFiles,
    private readonly lines: RequestLines,
  ) {}

  isPurpose(field: string): boolean {
    return fieldOf(field) === this.files.purposeField;
  }

  /** @throws GatewayError `invalid_form` for a second purpose: vendors differ in which one they take */
  setPurpose(purpose: string): void {
    if (this.hasRequests !== undefined)
      throw new GatewayError("invalid_form", { message: `The field ${this.files.purposeField} occurs twice.` });
    this.hasRequests = isOfRequests(purpose, this.files);
  }

  /** Called for each part that is not a short text. */
  receiver(field: string, { hasOtherCharset }: FormPart): ValueReceiver | undefined {
    // A purpose that is sent as a file cannot be read here, but perhaps by the vendor.
    if (this.isPurpose(field)) this.hasRequests = true;
    if (fieldOf(field) !== this.files.field || this.hasRequests === false) return undefined;
    if (hasOtherCharset) this.lines.fail("It is in another character set than UTF-8.");
    return this;
  }

  push(bytes: Buffer): void {
    this.lines.push(bytes);
    this.limitPending();
  }

  end(): void {
    this.lines.end();
    this.limitPending();
  }

  /**
   * Returns the objects found so far, each once; none unless the file is known to contain requests: vendors refuse one without a
   * purpose.
   * @throws GatewayError where a line of requests cannot be read, or names too many objects
   */
  take(): readonly ObjectReference[] {
    return this.hasRequests ? this.lines.take() : [];
  }

  private limitPending(): void {
    if (this.lines.pending > MAX_PENDING)
      this.lines.fail(`More than ${MAX_PENDING} objects are named before the field ${this.files.purposeField}.`);
  }
}
