import { HOUR } from "../store/ledger-sums.ts";
import type { AdminGateway } from "./admin-gateway.ts";
import { speedFields } from "./overview.ts";

/** Rows from which the gateway's overhead is computed. */
const MAX_SAMPLED_ROWS = 200;

/** Returns the last hour's data for the console's first page besides figures: failures, speeds, and the gateway's overhead. */
export async function lastHour({ stores: { ledger } }: AdminGateway): Promise<object> {
  const time = Date.now();
  const span = { since: time - HOUR, until: time + 1 };
  const [{ exchanges: errors, attempts }, models, targets, newest] = await Promise.all([
    ledger.failures(span),
    ledger.speeds(span, "model"),
    ledger.speeds(span, "target"),
    ledger.search({ ...span, limit: MAX_SAMPLED_ROWS }),
  ]);
  const own = newest.flatMap(({ attempts: [first] }) => first?.startedAt ?? []).sort((a, b) => a - b);
  return {
    errors,
    attempts,
    models: models.map(speedFields),
    targets: targets.map(speedFields),
    overhead: overheadPercentiles(own),
  };
}

/** Returns percentiles of the time from the head of a request to its first attempt. @param sorted milliseconds */
function overheadPercentiles(sorted: readonly number[]): object | undefined {
  if (sorted.length === 0) return undefined;
  const at = (part: number) => sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * part))];
  return { p50: at(0.5), p95: at(0.95), count: sorted.length };
}
