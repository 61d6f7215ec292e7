import { readFileSync } from "node:fs";
import { request } from "node:http";
import { join } from "node:path";
import { unreadable } from "../config/load.ts";
import { ConfigError } from "../config/problems.ts";
import { reveal, whyNot } from "../config/secrets.ts";
import type { AdminAddress } from "../config/types.ts";
import { adminAddress } from "../config/values.ts";
import { Misuse } from "../text/reason.ts";
import { BUNDLED, type VerbPlace } from "./verb.ts";

/** Milliseconds that an answer may take; a reload builds all plugins. */
const PATIENCE = 70_000;

/** What says in which ways one gets in, to everybody. */
const SESSION = "/api/session";

/** What the admin side has answered. */
export interface AdminReply {
  readonly status: number;
  readonly body: unknown;
}

/** Where the admin side is. */
export type AskedAdmin = AdminAddress & {
  /** Why gateway.yaml could not say so: the usual place is a guess. */
  readonly unknown?: ConfigError;
};

/**
 * Asks the admin side of a gateway of this machine.
 * @param token admin or viewer token, where it has one
 * @param sent what is sent along, as JSON
 * @throws Error in words, where it does not answer, or refuses; ConfigError where the file that should say who is asked is to blame
 */
export function askAdmin(
  admin: AskedAdmin,
  token: string | undefined,
  path: string,
  method: "GET" | "POST" = "GET",
  sent?: object,
): Promise<AdminReply> {
  const where = "path" in admin ? { socketPath: admin.path } : { host: hostOf(admin.host), port: admin.port };
  const name = "path" in admin ? admin.path : `${admin.host}:${admin.port}`;
  const headers = {
    host: "localhost",
    ...(token !== undefined && { authorization: `Bearer ${token}` }),
    ...(sent && { "content-type": "application/json" }),
  };
  return new Promise((done, failed) => {
    const asked = request({ ...where, path, method, headers, timeout: PATIENCE }, (answer) => {
      let text = "";
      answer.setEncoding("utf8").on("data", (more: string) => (text += more));
      answer.on("error", failed).on("end", () => {
        const { statusCode: status = 0 } = answer;
        if (status === 401 && path !== SESSION) void refusal(admin, name, token).then(failed);
        else if (status !== 200 && status !== 422)
          failed(new Error(`${name} answers ${status}: ${text.trim().slice(0, 200)}`));
        else done({ status, body: JSON.parse(text) });
      });
    });
    asked.on("timeout", () => asked.destroy(new Error(`it did not answer within ${PATIENCE / 1000} s`)));
    asked.on("error", (error: NodeJS.ErrnoException) => failed(why(error, name, admin.unknown)));
    asked.end(sent && JSON.stringify(sent));
  });
}

/** Why a request without a token, or with that one, is not answered. */
async function refusal(admin: AskedAdmin, name: string, token: string | undefined): Promise<Error> {
  const ways: unknown = await askAdmin(admin, undefined, SESSION).then(
    ({ body }) => (body as { sign_in?: unknown } | null)?.sign_in,
    () => undefined,
  );
  if (Array.isArray(ways) && !ways.includes("token"))
    return new Error(
      `${name} knows no token, as only people sign in there (admin: oidc): add token: to admin: in gateway.yaml, and reload it with kill -HUP`,
    );
  return new Error(
    token === undefined
      ? `${name} wants a token: --token, or the variable ADMIN_TOKEN`
      : `${name} refuses this token: is it that of admin: in the gateway.yaml that runs? It is taken from --token, or else from the variable ADMIN_TOKEN`,
  );
}

function why(error: NodeJS.ErrnoException, name: string, unknown: ConfigError | undefined): Error {
  if (error.code !== "ECONNREFUSED" && error.code !== "ENOENT") return new Error(`${name}: ${error.message}`);
  if (!unknown)
    return new Error(
      `no gateway answers at ${name}: does it run? One that was started with another admin: is asked with --admin ADDRESS`,
    );
  return new ConfigError(
    unknown.problems,
    `So the gateway's admin side is not known: the default ${name} was asked, where none answers. Say which with --admin ADDRESS.`,
  );
}

/** Who listens on all addresses is reached on this machine's own. */
const hostOf = (host: string): string => (host === "0.0.0.0" || host === "::" ? "127.0.0.1" : host);

/** The lines of a verb's help on whom it asks. */
export const ADMIN_HELP = `  --admin ADDRESS the admin side of the gateway that runs, like 127.0.0.1:9090 or unix:FILE, where gateway.yaml does not say it any more
  --token TOKEN   `;

/** The admin side that the command line names, or the one of gateway.yaml. @throws Misuse where that cannot be read either */
export function adminOf(
  named: string | undefined,
  usual: AskedAdmin | string | undefined,
  folder: string,
): AskedAdmin | undefined {
  if (typeof usual === "string" && named === undefined)
    throw new Misuse(`admin: in gateway.yaml: ${usual}. Or say where it is with --admin ADDRESS.`);
  if (named === undefined) return usual as AskedAdmin | undefined;
  const address = adminAddress(named, folder);
  if (typeof address === "string") throw new Misuse(`--admin: ${address}`);
  return address;
}

/**
 * Where the admin side is, as far as a gateway.yaml tells that may be broken: the gateway that runs is asked about it.
 * Undefined: it is off. A text: why it cannot be known.
 */
export function adminIn(place: VerbPlace, env: NodeJS.ProcessEnv): AskedAdmin | string | undefined {
  const { folder } = place;
  // What came along is nobody's own: the folder's file is gone.
  const file = place.file === BUNDLED && !place.named ? join(folder, "gateway.yaml") : place.file;
  let text = "";
  try {
    text = readFileSync(file, "utf8");
  } catch {
    // The usual place.
  }
  const [, short, inBraces, below] =
    /^admin:[ \t]*(?:["']?([^\s{#"'][^\s#"']*)|\{[^}\n]*?\blisten:[ \t]*["']?([^\s,}"']+)|(?:#[^\n]*)?\n(?:[ \t]+[^\n]*\n)*?[ \t]+listen:[ \t]*["']?([^\s#"']+))/m.exec(
      `${text}\n`,
    ) ?? [];
  const written = short ?? inBraces ?? below;
  if (written === undefined) {
    const unknown = unreadable(file);
    return { host: "127.0.0.1", port: 9090, ...(unknown && { unknown }) };
  }
  const found = reveal(written, env, folder);
  if (!("value" in found)) return whyNot(found);
  return found.value === "off" ? undefined : adminAddress(found.value, folder);
}
