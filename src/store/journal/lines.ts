import { isAscii } from "node:buffer";
import { closeSync, fstatSync, openSync, readSync } from "node:fs";
import { setImmediate } from "node:timers/promises";
import { LF } from "../../wire/grammar.ts";
import { asObject, parseJson } from "../../wire/values.ts";
import { journalPosition, placeOpenRows } from "../journal-place.ts";
import type { LedgerSpan } from "../ledger.ts";
import { rowTime, type UsageRow } from "../ledger-row.ts";
import type { CreatedObject } from "../object-rows.ts";
import { filesToRead, journalFileNumber, listJournals, wasTouched } from "./files.ts";
import { BEGUN_PREFIX, type JournalLine, lineToRow, type RowLine } from "./journal.ts";

/** Bytes per read: some hundred rows. */
const READ_BYTES = 256 * 1024;
/** Maximum bytes of a journal line. */
const MAX_LINE = 64 * 1024 * 1024;

/** A line of a journal without its end, and the bytes of its file before it and after it. */
interface LineText {
  readonly text: string;
  readonly from: number;
  readonly to: number;
}

/** Consecutive lines, and the bytes of their file before whatever follows them. */
interface LineTexts {
  readonly lines: readonly LineText[];
  readonly to: number;
}

/**
 * Yields the complete lines of a file, some hundred at a time; an incomplete last line is skipped. A missing file has no lines.
 * @param skipsBegun leaves out the lines of exchanges that have begun
 * @throws the system's error for an existing file that cannot be read
 */
export function* readLines(file: string, from: number, to: number, skipsBegun = false): Generator<LineTexts> {
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
      const whole = bytes.subarray(0, read).lastIndexOf(LF) + 1;
      if (whole === 0 && (read < room || room > MAX_LINE)) return;
      // The line is longer than the buffer.
      room = whole === 0 ? room * 2 : READ_BYTES;
      if (whole === 0) continue;
      const lines = splitLines(bytes.subarray(0, whole), position, skipsBegun);
      position += whole;
      yield { lines, to: position };
    }
  } finally {
    closeSync(fd);
  }
}

/** @param position of the first byte in the file */
function splitLines(bytes: Buffer, position: number, skipsBegun: boolean): LineText[] {
  // One character for each byte: to search and slice these takes a fraction of what it takes in bytes.
  const characters = bytes.toString("latin1");
  const decodes = !isAscii(bytes);
  const lines: LineText[] = [];
  for (let at = 0; at < bytes.length; ) {
    const end = characters.indexOf("\n", at);
    if (!skipsBegun || !isBegun(bytes, at)) {
      const text = decodes ? bytes.toString("utf8", at, end) : characters.slice(at, end);
      lines.push({ text, from: position + at, to: position + end + 1 });
    }
    at = end + 1;
  }
  return lines;
}

const BEGUN = Buffer.from(BEGUN_PREFIX);

function isBegun(bytes: Buffer, at: number): boolean {
  for (let i = 0; i < BEGUN.length; i++) if (bytes[at + i] !== BEGUN[i]) return false;
  return true;
}

/** Parses a line of a journal; undefined if it is invalid. */
export function parseJournalLine(text: string): JournalLine | undefined {
  const line = parseJson(text);
  return isLine(line) ? line : undefined;
}

/** Maximum remembered kinds, and attributions. */
const MAX_SHARED = 10_000;
/** What the line of an ended exchange begins and ends with. */
const ENDED = `["ended",[`;
const END = "]]";

/** A part of a line that many lines share, and the cells that it has. */
interface LinePart<Cells> {
  readonly text: string;
  readonly cells: Cells;
}

const NO_ATTRIBUTION: LinePart<undefined> = { text: END, cells: undefined };

/** Parses many lines: what stands in front of a row's values and behind them, which rows share, is parsed once. */
export class JournalLineParser {
  private readonly kinds = new LineParts<UsageRow["kind"]>();
  private readonly attributions = new LineParts<NonNullable<UsageRow["attribution"]>>();

  /** Parses a line of a journal; undefined if it is invalid. */
  parse(text: string): JournalLine | undefined {
    const found = this.parseValues(text);
    if (found) return found;
    const line = parseJournalLine(text);
    if (!line || line[0] === "made") return line;
    const [kind, , attribution] = line[1];
    // Serialized anew: a part of a line would keep all of it in memory.
    this.kinds.remember({ text: `${ENDED}${JSON.stringify(kind)},`, cells: kind });
    if (attribution) this.attributions.remember({ text: `,${JSON.stringify(attribution)}${END}`, cells: attribution });
    return line;
  }

