import { changesAt, type JsonPath } from "../wire/paths.ts";
import { splice } from "../wire/splice.ts";
import { asList, asObject } from "../wire/values.ts";

/**
 * A JSON answer whose addresses at the provider's lead back through the gateway: clients would show the provider the key that
 * they have for the gateway. All other bytes stay.
 * @param members those that hold one, at the top or in the entries of `data`
 * @param back answers the gateway's address for one of the provider's; undefined: it is none
 */
export function leadingBack(
  body: Buffer,
  members: readonly string[],
  back: (address: string) => string | undefined,
): Buffer {
  let json: unknown;
  try {
    json = JSON.parse(body.toString());
  } catch {
    return body;
  }
  const replace: [JsonPath, string][] = [];
  const look = (value: unknown, at: JsonPath): void => {
    for (const name of members) {
      const address = asObject(value)?.[name];
      const ours = typeof address === "string" ? back(address) : undefined;
      if (ours !== undefined) replace.push([[...at, name], JSON.stringify(ours)]);
    }
  };
  look(json, []);
  for (const [i, entry] of asList(asObject(json)?.["data"]).entries()) look(entry, ["data", i]);
  return replace.length === 0 ? body : Buffer.concat(splice([body], changesAt(body, { replace })));
}
