import { internalize } from "../wire/internalize.ts";
import { describeKind } from "../wire/members.ts";
import { type Edit, setMember } from "../wire/splice.ts";
import type { Body } from "./body.ts";
import { GatewayError } from "./errors.ts";

/** Maximum length of a model name, in bytes. */
export const MAX_MODEL = 256;

/**
 * Returns the name of the requested model, literally: nothing is trimmed or folded.
 * @throws GatewayError `invalid_field`, `invalid_json`
 */
export function readModel(body: Body): string {
  const { modelField } = body;
  if (modelField) return checkModel(body.text(modelField));
  const member = body.member("model");
  if (!member) throw invalidModel("The request names no model.", 'Send "model" with a name that GET /v1/models lists.');
  if (member.kind !== "string") throw invalidModel(`model must be a string, not ${describeKind(member.kind)}.`);
  // An escape has six bytes and stands for at least one: a longer value is too long without parsing it.
  if (member.end - member.start > 6 * MAX_MODEL + 2) throw modelTooLong();
  const json = body.text(member);
  const known = VALID_JSON.get(json);
  if (known !== undefined) return known;
  const name = checkModel(body.value("model") as string);
  if (VALID_JSON.size < MAX_CACHED && json === JSON.stringify(name)) VALID_JSON.set(json, name);
  return name;
}

/**
 * Checks a model name from a client, wherever it was given.
 * @returns the name
 * @throws GatewayError `invalid_field`
 */
export function checkModel(model: string): string {
  const known = VALID_NAMES.get(model);
  if (known !== undefined) return known;
  if (model === "") throw invalidModel("model is empty.", "Send a name that GET /v1/models lists.");
  if (Buffer.byteLength(model) > MAX_MODEL) throw modelTooLong();
  if (!model.isWellFormed()) throw invalidModel("model holds half of a surrogate pair.", "Write the character whole.");
  if (/\p{Cc}/u.test(model)) throw invalidModel("model holds a control character.", "Remove it.");
  if (model !== model.trim()) throw invalidModel("model begins or ends with white space.", "Remove it.");
  // A name that JSON would escape is checked each time.
  if (VALID_NAMES.size < MAX_CACHED && !/["\\]/.test(model)) VALID_NAMES.set(model, internalize(model));
  return model;
}

/** Returns the edits with which an object, or a form, names a model; none where it already does. */
export function modelEdits(body: Body, model: string): Edit[] {
  const { modelField, scan } = body;
  if (modelField) return [{ ...modelField, bytes: Buffer.from(model) }];
  const json = JSON.stringify(model);
  return scan?.kind !== "object" || modelBytes(body)?.toString() === json ? [] : [setMember(scan, "model", json)];
}

/** Reports whether two bodies write their model with the same bytes. */
export function isSameModel(a: Body, b: Body): boolean {
  const [one, other] = [modelBytes(a), modelBytes(b)];
  return one && other ? one.equals(other) : one === other;
}

function modelBytes(body: Body): Buffer | undefined {
  const span = body.modelField ?? body.member("model");
  return span && body.slice(span.start, span.end);
}

/** Names that passed the checks, internalized: nearly all requests name one of a few, which is looked up several times. */
const VALID_NAMES = new Map<string, string>();
/** The same by their JSON. */
const VALID_JSON = new Map<string, string>();
const MAX_CACHED = 500;

const modelTooLong = (): GatewayError =>
  invalidModel(`model is longer than ${MAX_MODEL} bytes.`, "Send a name that GET /v1/models lists.");

function invalidModel(message: string, hint?: string): GatewayError {
  return new GatewayError("invalid_field", { message, param: "model", ...(hint === undefined ? {} : { hint }) });
}
