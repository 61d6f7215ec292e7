import { setTimeout as sleep } from "node:timers/promises";
import { UsageError } from "../text/format-error.ts";
import { formatTable, groupDigits } from "../text/table.ts";
import { ADMIN_OPTIONS, type AdminEndpoint, askAdmin, selectAdmin } from "./admin-client.ts";
import { parseVerbArguments, printJson, type Terminal } from "./verb.ts";

const OPTIONS = { ...ADMIN_OPTIONS, once: { type: "boolean" } } as const;

/** The fields shown of a live request, as in docs/admin-api.md. */
interface LiveLine {
  id: string;
  /** Milliseconds. */
  age: number;
  name?: string;
  key?: string;
  model?: string;
  target?: string;
  state: string;
  tokens?: number;
}

/** Milliseconds between polls. */
const POLL_INTERVAL = 500;

/** Runs the verb `top`. Returns the exit code. @param signal ends it @throws UsageError */
export async function runTop(
  args: readonly string[],
  io: Terminal,
  usual: AdminEndpoint | string | undefined,
  signal = new AbortController().signal,
): Promise<number> {
  const { values } = parseVerbArguments(args, OPTIONS);
  const admin = selectAdmin(values.admin, usual, io.folder);
  if (!admin)
    throw new UsageError(
      "admin: is off in gateway.yaml: without the admin listener the running requests are not known.",
    );
  while (!signal.aborted) {
    const answer = await askAdmin(admin, values.token, io, "/api/live");
    if (!answer) return 1;
    const { requests: live } = answer as { requests: LiveLine[] };
    if (values.json) {
      printJson(live, io);
      return 0;
    }
    if (!values.once) io.clear?.();
    io.out([`${live.length} running`, ...liveTable(live, values.once ? undefined : io.rows)].join("\n"));
    if (values.once) return 0;
    await sleep(POLL_INTERVAL, undefined, { signal }).catch(() => {});
  }
  return 0;
}

/** Lines of the screen besides those of requests: the number, the titles, how many more there are, and the cursor's. */
const OTHER_LINES = 4;

/** @param screen lines of the screen, whose end would hide the beginning; undefined: all are shown */
function liveTable(live: readonly LiveLine[], screen = Number.POSITIVE_INFINITY): string[] {
  if (live.length === 0) return [];
  const shown = live.slice(0, Math.max(1, screen - OTHER_LINES));
  const more = live.length - shown.length;
  const rows = shown.map(({ age, name, key, model, target, state, tokens, id }) => [
    `${(age / 1000).toFixed(1)} s`,
    name ?? key ?? "-",
    model ?? "-",
    target ?? "-",
    state,
    tokens === undefined ? "-" : groupDigits(tokens),
    id,
  ]);
  const titles = [{ right: "AGE" }, "KEY", "MODEL", "TARGET", "STATE", { right: "TOKENS" }, "ID"];
  return [...formatTable(titles, rows), ...(more > 0 ? [`and ${groupDigits(more)} younger ones`] : [])];
}
