import { invalidJsonError, parseUnambiguous } from "../core/body.ts";
import { GatewayError } from "../core/errors.ts";
import type { Exchange } from "../core/exchange.ts";
import { otherModelNotAllowed } from "../core/key-scope.ts";
import type { Marketplace, Provider } from "../core/marketplace.ts";
import type { SocketProtocol } from "../core/protocol.ts";
import { shortPath } from "../core/shorten.ts";
import { JsonError, Scanner } from "../wire/json.ts";
import { QuotedNameSearch } from "../wire/quoted-name-search.ts";
import type { ObjectAccess } from "./objects.ts";

/**
 * Checks a client's WebSocket messages one by one: objects must belong to its key or be shared with it, and the key must be
 * allowed to use the models at that provider.
 */
export class SocketMessageChecker {
  private readonly names: QuotedNameSearch;
  /** One for each protocol: its table is larger than everything else that a socket needs. */
  private static readonly searches = new WeakMap<SocketProtocol, QuotedNameSearch>();

  constructor(
    private readonly protocol: SocketProtocol,
    private readonly exchange: Pick<Exchange, "caller">,
    private readonly provider: Provider,
    private readonly objects: ObjectAccess,
    private readonly marketplace: Marketplace,
  ) {
    // A letter may be written as an escape, and some servers match names in any case.
    const create = () => new QuotedNameSearch(protocol.nameMarkers);
    this.names = SocketMessageChecker.searches.getOrInsertComputed(protocol, create);
  }

  /** Reports whether there is anything to check: there is not where all keys may use everything. */
  static isNeeded({ caller }: Pick<Exchange, "caller">, { share }: ObjectAccess): boolean {
    return share !== "all" || caller?.models !== undefined;
  }

  /** Returns why a message may not be forwarded: `key_not_allowed`, `object_not_found`, `invalid_json`; undefined: it may. */
  findError(message: Buffer): GatewayError | undefined {
    try {
      this.check(message);
      return undefined;
    } catch (thrown) {
      return GatewayError.from(thrown);
    }
  }

  private check(message: Buffer): void {
    // JSON in UTF-8 never contains a zero byte; in UTF-16 or UTF-32, which some parsers accept, it always does.
    if (message.includes(0))
      throw new GatewayError("invalid_json", { message: "A message holds a zero byte: it is no JSON in UTF-8." });
    if (!this.names.mayOccurIn(message)) return;
    checkJsonLimits(message);
    const { exchange, provider, objects } = this;
    const names = [...this.protocol.namesIn(parseUnambiguous(message))];
    if (names.length > MAX_SOCKET_NAMES)
      throw new GatewayError("invalid_field", {
        message: `A message names more than ${MAX_SOCKET_NAMES} models and objects.`,
      });
    for (const { kind, name, path } of names) {
      const param = shortPath(path);
      if (kind === "model") this.checkModel(name, param);
      else objects.admitSync(provider.name, [{ id: name, param }], exchange.caller);
    }
  }

  /** Clients use the vendor's own model names here: frames are forwarded unchanged, so names cannot be replaced. */
  private checkModel(name: string, param: string): void {
    const { caller } = this.exchange;
    if (!caller?.models || this.marketplace.findByTarget(this.provider, name, caller)) return;
    throw otherModelNotAllowed(caller, name, param);
  }
}

/** Limit of models and objects that a message may name. */
const MAX_SOCKET_NAMES = 100;
/** Limit of values in a message that may name one: it is parsed at once, while others wait. */
const MAX_SOCKET_VALUES = 20_000;
/** Bytes that are scanned before the number of values is checked. */
const SCAN_PIECE = 65_536;

/** @throws GatewayError `invalid_json` for more nesting than a body may have, or too many values */
function checkJsonLimits(message: Buffer): void {
  const scanner = new Scanner({ duplicates: "allow", maxValues: MAX_SOCKET_VALUES });
  try {
    for (let at = 0; at < message.length; at += SCAN_PIECE) scanner.push(message.subarray(at, at + SCAN_PIECE));
    scanner.end();
  } catch (thrown) {
    throw thrown instanceof JsonError ? invalidJsonError(thrown) : thrown;
  }
}
