import { socketFileProblem } from "../admin/socket-file.ts";
import { errorAt, settingPosition, warningAt } from "../config/load.ts";
import type { Problem } from "../config/problems.ts";
import type { Config, ConfiguredProvider } from "../config/types.ts";
import type { Protocol } from "../core/protocol.ts";
import { loadVendors, type Vendor, vendorProtocols } from "../loader/vendors.ts";
import { basePath } from "../upstream/address.ts";

/**
 * Returns a problem for each address that ends in the path of an operation, and for each at a known vendor's host, in its
 * protocol, that is not below the API's base: every request would be a 404.
 */
export function addressWarnings(
  config: Pick<Config, "file" | "text" | "providers">,
  protocols: readonly Protocol[],
): Problem[] {
  const vendors = loadVendors();
  return config.providers.flatMap((provider) => {
    const path = ["providers", provider.name, "url"];
    const called = trailingOperation(provider, protocols);
    if (called !== undefined) {
      const { below, url } = called;
      return [warningAt(config, { path, message: `${below} is appended to the URL automatically; write url: ${url}` })];
    }
    const meant = intendedVendor(provider, protocols, vendors);
    if (meant === undefined) return [];
    const message = `the API of ${meant.name} has another URL; write url: ${meant.provider.url}`;
    return [warningAt(config, { path, message })];
  });
}

/** Returns an error where the admin side's socket file is the place of something else: no start could succeed. */
export function socketFileErrors(config: Pick<Config, "file" | "text" | "admin">): Problem[] {
  const { admin } = config;
  const message = admin && "path" in admin ? socketFileProblem(admin.path) : undefined;
  if (message === undefined) return [];
  const path = ["admin", "listen"];
  return [errorAt(config, { path: settingPosition(config, path) ? path : ["admin"], message })];
}

/** Returns the operation's path at the end of an address, and the address without it. */
function trailingOperation(
  { url }: ConfiguredProvider,
  protocols: readonly Protocol[],
): { below: string; url: string } | undefined {
  if (url === "demo:") return undefined;
  const calls = protocols.flatMap(({ paths }) => paths).filter((path) => !path.endsWith("*"));
  const below = calls
    .map((path) => path.replace(/^\/v\d\w*(?=\/)/, ""))
    .filter((path) => url.pathname.endsWith(path))
    .sort((one, other) => other.length - one.length)[0];
  return below === undefined ? undefined : { below, url: url.href.slice(0, -below.length) };
}

/** Returns the vendor that was probably meant: one with the same host, where the address is only a part of the way to its API. */
function intendedVendor(
  { url, speaks }: ConfiguredProvider,
  protocols: readonly Protocol[],
  vendors: readonly Vendor[],
) {
  if (url === "demo:") return undefined;
  const [spoken = ""] = speaks;
  const protocol = protocols.find(({ name }) => name === spoken);
  return vendors.find((vendor) => {
    const known = new URL(vendor.provider.url);
    if (known.host !== url.host || !protocol || !vendorProtocols(vendor).includes(spoken)) return false;
    const base = basePath(url, protocol);
    return base !== known.pathname && (url.pathname === "/" || known.pathname.startsWith(`${base}/`));
  });
}