  /** Parses what is between known parts: if that is JSON, so is the line. Undefined if it is not, or if a part is not known. */
  private parseValues(text: string): RowLine | undefined {
    const kind = this.kindOf(text);
    const attribution = kind && this.attributionOf(text, kind.text.length);
    if (!attribution) return undefined;
    const values = parseJson(text.slice(kind.text.length, -attribution.text.length));
    if (!Array.isArray(values)) return undefined;
    return ["ended", attribution.cells ? [kind.cells, values, attribution.cells] : [kind.cells, values]];
  }

  private kindOf(text: string): LinePart<UsageRow["kind"]> | undefined {
    const { last } = this.kinds;
    // Not `startsWith`, which compares one character after another.
    if (last && text.slice(0, last.text.length) === last.text) return last;
    return this.kinds.get(text.slice(0, text.indexOf(`],["`) + 2));
  }

  private attributionOf(text: string, valuesAt: number): LinePart<UsageRow["attribution"]> | undefined {
    const { last } = this.attributions;
    if (last && text.slice(-last.text.length) === last.text) return last;
    const at = text.lastIndexOf("],[") + 1;
    if (at > valuesAt) return this.attributions.get(text.slice(at));
    return text.endsWith(END) ? NO_ATTRIBUTION : undefined;
  }
}

/** Parts that many lines share, by their texts. */
class LineParts<Cells> {
  private readonly known = new Map<string, LinePart<Cells>>();
  /** That of the last row, which most rows share: V8 first puts a text that is looked up in a map into its table of all texts. */
  last: LinePart<Cells> | undefined;

  get(text: string): LinePart<Cells> | undefined {
    const found = this.known.get(text);
    if (found) this.last = found;
    return found;
  }

  remember(part: LinePart<Cells>): void {
    if (this.known.size >= MAX_SHARED) this.known.clear();
    this.known.set(part.text, part);
  }
}

/** Reports whether a JSON value is a journal line: after a power cut a file may contain anything. */
function isLine(json: unknown): json is JournalLine {
  if (!Array.isArray(json)) return false;
  const [kind, row, name = "", counted = row] = json;
  if (kind === "made") return isCreatedObject(row);
  return isRow(row) && typeof name === "string" && isRow(counted);
}

function isCreatedObject(json: unknown): boolean {
  const { id, provider, key, group = "", model = "", credential = "", time } = asObject(json) ?? {};
  return (
    [id, provider, key, group, model, credential].every((text) => typeof text === "string") &&
    Number.isSafeInteger(time)
  );
}

function isRow(json: unknown): boolean {
  if (!Array.isArray(json)) return false;
  const [kind, values, attribution = []] = json;
  return [kind, values, attribution].every((cells) => Array.isArray(cells));
}

/** The content of a folder's journals. */
export interface JournalContent {
  /** Rows of exchanges that have ended, and of open ones. */
  readonly ended: readonly UsageRow[];
  readonly open: readonly UsageRow[];
  readonly objects: readonly CreatedObject[];
}

/**
 * Reads all journals of a folder, of any process, in many turns of the event loop: after hours without a store they are large.
 * @param span of the rows to return
 */
export async function readJournals(
  folder: string,
  { since = 0, until = Number.POSITIVE_INFINITY }: LedgerSpan = {},
): Promise<JournalContent> {
  const ended = new Map<unknown, UsageRow>();
  const opened: UsageRow[] = [];
  const objects: CreatedObject[] = [];
  for (const journal of listJournals(folder)) {
    const { name } = journal;
    const open = new Map<unknown, UsageRow>();
    let end = 0;
    for (const file of filesToRead(journal)) {
      const number = journalFileNumber(file);
      end = journalPosition(number, 0);
      // A row is written after its exchange has begun.
      if (!wasTouched({ name, files: [file] }, since)) continue;
      for (const { lines } of readLines(file, 0, Number.POSITIVE_INFINITY)) {
        for (const { text, from, to } of lines) {
          end = journalPosition(number, to);
          const line = parseJournalLine(text);
          if (!line) continue;
          if (line[0] === "made") {
            objects.push(line[1]);
            continue;
          }
          const row = lineToRow(line);
          const id = row.values[0];
          const time = rowTime(row);
          if (time < since || time >= until) continue;
          if (line[0] === "begun") open.set(id, row);
          else {
            open.delete(id);
            ended.set(id, { ...row, place: { journal: name, from: journalPosition(number, from), to: end } });
          }
        }
        await setImmediate();
      }
    }
    for (const row of placeOpenRows(open.values(), name, end)) opened.push(row);
  }
  return { ended: [...ended.values()], open: opened.filter(({ values: [id] }) => !ended.has(id)), objects };
}
