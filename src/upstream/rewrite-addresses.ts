import { type JsonPath, pathEdits } from "../wire/paths.ts";
import { splice } from "../wire/splice.ts";
import { asList, asObject, parseJson } from "../wire/values.ts";

/**
 * Rewrites a provider's addresses in a JSON response to lead through the gateway: otherwise clients would send the provider their
 * gateway key. All other bytes stay the same.
 * @param members names of members that hold an address, at the top or in the entries of `data`
 * @param rewrite returns the gateway's address for one of the provider's; undefined: it is not rewritten
 */
export function rewriteAddresses(
  body: Buffer,
  members: readonly string[],
  rewrite: (address: string) => string | undefined,
): Buffer {
  const json = parseJson(body.toString());
  const replace: [JsonPath, string][] = [];
  const collect = (value: unknown, path: JsonPath): void => {
    for (const name of members) {
      const address = asObject(value)?.[name];
      const gatewayAddress = typeof address === "string" ? rewrite(address) : undefined;
      if (gatewayAddress !== undefined) replace.push([[...path, name], JSON.stringify(gatewayAddress)]);
    }
  };
  collect(json, []);
  for (const [i, entry] of asList(asObject(json)?.["data"]).entries()) collect(entry, ["data", i]);
  return replace.length === 0 ? body : Buffer.concat(splice([body], pathEdits(body, { replace })));
}
