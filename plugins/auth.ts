import {
  type AccessExchange,
  type Caller,
  GatewayError,
  type KeyRecord,
  Keys,
  Options,
  type Plugin,
} from "model-gateway";
import { inject, injectable } from "tsyringe";
import { z } from "zod";

/**
 * Lets a request in only with a key that this gateway knows. The engine has already taken everything that may be a key
 * out of headers and query, so nothing behind this plugin can pass one on.
 */
@injectable()
export default class Auth implements Plugin {
  static options = z.strictObject({
    anonymous: z.boolean().default(false).describe("Let requests without a key in, as a caller with no name."),
  });

  constructor(
    private readonly keys: Keys,
    @inject(Options) private readonly options: z.infer<typeof Auth.options>,
  ) {}

  access(exchange: AccessExchange): void | Promise<void> {
    const { credentials } = exchange;
    if (credentials.length === 1) {
      const found = this.keys.find(credentials[0] as string);
      if (!(found instanceof Promise)) return this.admit(exchange, found ? [found] : []);
    }
    return Promise.all(credentials.map((presented) => this.keys.find(presented))).then((found) =>
      this.admit(
        exchange,
        found.filter((record) => record !== undefined),
      ),
    );
  }

  /** Some clients send two credentials, of which one is ours: that one counts. */
  private admit(exchange: AccessExchange, records: readonly KeyRecord[]): void {
    const [record, second] = records;
    if (record && second && second.id !== record.id) throw new GatewayError("conflicting_api_keys");
    if (record) {
      if (record.revoked !== undefined || (record.expires ?? Infinity) <= exchange.time)
        throw new GatewayError("revoked_api_key");
      exchange.caller = caller(record);
      return;
    }
    if (exchange.credentials.length === 0 && this.options.anonymous) return;
    throw exchange.credentials.length === 0
      ? new GatewayError("missing_api_key")
      : unknown(exchange.credentials[0] as string);
  }
}

const caller = ({ id, name, models, budgeted }: KeyRecord): Caller => ({
  id,
  name,
  ...(models ? { models } : {}),
  ...(budgeted ? { budgeted } : {}),
});

/** Says how keys look; a vendor's own key is the usual mistake, and is recognised by its first characters only. */
function unknown(presented: string): GatewayError {
  const foreign = /^(sk-ant|sk-or|sk|AIza|gsk|xai)[-_]?/.exec(presented)?.[1];
  if (!foreign || presented.startsWith("gw_")) return new GatewayError("invalid_api_key");
  return new GatewayError("invalid_api_key", {
    message: `This is not a key of this gateway: it looks like a vendor's (${foreign}…).`,
    hint: "Gateway keys start with gw_; ask the operator, who makes one with: keys create NAME.",
  });
}
