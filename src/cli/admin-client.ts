import { readFileSync } from "node:fs";
import { join } from "node:path";
import { readError } from "../config/load.ts";
import { YamlSource } from "../config/positions.ts";
import { ConfigError, type Problem } from "../config/problems.ts";
import { resolveReferences, unresolvedReason } from "../config/references.ts";
import { atPath } from "../config/tree.ts";
import type { AdminAddress } from "../config/types.ts";
import { formatAddress } from "../config/units.ts";
import { parseAdminAddress } from "../config/values.ts";
import { thrownMessage } from "../core/errors.ts";
import { reachableHost } from "../core/networks.ts";
import { request } from "../core/node-http.ts";
import { UsageError } from "../text/format-error.ts";
import { BUNDLED_CONFIG, type ConfigLocation, type Terminal } from "./verb.ts";

/** Response timeout in milliseconds; a reload builds all plugins. */
const TIMEOUT = 70_000;

/** The public path that lists the ways to sign in. */
const SESSION_PATH = "/api/session";

/** Options of the verbs that ask the admin side. */
export const ADMIN_OPTIONS = {
  admin: { type: "string" },
  token: { type: "string" },
  json: { type: "boolean" },
} as const;

/** A response of the admin side. */
interface AdminReply {
  readonly status: number;
  readonly body: unknown;
}

/** The address of the admin side. */
export type AdminEndpoint = AdminAddress & {
  /** Why gateway.yaml does not give it: then the default address is a guess. */
  readonly fileError?: ConfigError;
};

/**
 * Sends a request to the admin side of a gateway on this machine.
 * @param token admin or viewer token, if it needs one
 * @param sent the request body, sent as JSON
 * @throws Error with a message for people if it does not respond or refuses; ConfigError if the file that should name its
 * address is invalid
 */
export function requestAdmin(
  admin: AdminEndpoint,
  token: string | undefined,
  path: string,
  method: "GET" | "POST" = "GET",
  sent?: object,
): Promise<AdminReply> {
  const where = "path" in admin ? { socketPath: admin.path } : { host: reachableHost(admin.host), port: admin.port };
  const name = "path" in admin ? admin.path : formatAddress(admin);
  const headers = {
    host: "localhost",
    ...(token !== undefined && { authorization: `Bearer ${token}` }),
    ...(sent && { "content-type": "application/json" }),
  };
  return new Promise((done, failed) => {
    const clientRequest = request({ ...where, path, method, headers, timeout: TIMEOUT }, (answer) => {
      let text = "";
      answer.setEncoding("utf8").on("data", (more: string) => (text += more));
      answer.on("error", failed).on("end", () => {
        const { statusCode: status = 0 } = answer;
        if (status === 401 && path !== SESSION_PATH) void unauthorizedError(admin, name, token).then(failed);
        else if (status !== 200 && status !== 422)
          failed(new Error(`${name} answers ${status}: ${text.trim().slice(0, 200)}`));
        else
          try {
            done({ status, body: JSON.parse(text) });
          } catch {
            failed(new Error(`${name} answers with what is no JSON: another program listens there`));
          }
      });
    });
    clientRequest.on("timeout", () => clientRequest.destroy(new Error(`it did not answer within ${TIMEOUT / 1000} s`)));
    clientRequest.on("error", (error: NodeJS.ErrnoException) => failed(connectionError(error, name, admin.fileError)));
    clientRequest.end(sent && JSON.stringify(sent));
  });
}

/**
 * Returns the admin side's response; undefined after printing an error.
 * @param token the one on the command line
 * @param sent a change
 * @throws UsageError where the admin side is off; ConfigError with the problems of gateway.yaml
 */
export async function askAdmin(
  admin: AdminEndpoint | undefined,
  token: string | undefined,
  io: Terminal,
  path: string,
  sent?: object,
): Promise<unknown> {
  if (!admin) throw new UsageError("admin: is off in gateway.yaml: send the gateway a SIGHUP, and look at its log.");
  try {
    const method = sent ? "POST" : "GET";
    const { status, body } = await requestAdmin(admin, token ?? io.env["ADMIN_TOKEN"], path, method, sent);
    if (status === 200) return body;
    const { message, problems } = (body as { error: { message: string; problems?: Problem[] } }).error;
    // Printed like the problems of a file that was read here.
    if (problems) throw new ConfigError(problems);
    io.err(message);
  } catch (thrown) {
    if (thrown instanceof ConfigError) throw thrown;
    io.err(thrownMessage(thrown));
  }
  return undefined;
}

/** Returns why a request without a token, or with that one, is refused. */
async function unauthorizedError(admin: AdminEndpoint, name: string, token: string | undefined): Promise<Error> {
  const ways: unknown = await requestAdmin(admin, undefined, SESSION_PATH).then(
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

function connectionError(error: NodeJS.ErrnoException, name: string, unknown: ConfigError | undefined): Error {
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

/** The admin side that the command line names, or the one of gateway.yaml. @throws UsageError where that cannot be read either */
export function selectAdmin(
  addressOption: string | undefined,
  configured: AdminEndpoint | string | undefined,
  folder: string,
): AdminEndpoint | undefined {
  if (typeof configured === "string" && addressOption === undefined)
    throw new UsageError(`admin: in gateway.yaml: ${configured}. Or say where it is with --admin ADDRESS.`);
  if (addressOption === undefined) return configured as AdminEndpoint | undefined;
  const address = parseAdminAddress(addressOption, folder);
  if (typeof address === "string") throw new UsageError(`--admin: ${address}`);
  return address;
}

/**
 * Finds the admin side in a gateway.yaml that may be invalid, as the running gateway is asked about it. Undefined: it is off. A
 * text: why it is unknown.
 */
export function findAdmin(location: ConfigLocation, env: NodeJS.ProcessEnv): AdminEndpoint | string | undefined {
  const { folder } = location;
  // The bundled file is nobody's own: the folder's file is gone.
  const file = location.file === BUNDLED_CONFIG && !location.named ? join(folder, "gateway.yaml") : location.file;
  const written = writtenAdmin(file);
  if (written === undefined) {
    const fileError = readError(file);
    return { host: "127.0.0.1", port: 9090, ...(fileError && { fileError }) };
  }
  const found = resolveReferences(written, env, folder);
  if (!("value" in found)) return unresolvedReason(found);
  return found.value === "off" ? undefined : parseAdminAddress(found.value, folder);
}

/** Returns the address as the file has it; undefined if it has none, or is none. */
function writtenAdmin(file: string): string | undefined {
  let text: string;
  try {
    text = readFileSync(file, "utf8");
  } catch {
    return undefined;
  }
  const { values } = new YamlSource(file, text);
  if (values === undefined) return guessAdmin(text);
  const written = atPath(values, "admin", "listen") ?? atPath(values, "admin");
  return typeof written === "string" || typeof written === "number" ? String(written) : undefined;
}

/** Finds the address in a text that is no valid YAML. */
function guessAdmin(text: string): string | undefined {
  const [, short, inBraces, below] =
    /^admin:[ \t]*(?:["']?([^\s{#"'][^\s#"']*)|\{(?:\$\{[^}\n]*\}|[^}\n])*?\blisten:[ \t]*["']?((?:\$\{[^}\n]*\}|[^\s,}"'])+)|(?:#[^\n]*)?\n(?:[ \t]+[^\n]*\n)*?[ \t]+listen:[ \t]*["']?([^\s#"']+))/m.exec(
      `${text}\n`,
    ) ?? [];
  return short ?? inBraces ?? below;
}
