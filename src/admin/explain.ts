import { execFile } from "node:child_process";
import { fileURLToPath } from "node:url";
import { z } from "zod";
import { ConfigError, type Problem } from "../config/problems.ts";
import { AdminError } from "./errors.ts";
import { type AdminAct, read } from "./route.ts";
import type { AdminSubject } from "./served.ts";

const MAIN = fileURLToPath(new URL("../main.ts", import.meta.url));
const LOADER = new URL("../loader/register.js", import.meta.url).href;
/** Milliseconds that one may take, and how many run at a time. */
const PATIENCE = 30_000;
const MOST = 2;
let running = 0;

/** What is asked about a request. */
export const ExplainSchema = z.strictObject({
  path: z.string().regex(/^(?:[A-Z]+:)?\/\S*$/, "a path starts with /"),
  model: z.string().min(1).max(200).optional(),
  key: z.string().min(1).max(100).optional(),
  // Behind an @ the verb would take it for the name of a file.
  body: z.string().max(60_000).regex(/^[^@]/, "must be JSON").optional(),
  address: z.string().max(60).optional(),
});

/**
 * What would become of a request, as the verb `explain` tells: it runs in a process of its own on the file as it is now, so
 * that what is asked here touches nothing that serves.
 */
export const explain: AdminAct = async ({ config, stores }, { body }) => {
  const asked = read(ExplainSchema, body);
  if (running >= MOST) throw new AdminError("too_many", `${MOST} explanations are being made: ask again in a second.`);
  running++;
  try {
    const [explained, key] = await Promise.all([verb(config.file, asked), nameOf(asked.key, stores)]);
    return { body: { ...explained, ...(key !== undefined && { key }) } };
  } finally {
    running--;
  }
};

/** The name of a key, which the verb takes by its name, its id or itself. */
async function nameOf(key: string | undefined, { keys }: AdminSubject["stores"]): Promise<string | undefined> {
  if (key === undefined) return undefined;
  const record = await keys
    .show(key)
    .then((found) => found ?? keys.find(key))
    .catch(() => undefined);
  return record?.name;
}

/** @throws AdminError with what the verb says of what was asked */
function verb(file: string, { path, ...asked }: z.output<typeof ExplainSchema>): Promise<object> {
  const options = Object.entries(asked).map(([name, value]) => `--${name}=${value}`);
  const args = ["--import", LOADER, MAIN, "explain", "--config", file, "--json", ...options, "--", path];
  // What was set for this process, like a debugger's port, is not the other's.
  const env = { ...process.env, NODE_OPTIONS: "" };
  return new Promise((resolve, reject) => {
    execFile(process.execPath, args, { env, timeout: PATIENCE, maxBuffer: 2 ** 24 }, (_error, stdout, stderr) => {
      let explained: { problems?: Problem[] };
      try {
        explained = JSON.parse(stdout);
      } catch {
        reject(new AdminError("refused", stderr.split("\n\n")[0]?.trim() || "It could not be explained in time."));
        return;
      }
      const { problems } = explained;
      if (problems) reject(new AdminError("refused", new ConfigError(problems).message, { problems }));
      else resolve(explained);
    });
  });
}
