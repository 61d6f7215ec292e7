import { asCount, asObject, eventBytes, type Fault, type StreamState } from "model-gateway/protocol";
import { errorOf } from "../openai/errors.ts";

/**
 * First `response.failed`, then `error`: agents only act on the one, SDKs and LangChain only throw on the other. The
 * newer SDK demands the id of `response.created` in every later event, so where that is unknown only `error` is written.
 * The vendor documents that event flat and sends it nested (a comment in SDK 7); SDK 4 reads the code only there.
 */
export function streamError(fault: Fault, _id: string, stream: StreamState): Buffer {
  const error = errorOf(fault);
  const { code, message, param } = error;
  let sequence = (asCount(asObject(stream.last?.json())?.["sequence_number"]) ?? stream.frames - 1) + 1;
  const events: Buffer[] = [];
  const begun = begunAs(stream.first);
  if (begun) {
    const response = {
      ...begun,
      status: "failed",
      error: { code, message },
      incomplete_details: null,
      output: [],
      usage: null,
    };
    events.push(eventBytes({ type: "response.failed", sequence_number: sequence++, response }, "response.failed"));
  }
  events.push(eventBytes({ type: "error", sequence_number: sequence, code, message, param, error }, "error"));
  return Buffer.concat(events);
}

/** The members of the first event's response that stand before any nested one; the bytes may end anywhere after them. */
const HEAD = /"response"\s*:\s*(\{(?:\s*"[a-z_]+"\s*:\s*(?:"(?:[^"\\]|\\.)*"|[^\s"{}[\],]+)\s*,)*)/;

function begunAs(first: Buffer | undefined): object | undefined {
  const members = HEAD.exec(first?.toString("utf8") ?? "")?.[1];
  if (members === undefined) return undefined;
  const { id, object, created_at, model } = JSON.parse(`${members}"":0}`) as Record<string, unknown>;
  return typeof id === "string" ? { id, object, created_at, model } : undefined;
}
