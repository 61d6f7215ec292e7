import type { Config } from "./config/types.ts";
import { Calendar } from "./core/calendar.ts";
import type { Log } from "./core/log.ts";
import type { Peers } from "./core/peers.ts";
import type { Ledger } from "./store/ledger.ts";
import type { Limiter } from "./store/limiter.ts";
import { MemoryLimiter } from "./store/memory-limiter.ts";
import { findCharges } from "./store/orphan-charges.ts";
import { OrphanWatch } from "./store/orphan-watch.ts";
import { openRedisLimiter } from "./store/redis/limiter.ts";
import { earlierCounts, ledgerFlusher, placedSpendSince, spendSince } from "./store/spend.ts";
import { SharedLimiter } from "./workers/shared-limiter.ts";
import { warnOnce } from "./workers/shared-warnings.ts";

/**
 * Returns the limiter of this process, for `store: limits` of gateway.yaml.
 * @throws Error where limits are counted in a server that does not respond
 */
export async function openLimiter(
  { store: { limits: url }, timezone, instances }: Config,
  ledger: Ledger,
  log: Log,
  processes: number,
  peers?: Peers,
): Promise<Limiter> {
  const warn = (message: string) => log.warn({}, message);
  const calendar = new Calendar(timezone);
  if (url === "memory") return peers ? new SharedLimiter(peers) : watchedLimiter(ledger, calendar, warn);
  const info = (message: string) => log.info({}, message);
  // Each worker of each gateway counts there separately.
  const most = instances === undefined ? {} : { instances: instances * processes };
  const known = {
    spentSince: placedSpendSince(ledger),
    place: () => ledger.place,
    findCharges: findCharges(ledger),
    flushLedger: ledgerFlusher(ledger),
  };
  const limiter = await openRedisLimiter(url, { ...known, calendar, warn, info, ...most });
  const report = peers ? warnOnce(peers) : warn;
  void limiter.evictionWarning().then((warning) => warning !== undefined && report(warning));
  return limiter;
}

/** Returns a limiter of this process alone, which also counts what former processes still run. */
function watchedLimiter(ledger: Ledger, calendar: Calendar, warn: (message: string) => void): MemoryLimiter {
  const spentSince = spendSince(ledger);
  const limiter = new MemoryLimiter((since) => orphans.readSums(() => spentSince(since)), calendar, warn);
  const orphans = new OrphanWatch(limiter, {
    findCharges: findCharges(ledger),
    findOrphaned: () => ledger.orphanedElsewhere(),
    isShared: () => ledger.isShared(),
  });
  limiter.earlier = earlierCounts(() => ledger);
  limiter.onClose = () => orphans.close();
  return limiter;
}
