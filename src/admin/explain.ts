import { execFile } from "node:child_process";
import { fileURLToPath } from "node:url";
import { z } from "zod";
import { ConfigError, type Problem } from "../config/problems.ts";
import type { AdminGateway } from "./admin-gateway.ts";
import { AdminError } from "./errors.ts";
import { type AdminHandler, parseBody } from "./route.ts";

const VERB = fileURLToPath(new URL("../cli/arguments-from-stdin.ts", import.meta.url));
const LOADER = new URL("../loader/register.js", import.meta.url).href;
/** Timeout in milliseconds, and limit of explanations at a time. */
const TIMEOUT = 30_000;
const MAX_RUNNING = 2;
let running = 0;

/** The request to explain. */
export const ExplainSchema = z.strictObject({
  path: z.string().regex(/^(?:[A-Z]+:)?\/\S*$/, "a path starts with /"),
  model: z.string().min(1).max(200).optional(),
  key: z.string().min(1).max(100).optional(),
  // A value that begins with @ would be a file name for the verb.
  body: z.string().max(60_000).regex(/^[^@]/, "must be JSON").optional(),
  address: z.string().max(60).optional(),
});

/**
 * Explains a request with the verb `explain`, which runs in a separate process on the current file, so that nothing in the
 * serving processes is touched.
 */
export const handleExplain: AdminHandler = async ({ config, stores }, { body }) => {
  const input = parseBody(ExplainSchema, body);
  if (running >= MAX_RUNNING)
    throw new AdminError("too_many", `${MAX_RUNNING} explanations are being made: ask again in a second.`);
  running++;
  try {
    const [explained, key] = await Promise.all([runExplain(config.file, input), keyName(input.key, stores)]);
    return { body: { ...explained, ...(key !== undefined && { key }) } };
  } finally {
    running--;
  }
};

/** Returns the name of a key that is given by its name, its id or the key itself. */
async function keyName(key: string | undefined, { keys }: AdminGateway["stores"]): Promise<string | undefined> {
  if (key === undefined) return undefined;
  const record = await keys
    .show(key)
    .then((found) => found ?? keys.find(key))
    .catch(() => undefined);
  return record?.name;
}

/** @throws AdminError with the verb's message about the request */
function runExplain(file: string, { path, ...asked }: z.output<typeof ExplainSchema>): Promise<object> {
  const options = Object.entries(asked).map(([name, value]) => `--${name}=${value}`);
  const args = ["explain", "--config", file, "--json", ...options, "--", path];
  // Options of this process, like a debugger's port, must not apply to the child.
  const settings = { env: { ...process.env, NODE_OPTIONS: "" }, timeout: TIMEOUT, maxBuffer: 2 ** 24 };
  return new Promise((resolve, reject) => {
    const child = execFile(process.execPath, ["--import", LOADER, VERB], settings, (_error, stdout, stderr) => {
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
    child.stdin?.on("error", () => {}).end(JSON.stringify(args));
  });
}
