import { Frame, type Stage } from "model-gateway";
import type { MarkTable } from "./match.ts";

/** Maximum bytes of a response that is buffered to inspect all of it; a longer one passes unchanged. */
const MAX_WHOLE = 16 * 1024 * 1024;
const COLON = 0x3a;
const LF = 0x0a;
const CR = 0x0d;
const DATA = Buffer.from("data:");

/**
 * Returns a stage that removes the marks of an aggregation service from its response's events, elements or whole body. Bytes
 * without a mark's name pass unchanged.
 * @param ping replaces a comment that names the service: the client still sees that the connection is alive
 * @param reserve counts what it buffers, as `Head.reserve`
 */
export function answerScrubber(table: MarkTable, ping: Buffer, reserve?: (bytes: number) => void): Stage {
  let kept: Buffer[] | undefined = [];
  let size = 0;
  const whole = (frame: Frame): Frame[] | undefined => {
    if (!kept) return undefined;
    kept.push(frame.bytes);
    size += frame.bytes.length;
    reserve?.(frame.bytes.length);
    if (size <= MAX_WHOLE) return [];
    const late = kept.map((bytes) => new Frame("piece", bytes));
    kept = undefined;
    reserve?.(-size);
    return late;
  };
  return (frame) => {
    if (frame.kind === "piece") return whole(frame);
    if (frame.kind === "end") {
      const bytes = kept && size > 0 ? Buffer.concat(kept) : undefined;
      kept = undefined;
      if (bytes) reserve?.(-size);
      return bytes && [new Frame("piece", cleanSpan(table, bytes, 0, bytes.length)), frame];
    }
    const bytes = frame.kind === "element" ? cleanElement(table, frame.bytes) : cleanEvent(table, frame.bytes, ping);
    return bytes === frame.bytes ? undefined : new Frame(frame.kind, bytes);
  };
}

function cleanElement(table: MarkTable, bytes: Buffer): Buffer {
  const from = bytes.indexOf("{");
  return from < 0 ? bytes : cleanSpan(table, bytes, from, bytes.lastIndexOf("}") + 1);
}

/**
 * Cleans an event's single data line, and removes comments that name the service; JSON over several lines does not occur in
 * practice, and passes.
 */
function cleanEvent(table: MarkTable, bytes: Buffer, ping: Buffer): Buffer {
  const kept: Buffer[] = [];
  let from = 0;
  let data: [from: number, to: number] | undefined;
  for (let at = 0, end = 0; at < bytes.length; at = end + 1) {
    end = at;
    while (end < bytes.length && bytes[end] !== LF && bytes[end] !== CR) end++;
    const line = bytes.subarray(at, end);
    if (line[0] === COLON && table.comments.some((text) => line.includes(text))) {
      kept.push(bytes.subarray(from, at));
      if (bytes[end] === CR && bytes[end + 1] === LF) end++;
      from = end + 1;
    } else if (line.subarray(0, DATA.length).equals(DATA)) data ??= [at + DATA.length, end];
  }
  if (!data) return kept.length > 0 ? ping : bytes;
  if (kept.length === 0) return cleanSpan(table, bytes, ...data);
  return cleanEvent(table, Buffer.concat([...kept, bytes.subarray(from)]), ping);
}

/** Removes the marks from the JSON object between two positions; returns the same bytes where there are none. */
function cleanSpan(table: MarkTable, bytes: Buffer, from: number, to: number): Buffer {
  let start = from;
  while (start < to && (bytes[start] as number) <= 0x20) start++;
  let end = to;
  while (end > start && (bytes[end - 1] as number) <= 0x20) end--;
  const json = bytes.subarray(start, end);
  if (!table.answerNames.some((name) => json.includes(name))) return bytes;
  try {
    const cleaned = table.answerBody.inObject(json, () => true).bytes;
    return cleaned === json ? bytes : Buffer.concat([bytes.subarray(0, start), cleaned, bytes.subarray(end)]);
  } catch {
    // Not JSON: it has no marks.
    return bytes;
  }
}
