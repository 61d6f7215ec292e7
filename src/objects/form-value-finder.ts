import { GatewayError } from "../core/errors.ts";
import type { ValueReceiver } from "../wire/multipart.ts";
import type { BodyReferenceFinder, ObjectReference, ReferenceFinder } from "./reference-finder.ts";

/** Bytes of a value that may be an id. */
const MAX_ID = 256;

/**
 * Finds the objects in the value of a form's field whose name does not say that it names any: in JSON, as vendors read it in some
 * fields (`input_reference`, `session`), or by the form of the whole value.
 */
export class FormValueFinder implements ValueReceiver {
  private readonly start: Buffer[] = [];
  private length = 0;

  /** @param json reads the value if it is JSON, and ignores any other */
  constructor(
    private readonly field: string,
    private readonly finders: readonly ReferenceFinder[],
    private readonly json: BodyReferenceFinder,
    private readonly onFound: (found: readonly ObjectReference[]) => void,
  ) {}

  push(bytes: Buffer): void {
    this.length += bytes.length;
    if (this.length <= MAX_ID) this.start.push(bytes);
    this.report(() => this.json.push(bytes));
  }

  end(): void {
    this.report(() => this.json.end());
    if (this.length > MAX_ID) return;
    const value = Buffer.concat(this.start).toString();
    this.onFound(this.finders.flatMap((each) => each.findInField(this.field, value)));
  }

  /** @throws GatewayError `invalid_field` */
  private report(find: () => readonly ObjectReference[]): void {
    this.onFound(this.checked(find).map((each) => ({ ...each, param: `${this.field}.${each.param}` })));
  }

  private checked(find: () => readonly ObjectReference[]): readonly ObjectReference[] {
    const { field } = this;
    try {
      return find();
    } catch (thrown) {
      throw new GatewayError("invalid_field", {
        message: `The field ${field} cannot be checked for objects of other keys. ${GatewayError.from(thrown).message}`,
        param: field,
        cause: thrown,
      });
    }
  }
}
