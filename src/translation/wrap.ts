import { parseExact, RawJson, writeJson } from "../wire/exact.ts";
import { asObject, type JsonObject } from "../wire/values.ts";
import type { Format } from "./conversation.ts";
import type { Event } from "./events.ts";
import { inlineRoot, isObjectSchema } from "./schema-root.ts";
import { MAX_OPENING, TextUnwrapper } from "./unwrap.ts";

/** The only member of an object that wraps a response. */
const MEMBER = "value";

/** How a response is unwrapped from its object: as JSON, or as the text of a string. */
export type WrapKind = "json" | "text";

/**
 * Returns a format whose schema has an object at its root, for vendors that require it, and how to unwrap the response where
 * an object was added. Undefined where the format needs no change.
 */
export function wrapFormat(
  format: Format | undefined,
  objectsOnly: boolean,
): { format: Format; wrapped?: WrapKind } | undefined {
  const { schema, isPlainText, ...rest } = format ?? {};
  if (!schema || !(isPlainText || objectsOnly)) return undefined;
  const root = asObject(parseExact(schema.text));
  if (!root || root instanceof RawJson) return undefined;
  if (!isPlainText && isObjectSchema(root)) return undefined;
  const inlined = isPlainText ? undefined : inlineRoot(root);
  if (inlined) return { format: { ...rest, kind: "schema", schema: new RawJson(writeJson(inlined)) } };
  const { $defs, definitions, ...inner } = root;
  const json = writeJson({
    type: "object",
    properties: { [MEMBER]: adjustReferences(inner) },
    required: [MEMBER],
    additionalProperties: false,
    ...($defs === undefined ? {} : { $defs: adjustReferences($defs) }),
    ...(definitions === undefined ? {} : { definitions: adjustReferences(definitions) }),
  });
  return { format: { ...rest, kind: "schema", schema: new RawJson(json) }, wrapped: isPlainText ? "text" : "json" };
}

/** Adjusts references for a schema moved one level deeper; its definitions stay at the root. */
function adjustReferences(schema: unknown): unknown {
  if (Array.isArray(schema)) return schema.map(adjustReferences);
  if (schema instanceof RawJson || !asObject(schema)) return schema;
  return Object.fromEntries(
    Object.entries(schema as JsonObject).map(([name, value]) => [
      name,
      name === "$ref" && typeof value === "string"
        ? value.replace(/^#(?!\/(?:\$defs|definitions)\/)(?=\/|$)/, `#/properties/${MEMBER}`)
        : adjustReferences(value),
    ]),
  );
}

/** Unwraps the texts of a response while they stream. Texts of another form stay unchanged. */
export class ResponseUnwrapper {
  /** Unwrappings by block. */
  private readonly texts = new Map<number, { push(piece: string): string; end(): string }>();

  constructor(private readonly wrapped: WrapKind) {}

  /** Returns the events that replace an event. */
  unwrap(event: Event): Event[] {
    if (event.type === "open" && event.kind === "text")
      this.texts.set(event.block, this.wrapped === "text" ? new TextUnwrapper(MEMBER) : new JsonUnwrapper());
    if (event.type !== "text" && event.type !== "close") return [event];
    const { block } = event;
    const unwrapper = this.texts.get(block);
    if (!unwrapper) return [event];
    if (event.type === "text") {
      const text = unwrapper.push(event.text);
      return text === "" ? [] : [{ type: "text", block, text }];
    }
    const remainder = unwrapper.end();
    this.texts.delete(block);
    return remainder === "" ? [event] : [{ type: "text", block, text: remainder }, event];
  }
}

const OPENING = new RegExp(`^\\s*\\{\\s*"${MEMBER}"\\s*:\\s*`);

/** Extracts the JSON of the only member, unchanged: everything but the opening, and the last brace. */
class JsonUnwrapper {
  private state: "opening" | "inside" | "other" = "opening";
  /** An incomplete opening; later braces and white space that may be the end. */
  private pending = "";

  push(piece: string): string {
    const text = this.state === "opening" ? this.open(piece) : piece;
    if (this.state !== "inside") return text;
    // Pending text is not read again: any number of pieces may only add to it.
    const bufferedLength = trailingLength(text);
    const complete = bufferedLength === text.length ? "" : this.pending + text.slice(0, text.length - bufferedLength);
    this.pending = complete === "" ? this.pending + text : text.slice(text.length - bufferedLength);
    return complete;
  }

  end(): string {
    const json = this.pending.trimEnd();
    return this.state === "inside" && json.endsWith("}") ? json.slice(0, -1).trimEnd() : this.pending;
  }

  /** Returns the text after the opening, or all of a text without one; nothing while that is not known. */
  private open(piece: string): string {
    const text = this.pending + piece;
    const opening = OPENING.exec(text)?.[0];
    // White space after the colon may continue.
    if (opening !== undefined && opening.length < text.length) this.state = "inside";
    else if (text.length > MAX_OPENING || /^\s*[^\s{]/.test(text)) this.state = "other";
    this.pending = this.state === "opening" ? text : "";
    return this.state === "inside" ? text.slice(opening?.length) : this.state === "other" ? text : "";
  }
}

/** Returns the number of braces and white space characters at the end. */
function trailingLength(text: string): number {
  let end = text.length;
  while (end > 0 && " \t\r\n}".includes(text[end - 1] as string)) end--;
  return text.length - end;
}
