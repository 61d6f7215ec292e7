import { setTimeout as sleep } from "node:timers/promises";
import { ConfigError } from "../config/problems.ts";
import { Misuse } from "../text/reason.ts";
import { table, thousands } from "../text/table.ts";
import { type AskedAdmin, adminOf, askAdmin } from "./admin-client.ts";
import { argumentsOf, type Terminal } from "./verb.ts";

const OPTIONS = {
  admin: { type: "string" },
  token: { type: "string" },
  once: { type: "boolean" },
  json: { type: "boolean" },
} as const;

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
const LOOK = 500;
const CLEAR = "\u001b[H\u001b[2J";

/** Runs the verb `top`. Returns the exit code. @param signal ends it @throws Misuse */
export async function run(
  args: readonly string[],
  io: Terminal,
  usual: AskedAdmin | string | undefined,
  signal = new AbortController().signal,
): Promise<number> {
  const { values } = argumentsOf(args, OPTIONS);
  const admin = adminOf(values.admin, usual, io.folder);
  if (!admin) throw new Misuse("admin: is off in gateway.yaml: nobody can be asked what runs.");
  const token = values.token ?? io.env["ADMIN_TOKEN"];
  while (!signal.aborted) {
    let live: LiveLine[];
    try {
      live = await liveAt(admin, token);
    } catch (thrown) {
      if (thrown instanceof ConfigError) throw thrown;
      io.err((thrown as Error).message);
      return 1;
    }
    if (values.json) {
      io.out(JSON.stringify(live, undefined, 2));
      return 0;
    }
    io.out([...(values.once ? [] : [CLEAR]), `${live.length} running`, ...shown(live)].join("\n"));
    if (values.once) return 0;
    await sleep(LOOK, undefined, { signal }).catch(() => {});
  }
  return 0;
}

function shown(live: readonly LiveLine[]): string[] {
  if (live.length === 0) return [];
  const columns = [{ title: "AGE", right: true }, ...["KEY", "MODEL", "TARGET", "STATE"].map((title) => ({ title }))];
  const rows = live.map(({ age, name, key, model, target, state, tokens, id }) => [
    `${(age / 1000).toFixed(1)} s`,
    name ?? key ?? "-",
    model ?? "-",
    target ?? "-",
    state,
    tokens === undefined ? "-" : thousands(tokens),
    id,
  ]);
  return table([...columns, { title: "TOKENS", right: true }, { title: "ID" }], rows);
}

/** @throws Error with a message for people */
async function liveAt(admin: AskedAdmin, token: string | undefined): Promise<LiveLine[]> {
  const { body } = await askAdmin(admin, token, "/api/live");
  return (body as { requests: LiveLine[] }).requests;
}
