import { GatewayError } from "./errors.ts";
import { matchesAny } from "./glob.ts";
import { Networks } from "./networks.ts";

/** What of a caller tells its scope. */
interface KeyScope {
  name: string;
  models?: readonly string[];
  paths?: readonly string[];
  addresses?: readonly string[];
}

/** Entries of a list that a refusal names. */
const NAMED = 8;

/** Lists of addresses as they are asked: the same list stays with its key for as long as that is remembered. */
const networks = new WeakMap<readonly string[], Networks>();

/**
 * Whether a key may be used from here, for that: its addresses and its paths. Models are judged where they are known.
 * @throws GatewayError key_not_allowed, which says what the key allows
 */
export function checkKeyScope(
  { name, paths, addresses }: KeyScope,
  { method, path, address }: { method: string; path: string; address: string },
): void {
  if (addresses && !networkOf(addresses).has(address))
    throw new GatewayError("key_not_allowed", {
      message: `The key "${name}" may not be used from ${address || "an address that is not known"}: its addresses are ${listed(addresses)}.`,
      hint: "Use it from there; the operator sets a key's addresses, and with trust: the proxies that tell them.",
    });
  // A pattern is of one method where it begins with that, and of all where it begins with the path.
  if (paths && !matchesAny(paths, path) && !matchesAny(paths, `${method} ${path}`))
    throw new GatewayError("key_not_allowed", {
      message: `The key "${name}" may not use ${method} on the path ${path}: its paths are ${listed(paths)}.`,
    });
}

/** What a caller is told of a model that there is, and that its key may not use. */
export function modelNotAllowed({ name, models = [] }: KeyScope, asked: string): GatewayError {
  return new GatewayError("key_not_allowed", {
    message: `The key "${name}" may not use the model "${asked}": its models are ${listed(models)}.`,
    param: "model",
  });
}

/** The same of a model that a request names besides the one that it asks for. */
export function otherNotAllowed({ name, models = [] }: KeyScope, asked: string, param: string): GatewayError {
  return new GatewayError("key_not_allowed", {
    message: `${param} names the model "${asked}", which the key "${name}" may not use: its models are ${listed(models)}.`,
    hint: `Leave ${param} out, or name there a model of GET /v1/models.`,
    param,
  });
}

/** What a caller is told who may use such a model, which the provider that is asked does not have; others may. */
export function otherNotHere(asked: string, param: string): GatewayError {
  return new GatewayError("not_served", {
    message: `${param} names the model "${asked}", which the provider of this request does not have.`,
    hint: `Leave ${param} out, or name there a model of the same provider.`,
    param,
  });
}

/** What a caller is told who may use some models only, and leaves the choice of others to the vendor. */
export function unnamedNotAllowed({ name, models = [] }: KeyScope, param: string): GatewayError {
  return new GatewayError("key_not_allowed", {
    message: `${param} lets the vendor choose models, and the key "${name}" may use some only: ${listed(models)}.`,
    hint: `Name the models in ${param}, or leave it out.`,
    param,
  });
}

function listed(entries: readonly string[]): string {
  const rest = entries.length - NAMED;
  const named = entries.slice(0, NAMED).join(", ");
  return entries.length === 0 ? "none" : rest > 0 ? `${named} and ${rest} more` : named;
}

function networkOf(addresses: readonly string[]): Networks {
  let found = networks.get(addresses);
  if (!found) {
    found = new Networks(addresses);
    networks.set(addresses, found);
  }
  return found;
}
