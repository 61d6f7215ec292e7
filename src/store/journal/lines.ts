import { closeSync, fstatSync, openSync, readSync } from "node:fs";
import { asObject } from "../../wire/values.ts";
import type { UsageRow } from "../ledger-row.ts";
import type { CreatedObject } from "../object-rows.ts";
import { listJournals } from "./files.ts";
import { type JournalLine, lineToRow } from "./journal.ts";

/** Bytes per read: some hundred rows. */
const READ_BYTES = 256 * 1024;
/** Maximum bytes of a journal line. */
const MAX_LINE = 64 * 1024 * 1024;

/** Lines of a journal, and the position after them. */
interface LineChunk {
  readonly text: string;
  readonly end: number;
}

/**
 * Yields the complete lines of a file, some hundred at a time; an incomplete last line is skipped. A missing file has no lines.
 * @throws the system's error for an existing file that cannot be read
 */
export function* readLines(file: string, from: number, to: number): Generator<LineChunk> {
  let fd: number;
  try {
    fd = openSync(file, "r");
  } catch (thrown) {
    if ((thrown as NodeJS.ErrnoException).code === "ENOENT") return;
    throw thrown;
  }
  try {
    const end = Math.min(to, fstatSync(fd).size);
    let position = from;
    let room = READ_BYTES;
    while (position < end) {
      const bytes = Buffer.allocUnsafe(Math.min(room, end - position));
      const read = readSync(fd, bytes, 0, bytes.length, position);
      const whole = bytes.subarray(0, read).lastIndexOf(10) + 1;
      if (whole === 0 && (read < room || room > MAX_LINE)) return;
      // The line is longer than the buffer.
      room = whole === 0 ? room * 2 : READ_BYTES;
      if (whole === 0) continue;
      position += whole;
      yield { text: bytes.toString("utf8", 0, whole), end: position };
    }
  } finally {
    closeSync(fd);
  }
}

/** Parses a line of a journal; undefined if it is invalid. */
export function parseJournalLine(text: string): JournalLine | undefined {
  if (text === "") return undefined;
  try {
    const line: unknown = JSON.parse(text);
    return isLine(line) ? line : undefined;
  } catch {
    return undefined;
  }
}

/** Reports whether a JSON value is a journal line: after a power cut a file may contain anything. */
function isLine(json: unknown): json is JournalLine {
  if (!Array.isArray(json)) return false;
  if (json[0] === "made") return isCreatedObject(json[1]);
  return [json[1], ...(json[3] === undefined ? [] : [json[3]])].every(isRow);
}

function isCreatedObject(json: unknown): boolean {
  const { id, provider, key, group = "", model = "", time } = asObject(json) ?? {};
  return [id, provider, key, group, model].every((text) => typeof text === "string") && Number.isSafeInteger(time);
}

const isRow = (json: unknown): boolean => Array.isArray(json) && Array.isArray(json[0]) && Array.isArray(json[1]);

/** The content of a folder's journals. */
export interface JournalContent {
  /** Rows of exchanges that have ended, and of open ones. */
  readonly ended: readonly UsageRow[];
  readonly open: readonly UsageRow[];
  readonly objects: readonly CreatedObject[];
}

/** Reads all journals of a folder, of any process. */
export function readJournals(folder: string): JournalContent {
  const ended = new Map<unknown, UsageRow>();
  const open = new Map<unknown, UsageRow>();
  const objects: CreatedObject[] = [];
  for (const { files } of listJournals(folder))
    for (const file of files)
      for (const { text } of readLines(file, 0, Number.POSITIVE_INFINITY))
        for (const written of text.split("\n")) {
          const line = parseJournalLine(written);
          if (!line) continue;
          if (line[0] === "made") {
            objects.push(line[1]);
            continue;
          }
          const row = lineToRow(line);
          (line[0] === "begun" ? open : ended).set(row.values[0], row);
        }
  for (const id of ended.keys()) open.delete(id);
  return { ended: [...ended.values()], open: [...open.values()], objects };
}
