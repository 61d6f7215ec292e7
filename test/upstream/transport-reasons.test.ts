import t from "tap";
import { Exchange, type ExchangeStart } from "../../src/core/exchange.ts";
import { logExchange } from "../../src/core/exchange-log.ts";
import { Redactor } from "../../src/core/redactor.ts";
import { transportError } from "../../src/upstream/transport-error.ts";
import { HeaderList } from "../../src/wire/headers.ts";
import { MemoryLog } from "../support/gateway.ts";

t.test(
  "the log says what is wrong with a provider's certificate, in one line, and the client does not learn it",
  (t) => {
    for (const [code, reason] of [
      ["DEPTH_ZERO_SELF_SIGNED_CERT", /^its certificate is self-signed: .*NODE_EXTRA_CA_CERTS$/],
      ["UNABLE_TO_VERIFY_LEAF_SIGNATURE", /^its certificate is of a CA that is not known here: .*NODE_EXTRA_CA_CERTS$/],
      ["CERT_HAS_EXPIRED", /^its certificate has expired/],
      ["ERR_TLS_CERT_ALTNAME_INVALID", /^its certificate is for another host$/],
    ] as const) {
      const error = transportError(Object.assign(new Error("x"), { code }), "connecting", "api.test");
      t.equal(error.message, "The provider could not be reached.");
      const log = new MemoryLog();
      const exchange = new Exchange({
        id: "one",
        arrivedAt: 0,
        path: "/v1/x",
        headers: new HeaderList(),
      } as ExchangeStart);
      exchange.error = error;
      logExchange(exchange, { log, redactor: new Redactor([]), maskOptions: String, logFields: [] }, undefined);
      const [line] = log.lines as unknown as { fields: { error: { cause: string } } }[];
      const { cause = "" } = line?.fields.error ?? {};
      t.ok(cause.startsWith(`${code} at api.test: `), cause);
      t.match(cause.slice(`${code} at api.test: `.length), reason);
      t.notMatch(cause, "\n");
    }
    t.end();
  },
);
