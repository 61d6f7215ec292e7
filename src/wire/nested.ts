import { type JsonError, type JsonFault, type JsonKind, Scanner, type ScannerOptions } from "./json.ts";

/** Maximum names and values of all the JSON texts of one request, as in the request's body. */
const MAX_NAMES = 50_000;
const MAX_VALUES = 400_000;
/** Maximum depth, as in a body that the gateway writes, where the text becomes JSON. */
const MAX_DEPTH = 256;
/**
 * A text is scanned as the only member of an object: the scanner keeps the names of the outermost object, which takes thirty
 * times as long as scanning them.
 */
const OBJECT_START = Buffer.from('{"":');
const OBJECT_END = Buffer.from("}");

/** Faults of a text that exceeds a limit. */
const LIMIT_FAULTS: ReadonlySet<JsonFault> = new Set(["values", "depth", "name"]);

/**
 * Checks the JSON texts that the strings of one request hold, like the arguments of tool calls, without building values: parsing
 * a text with many names takes twenty times as long. The limits apply to all texts together.
 */
export class NestedJson {
  private names = 0;
  private values = 0;

  /** Returns the kind of the text's value; `large` where the limits are exceeded; undefined where it is not JSON. */
  kindOf(text: string): JsonKind | "large" | undefined {
    const scanner = scannerFor({
      maxDepth: MAX_DEPTH,
      maxKeys: MAX_NAMES + 1 - this.names,
      maxValues: MAX_VALUES + 1 - this.values,
    });
    try {
      return scanKind(scanner, text);
    } catch (error) {
      const { fault } = error as JsonError;
      // A second member of the object around the text: the text is not one value.
      const exceedsLimit = LIMIT_FAULTS.has(fault) || (fault === "keys" && scanner.depth > 1);
      return exceedsLimit ? "large" : undefined;
    } finally {
      this.names = Math.min(this.names + scanner.keys - 1, MAX_NAMES);
      this.values = Math.min(this.values + scanner.values, MAX_VALUES);
    }
  }
}

/** Reports whether a text of any size is JSON, without building values. */
export function isJsonText(text: string): boolean {
  try {
    return scanKind(scannerFor({ maxDepth: Infinity, maxKeys: 2 ** 31 - 1, longNames: true }), text) !== undefined;
  } catch {
    return false;
  }
}

const scannerFor = (limits: ScannerOptions): Scanner => new Scanner({ ...limits, strings: "whole", maxMembers: 1 });

/** @throws JsonError */
function scanKind(scanner: Scanner, text: string): JsonKind | undefined {
  scanner.push(OBJECT_START);
  scanner.push(Buffer.from(text));
  scanner.push(OBJECT_END);
  return scanner.end().members[0]?.kind;
}
