import type { SqlRunner } from "./sql-runner.ts";

/** How long a value is kept, and the space for all values. */
interface KeepTerms {
  /** From now. */
  readonly milliseconds: number;
  /** Approximate limit for all values of the space; the oldest are removed first. */
  readonly bytes: number;
}

/**
 * Values that plugins keep for a while, by name: of one gateway in its SQLite file, or shared by several through a database.
 * They are a cache: a value may disappear at any time.
 */
export class KeptValues {
  /** Bytes that this process has written since the last check of the total, by space. */
  private readonly bytesSincePrune = new Map<string, number>();

  constructor(private readonly database: SqlRunner) {}

  /**
   * @param space the namespace, like a plugin's name
   * @returns undefined for a missing or expired value
   * @throws Error when the store does not respond
   */
  async get(space: string, name: string): Promise<Buffer | undefined> {
    const [row] = await this.database.query(SELECT, space, name, Date.now());
    const value = row?.["value"];
    return value instanceof Uint8Array ? Buffer.from(value.buffer, value.byteOffset, value.byteLength) : undefined;
  }

  /**
   * Stores a value, replacing that of the same name.
   * @throws RangeError for a value larger than the whole space, Error when the store does not respond
   */
  async set(space: string, name: string, value: Buffer, { milliseconds, bytes }: KeepTerms): Promise<void> {
    if (value.length > bytes) throw new RangeError(`${value.length} bytes are more than the ${bytes} of all values.`);
    const now = Date.now();
    const added = (this.bytesSincePrune.get(space) ?? bytes) + value.length;
    // Computing the total at each write would cost too much.
    const mustPrune = added * 16 > bytes;
    this.bytesSincePrune.set(space, mustPrune ? 0 : added);
    // The stores have whole numbers.
    const until = Math.round(now + milliseconds);
    await this.database.query(INSERT, space, name, now, until, value.length, value);
    if (!mustPrune) return;
    await this.database.query("delete from kept_value where until <= ?", now);
    await this.database.query(DELETE_OLDEST, space, space, Math.floor(bytes));
  }
}

const SELECT = "select value from kept_value where space = ? and name = ? and until > ?";
const INSERT = `insert into kept_value (space, name, time, until, size, value) values (?, ?, ?, ?, ?, ?)
  on conflict (space, name) do update
    set time = excluded.time, until = excluded.until, size = excluded.size, value = excluded.value`;
/** Of one space, beyond so many bytes. */
const DELETE_OLDEST = `delete from kept_value where space = ? and name in (select name from (
    select name, sum(size) over (order by time desc, name) as total from kept_value where space = ?
  ) as sized where total > ?)`;
