import type { Caller } from "./caller.ts";
import { GatewayError } from "./errors.ts";
import { matchesAny } from "./glob.ts";
import { Networks } from "./networks.ts";

/** The part of a caller that defines its scope. */
type KeyScope = Pick<Caller, "name" | "models" | "paths" | "addresses" | "expires">;

/** Entries of a list that an error names. */
const MAX_NAMED = 8;

/** Parsed address lists, by list: a key keeps the same list object for as long as it is cached. */
const networks = new WeakMap<readonly string[], Networks>();

/** A request, as far as a caller's scope depends on it. */
interface ScopedRequest {
  /** Unix milliseconds. */
  time: number;
  method: string;
  path: string;
  address: string;
}

/**
 * Checks that a caller has not expired, and may be used from this address and on this path. Models are checked where they are
 * known.
 * @throws GatewayError `revoked_api_key`, `key_not_allowed`, which says what the key allows
 */
export function checkCaller(
  { name, expires = Infinity, paths, addresses }: KeyScope,
  { time, method, path, address }: ScopedRequest,
): void {
  if (expires <= time)
    throw new GatewayError("revoked_api_key", {
      message: `The key "${name}" has expired, at ${new Date(expires).toISOString()}.`,
      hint: "Ask the operator for a new one.",
    });
  if (addresses && !parsedNetworks(addresses).has(address))
    throw new GatewayError("key_not_allowed", {
      message: `The key "${name}" may not be used from ${address || "an address that is not known"}: its addresses are ${formatList(addresses)}.`,
      hint: "Use it from there; the operator sets a key's addresses, and with trust: the proxies that tell them.",
    });
  // A pattern that begins with a method applies to that method; one that begins with the path applies to all.
  if (paths && !matchesAny(paths, path) && !matchesAny(paths, `${method} ${path}`))
    throw new GatewayError("key_not_allowed", {
      message: `The key "${name}" may not use ${method} on the path ${path}: its paths are ${formatList(paths)}.`,
    });
}

/**
 * Checks a caller on a path whose chain does not enforce limits: a key made at run time may have some all the same, for example
 * because gateway.yaml has changed since. Soft budgets refuse nothing, here neither.
 * @param missing the plugins that the chain lacks
 * @throws GatewayError `key_not_allowed`
 */
export function checkUnlimited({ name, limits }: Caller, path: string, missing: readonly string[]): void {
  if (!limits) return;
  const { rpm = 0, tpm = 0, concurrency = 0, budgets = [] } = limits;
  if (rpm + tpm + concurrency === 0 && budgets.every(({ soft }) => soft)) return;
  const plugins = missing.map((each) => JSON.stringify(each)).join(" and ");
  throw new GatewayError("key_not_allowed", {
    message: `The key "${name}" has limits, and nothing enforces them on ${path}.`,
    hint: `Use another key, or ask the operator to add ${plugins} to the chain of this path.`,
  });
}

/** Returns the error for an existing model that the key may not use. */
export function modelNotAllowed({ name, models = [] }: KeyScope, model: string): GatewayError {
  return new GatewayError("key_not_allowed", {
    message: `The key "${name}" may not use the model "${model}": its models are ${formatList(models)}.`,
    param: "model",
  });
}

/** Returns the same error for a model that a request names besides the requested one. */
export function otherModelNotAllowed({ name, models = [] }: KeyScope, model: string, param: string): GatewayError {
  return new GatewayError("key_not_allowed", {
    message: `${param} names the model "${model}", which the key "${name}" may not use: its models are ${formatList(models)}.`,
    hint: `Leave ${param} out, or name there a model of GET /v1/models.`,
    param,
  });
}

/** Returns the error for such a model that the caller may use but the provider of the request does not have. */
export function otherModelNotServed(model: string, param: string): GatewayError {
  return new GatewayError("not_served", {
    message: `${param} names the model "${model}", which the provider of this request does not have.`,
    hint: `Leave ${param} out, or name there a model of the same provider.`,
    param,
  });
}

/** Returns the error for a caller restricted to some models whose request leaves the choice of others to the vendor. */
export function unnamedModelsNotAllowed({ name, models = [] }: KeyScope, param: string): GatewayError {
  return new GatewayError("key_not_allowed", {
    message: `${param} lets the vendor choose models, and the key "${name}" may use some only: ${formatList(models)}.`,
    hint: `Name the models in ${param}, or leave it out.`,
    param,
  });
}

function formatList(entries: readonly string[]): string {
  const rest = entries.length - MAX_NAMED;
  const named = entries.slice(0, MAX_NAMED).join(", ");
  return entries.length === 0 ? "none" : rest > 0 ? `${named} and ${rest} more` : named;
}

const parsedNetworks = (addresses: readonly string[]): Networks =>
  networks.getOrInsertComputed(addresses, () => new Networks(addresses));
