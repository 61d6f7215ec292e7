import { GatewayError } from "../core/errors.ts";
import type { HeaderList } from "../wire/headers.ts";

const HEADER = "gateway-strict";

/**
 * Reports whether a client wants its request refused if a translation would drop or change something.
 * @throws GatewayError `invalid_field` for an unknown value of the header, which would otherwise not be strict unnoticed
 */
export function wantsStrict(headers: HeaderList): boolean {
  const value = headers.get(HEADER)?.toLowerCase();
  if (value === "1" || value === "true") return true;
  if (value === undefined || value === "0" || value === "false") return false;
  throw new GatewayError("invalid_field", {
    message: `The header ${HEADER} has the value ${JSON.stringify(value)}.`,
    hint: "It takes 1 or true, and 0 or false as without it.",
    param: HEADER,
  });
}
