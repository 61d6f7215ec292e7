import { request } from "node:http";
import { setTimeout as sleep } from "node:timers/promises";
import type { AdminAddress } from "../config/types.ts";
import { table, thousands } from "./table.ts";
import { argumentsOf, COMMAND, Misuse, type Terminal } from "./verb.ts";

/** The line of the overall help. */
export const help = "top [--once] [--json]        show live requests: age, key, model, tokens so far";

/** What `--help` behind the verb prints. */
export const USAGE = `usage: ${COMMAND} top [--token TOKEN] [--once] [--json]

Shows what runs in the gateway of this gateway.yaml, twice a second, the oldest first; asks its admin side.

  --token TOKEN   admin or viewer token, where the admin side has one; absent: the variable ADMIN_TOKEN
  --once          shows it once, and ends
  --json          prints JSON, once

Exit codes: 0 shown, 1 the admin side does not answer, 2 not understood.`;

const OPTIONS = { token: { type: "string" }, once: { type: "boolean" }, json: { type: "boolean" } } as const;

/** What is shown of a live request, as docs/admin-api.md has it. */
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

/** Milliseconds between two looks. */
const LOOK = 500;
const CLEAR = "\u001b[H\u001b[2J";

/** The verb `top`. Answers the exit code. @param signal ends it @throws Misuse */
export async function run(
  args: readonly string[],
  io: Terminal,
  admin: AdminAddress | undefined,
  signal = new AbortController().signal,
): Promise<number> {
  const { values } = argumentsOf(args, OPTIONS);
  if (!admin) throw new Misuse("admin: is off in gateway.yaml: nobody can be asked what runs.");
  const token = values.token ?? io.env["ADMIN_TOKEN"];
  while (!signal.aborted) {
    let live: LiveLine[];
    try {
      live = await liveAt(admin, token);
    } catch (thrown) {
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

/** @throws Error in words */
function liveAt(admin: AdminAddress, token: string | undefined): Promise<LiveLine[]> {
  const where = "path" in admin ? { socketPath: admin.path } : { host: admin.host, port: admin.port };
  const name = "path" in admin ? admin.path : `${admin.host}:${admin.port}`;
  const headers = { host: "localhost", ...(token !== undefined && { authorization: `Bearer ${token}` }) };
  return new Promise((done, failed) => {
    const asked = request({ ...where, path: "/api/live", headers, timeout: 5000 }, (answer) => {
      let text = "";
      answer.setEncoding("utf8").on("data", (more: string) => (text += more));
      answer.on("end", () => {
        if (answer.statusCode === 401) failed(new Error(`${name} wants a token: --token, or the variable ADMIN_TOKEN`));
        else if (answer.statusCode !== 200)
          failed(new Error(`${name} answers ${answer.statusCode}: ${text.trim().slice(0, 200)}`));
        else done((JSON.parse(text) as { requests: LiveLine[] }).requests);
      });
    });
    asked.on("timeout", () => asked.destroy(new Error("it did not answer within 5 s")));
    asked.on("error", (error: NodeJS.ErrnoException) =>
      failed(
        new Error(
          error.code === "ECONNREFUSED" || error.code === "ENOENT"
            ? `no gateway answers at ${name}: does it run?`
            : `${name}: ${error.message}`,
        ),
      ),
    );
    asked.end();
  });
}
