import { type Problem, warningAt } from "../config/load.ts";
import type { Config, ConfiguredProvider } from "../config/types.ts";
import type { Protocol } from "../core/protocol.ts";
import { loadVendors, spokenBy, type Vendor } from "../loader/vendors.ts";
import { baseOf } from "../upstream/address.ts";

/** Addresses at a known vendor's host, in its protocol, that are not below where its API begins: every request would be a 404. */
export function addressDoubts(
  config: Pick<Config, "file" | "text" | "providers">,
  protocols: readonly Protocol[],
  vendors: readonly Vendor[] = loadVendors(),
): Problem[] {
  return config.providers.flatMap((provider) => {
    const meant = meantBy(provider, protocols, vendors);
    if (meant === undefined) return [];
    const message = `the API of ${meant.name} is not at this address; write url: ${meant.provider.url}`;
    return [warningAt(config, { path: ["providers", provider.name, "url"], message })];
  });
}

/** The vendor whose address it nearly is: that of the host, or a part of the way to its API. */
function meantBy({ url, speaks }: ConfiguredProvider, protocols: readonly Protocol[], vendors: readonly Vendor[]) {
  if (url === "demo:") return undefined;
  const [spoken = ""] = speaks;
  const protocol = protocols.find(({ name }) => name === spoken);
  return vendors.find((vendor) => {
    const known = new URL(vendor.provider.url);
    if (known.host !== url.host || !protocol || !spokenBy(vendor).includes(spoken)) return false;
    const base = baseOf(url, protocol);
    return base !== known.pathname && (url.pathname === "/" || known.pathname.startsWith(`${base}/`));
  });
}
