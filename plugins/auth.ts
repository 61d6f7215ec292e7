import { type AccessExchange, type Caller, GatewayError, Options, type Plugin } from "model-gateway";
import { type KeyRecord, Keys } from "model-gateway/store";
import { inject, injectable } from "tsyringe";
import { z } from "zod";

/**
 * Admits only requests with a key of this gateway. The engine has already removed everything that may be a key from headers
 * and query, so that no later plugin can pass one on. A caller that a plugin before it has set is admitted as it is.
 */
@injectable()
export default class Auth implements Plugin {
  static options = z.strictObject({
    anonymous: z.boolean().default(false).describe("Accept requests without a key, as a caller without a name."),
    failures: z
      .number()
      .int({ error: "must be a whole number" })
      .min(0, { error: "must not be less than 0" })
      .default(20)
      .describe(
        "Wrong keys that an address may send per minute; further ones get a 429. Valid keys are accepted all the same. 0: no limit.",
      ),
  });

  constructor(
    private readonly keys: Keys,
    @inject(Options) private readonly options: z.infer<typeof Auth.options>,
  ) {}

  access(exchange: AccessExchange): void | Promise<void> {
    const { caller, credentials, uploader } = exchange;
    if (caller) return this.checkGroup(caller);
    if (credentials.length === 0 && uploader) return this.admitUpload(exchange, uploader);
    const [first] = credentials;
    if (first !== undefined && credentials.length === 1) {
      const found = this.keys.find(first);
      // The usual case.
      if (!(found instanceof Promise)) return found ? this.admitKey(exchange, found) : this.refuseUnknown(exchange);
      return found.then((record) => this.admit(exchange, record ? [record] : []));
    }
    return Promise.all(credentials.map((presented) => this.keys.find(presented))).then((found) =>
      this.admit(
        exchange,
        found.filter((record) => record !== undefined),
      ),
    );
  }

  /** Admits the next piece of an upload without a key, which some SDKs send, as a request of the key that began the upload. */
  private async admitUpload(exchange: AccessExchange, id: string): Promise<void> {
    const record = await this.keys.show(id).catch((cause: unknown) => {
      const message = "Whether the key of this upload is valid is not known, as the gateway's key store cannot answer.";
      throw new GatewayError("store_unavailable", { message, cause });
    });
    // A name stands for the key that holds it now.
    await this.admit(exchange, record?.id === id ? [record] : []);
  }

  /** @throws GatewayError for a caller whose group, or one above it, is disabled */
  private checkGroup({ group, name }: Caller): void | Promise<void> {
    if (group === undefined) return;
    const disabled = this.keys.disabledGroup(group);
    if (disabled instanceof Promise) return disabled.then((found) => refuseGroup(found, name));
    refuseGroup(disabled, name);
  }

  /** Checks the key found. Some clients send two credentials, of which one is a gateway key: that one counts. */
  private admit(exchange: AccessExchange, records: readonly KeyRecord[]): void | Promise<void> {
    // Of a key that was rotated a client may send both secrets, in any order: one that works is enough.
    const record = records.find((each) => !whyUnusable(each, exchange.time)) ?? records[0];
    if (!record) return this.refuseUnknown(exchange);
    if (records.some(({ id }) => id !== record.id)) throw new GatewayError("conflicting_api_keys");
    return this.admitKey(exchange, record);
  }

  private admitKey(exchange: AccessExchange, record: KeyRecord): void | Promise<void> {
    // Also of a key that is refused: log and ledger record which one it was.
    exchange.caller = this.keys.callerOf(record);
    const unusable = whyUnusable(record, exchange.time);
    if (unusable) throw unusable;
    return this.checkGroup(record);
  }

  /** Counts a wrong key. @throws GatewayError, unless callers without a key are accepted */
  private refuseUnknown(exchange: AccessExchange): void | Promise<void> {
    if (exchange.credentials.length === 0 && this.options.anonymous) return;
    const [presented] = exchange.credentials;
    if (presented === undefined) throw new GatewayError("missing_api_key");
    const refuse = (retryAfter: number | undefined): never => {
      throw retryAfter === undefined ? unknownKey(presented) : new GatewayError("too_many_wrong_keys", { retryAfter });
    };
    const counted = this.keys.countWrongKey(exchange.network, this.options.failures);
    return counted instanceof Promise ? counted.then(refuse) : refuse(counted);
  }
}

/** @throws GatewayError `disabled_api_key` */
function refuseGroup(group: string | undefined, name: string): void {
  if (group === undefined) return;
  throw new GatewayError("disabled_api_key", {
    message: `The group "${group}", to which the key "${name}" belongs, is switched off at the moment.`,
    hint: "Ask the operator, who can switch it on again.",
  });
}

/**
 * Returns the error for a key that is not valid, or not at present; the engine checks whether it has expired. It names the key,
 * which the client has.
 */
function whyUnusable(
  { name, revoked, disabled, replaced = Infinity }: KeyRecord,
  now: number,
): GatewayError | undefined {
  if (revoked !== undefined)
    return new GatewayError("revoked_api_key", {
      message: `The key "${name}" was revoked.`,
      hint: "Ask the operator for a new one.",
    });
  if (replaced <= now)
    return new GatewayError("revoked_api_key", {
      message: `This secret of the key "${name}" was replaced by a rotation, and has not worked since ${new Date(replaced).toISOString()}.`,
      hint: "Use the new one, or ask the operator for it.",
    });
  if (disabled === undefined) return undefined;
  return new GatewayError("disabled_api_key", {
    message: `The key "${name}" is switched off at the moment.`,
    hint: "Ask the operator, who can switch it on again.",
  });
}

/**
 * Returns the error for an unknown key, with the expected form. A vendor's key is the usual mistake; only its first characters
 * are reported.
 */
function unknownKey(presented: string): GatewayError {
  const foreign = /^(sk-ant|sk-or|sk|AIza|gsk|xai)[-_]?/.exec(presented)?.[1];
  if (!foreign || presented.startsWith("gw_")) return new GatewayError("invalid_api_key");
  return new GatewayError("invalid_api_key", {
    message: `This is not a key of this gateway: it looks like a vendor's (${foreign}…).`,
    hint: "Gateway keys start with gw_; ask the operator, who makes one with: keys create NAME.",
  });
}
