import { type Peers, type QuestionHandlers, question } from "../core/peers.ts";
import type { StoreSnapshot, Stores } from "../store/open.ts";

/** What a worker knows about a database that is unreachable; the primary answers for all of its workers. */
const KNOWN_STORE = question<null, StoreSnapshot | null>("store known");

/** Makes a worker answer with what it knows. */
export function registerKnownStore(answers: QuestionHandlers, stores: Pick<Stores, "snapshot">): void {
  answers.set(KNOWN_STORE, () => stores.snapshot() ?? null);
}

/** Makes a primary answer with what its workers know. @param askAll as `Primary.askAll` */
export function registerMergedKnownStore(
  answers: QuestionHandlers,
  askAll: (question: typeof KNOWN_STORE, payload: null) => Promise<(StoreSnapshot | null)[]>,
): void {
  answers.set(KNOWN_STORE, async () => mergeKnownStores(await askAll(KNOWN_STORE, null)) ?? null);
}

/** Asks the other workers; undefined where none of them knows anything. */
export const askKnownStore = async (peers: Peers): Promise<StoreSnapshot | undefined> =>
  (await peers.ask(KNOWN_STORE, null).catch(() => null)) ?? undefined;

/**
 * Merges what several workers know: each key in its latest version, the groups of the worker that heard last, and the age of the
 * worker that has lacked the database longest.
 */
function mergeKnownStores(all: readonly (StoreSnapshot | null)[]): StoreSnapshot | undefined {
  const known = all.filter((each) => each !== null);
  const [first] = known;
  if (!first) return undefined;
  const keys = known.map((each) => each.keys);
  const rows = new Map<unknown, StoreSnapshot["keys"]["rows"][number]>();
  for (const row of keys.flatMap((each) => each.rows)) {
    const other = rows.get(row["id"]);
    if (!other || Number(other["changed"]) < Number(row["changed"])) rows.set(row["id"], row);
  }
  const seen = Math.min(...keys.map((each) => each.seen));
  const age = Math.max(...keys.map((each) => each.age));
  const [{ groups = [] } = {}] = keys.toSorted((one, other) => one.age - other.age);
  return { ...first, keys: { seen, age, rows: [...rows.values()], groups } };
}
