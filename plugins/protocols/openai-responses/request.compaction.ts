/**
 * Compactions where the provider speaks a protocol that has none: one is asked for in words, travels in an envelope, and
 * comes back as words. docs/decisions/0012-a-compaction-is-asked-for-in-words.md
 */
import { asList, asObject, type Fields, invalidField, type Opaque, type Turn } from "model-gateway/protocol";
import { leave, NAME, type Reading } from "./request.read.ts";

/** The item that asks for one. The vendor takes it as the last item only. [S] */
export const TRIGGER = "compaction_trigger";
/** The item that is one. */
export const COMPACTION = "compaction";

/** What asks for a compaction in words. */
const WISH =
  "Sum up the conversation so far, so that the work can go on from the summary alone: the goal and what was asked for, " +
  "the decisions made and their reasons, the state of the files and of everything else that was changed, and what is " +
  "still open. Keep names, paths, commands and values as they are. Answer with the summary and nothing else.";
/** What stands before a summary that comes back. */
const LEAD = "Summary of the conversation so far:\n\n";

/** What an envelope says that holds a summary. Nobody's own: a plain text, which any provider may read. */
const SUMMARY = { protocol: "gateway", kind: "summary" } as const;

/** True for a request's input that asks for a compaction. */
export const asksCompaction = (input: unknown): boolean => asObject(asList(input).at(-1))?.["type"] === TRIGGER;

/** A summary, to be sealed. */
export const summaryOf = (text: string): Opaque => ({ ...SUMMARY, data: text });

/** The trigger as a text of the user. @throws GatewayError `invalid_field` where it is not the last item */
export function readTrigger(reading: Reading, fields: Fields, last: boolean): Turn {
  if (!last) throw invalidField(fields.at, `${fields.at}: a ${TRIGGER} must be the last item of the input.`);
  reading.change(fields.at, "a compaction is asked for in words, as plain text and without calls of tools");
  return userTurn(fields, WISH, "id");
}

/**
 * The compaction item of a provider of another protocol, as a text of the user; undefined for the vendor's own.
 * @throws GatewayError `invalid_field` for an envelope that holds something else, or that is not ours
 */
export function readSummary(reading: Reading, fields: Fields): Turn | undefined {
  const sealed = fields.text("encrypted_content");
  const opaque = sealed === undefined ? undefined : reading.open(sealed);
  if (!opaque || (opaque.protocol === NAME && opaque.account === undefined)) return undefined;
  return userTurn(fields, summaryIn(opaque, fields.path("encrypted_content")), "id", "created_by");
}

/**
 * The summary that an envelope holds, in words that any provider reads.
 * @throws GatewayError `invalid_field` for an envelope that holds something else
 */
export function summaryIn({ protocol, kind, data }: Opaque, at: string): string {
  if (protocol !== SUMMARY.protocol || kind !== SUMMARY.kind) throw invalidField(at, `${at} holds no compaction.`);
  return LEAD + data;
}

function userTurn(fields: Fields, text: string, ...left: readonly string[]): Turn {
  leave(fields, "type", ...left);
  fields.rest();
  return { role: "user", at: fields.at, parts: [{ kind: "text", text, at: fields.at }] };
}
