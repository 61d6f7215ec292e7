import {
  type AccessExchange,
  type Answer,
  type Attempt,
  type Caller,
  type DoneExchange,
  GatewayError,
  Marketplace,
  type Plugin,
  type RouteExchange,
  type SendExchange,
  slot,
  Translations,
} from "model-gateway";
import { Keys, Ledger, Levels, Limiter, type LimitLevel, limitOwner, type ReserveResult } from "model-gateway/store";
import { injectable } from "tsyringe";
import { limitExceeded, requestTooLarge } from "./limits/errors.ts";
import { KEY_STATUS, KeyPage } from "./limits/key-page.ts";
import { OpenSockets } from "./limits/open-sockets.ts";
import {
  clampOutput,
  NO_SPENDING,
  type OutputClamp,
  type PriceLookup,
  type WorstCase,
  worstCase,
} from "./limits/worst-case.ts";

const NO_LEVELS: readonly LimitLevel[] = [];
const NO_HEADERS: readonly string[] = [];

/** The part of an exchange that a reservation is for: the whole, or its last attempt. */
type ReservedPart = "main" | "attempt";

interface MadeReservation {
  readonly id: string;
  readonly levels: readonly LimitLevel[];
}

/** An exchange's reservations. */
interface ReservationState {
  /** The worst case; known once the exchange is routed. */
  worst?: WorstCase;
  main?: MadeReservation;
  attempt?: MadeReservation;
  /** Whether the first one includes the level of the requested model. */
  includesModel?: true;
  /** Rate-limit headers of the first one, and those that the client would get now. */
  grantHeaders: readonly string[];
  shownHeaders: readonly string[];
  ended?: true;
}

/**
 * Enforces the limits of the key, its groups, the model, the provider and the gateway: reserves the worst case before a
 * provider is called, and settles to the actual usage when the exchange ends.
 */
@injectable()
export default class LimitsPlugin implements Plugin {
  static after = ["auth", "models"];
  static before = ["rewrite", "usage"];
  static answers = { all: KEY_STATUS };

  private readonly reservations = slot(
    (): ReservationState => ({ grantHeaders: NO_HEADERS, shownHeaders: NO_HEADERS }),
  );
  private readonly page: KeyPage;
  private readonly pricesOf: PriceLookup = (name, provider) => this.marketplace.pricesAt(provider, name);
  private readonly sockets: OpenSockets;

  constructor(
    private readonly limiter: Limiter,
    private readonly levels: Levels,
    private readonly translations: Translations,
    ledger: Ledger,
    private readonly marketplace: Marketplace,
    keys: Keys,
  ) {
    this.page = new KeyPage(limiter, levels, ledger);
    this.sockets = new OpenSockets(keys, (exchange) => {
      if (exchange.model) marketplace.require(exchange.model.id, exchange.caller);
      this.refuseUnmeasured(exchange, ON_SOCKET);
    });
  }

  close(): void {
    this.sockets.close();
  }

  route(exchange: RouteExchange): void | Promise<void> {
    const { dryRun } = exchange;
    const longer = clampOutput(exchange);
    if (longer && this.meteredLevel(exchange)) applyClamp(exchange, longer);
    if (!dryRun) return this.reserveRouted(exchange);
    return this.withWorstCase(exchange, ({ maximum }) => {
      dryRun.maximum = maximum;
      return this.reserveRouted(exchange);
    });
  }

  private reserveRouted(exchange: RouteExchange): void | Promise<void> {
    const { caller, model, protocol } = exchange;
    if (protocol.socket) {
      this.refuseUnmeasured(exchange, ON_SOCKET);
      this.sockets.add(exchange);
    } else if (exchange.wantsBackground) this.refuseUnmeasured(exchange, DEFERRED);
    if (caller?.limits) for (const target of exchange.targets) requirePrice(caller, target);
    // With fallbacks each attempt reserves its model's level, so that a model at its limit is skipped.
    const hasFallback = exchange.targets.some(({ modelId }) => modelId !== undefined && modelId !== model?.id);
    if (!hasFallback) this.reservations(exchange).includesModel = true;
    return this.reserve(exchange, "main", this.levels.forRequest(caller, hasFallback ? undefined : model?.id));
  }

  /** Applies the limits of the provider, and those of the model unless they are reserved already, to each attempt. */
  send(exchange: SendExchange, attempt: Attempt): void | Promise<void> {
    const { provider, modelId } = attempt.target;
    const reserving = this.reservations(exchange);
    if (reserving.attempt !== undefined) {
      this.limiter.settle(reserving.attempt.id, NO_SPENDING);
      delete reserving.attempt;
    }
    showHeaders(exchange, reserving, reserving.grantHeaders);
    const isReserved = modelId === exchange.model?.id && reserving.includesModel;
    const model = modelId === undefined || isReserved ? undefined : this.levels.model(modelId);
    const own = this.levels.provider(provider.name);
    const levels = own ? (model ? [own, model] : [own]) : model ? [model] : NO_LEVELS;
    // On passthrough paths no exchange is routed, and a path that keys with a budget may use says so itself.
    const isRouted = reserving.main !== undefined || exchange.model !== undefined;
    if (isRouted && exchange.caller?.limits) requirePrice(exchange.caller, attempt.target);
    const reserveAttempt = () => this.reserve(exchange, "attempt", levels);
    if (isRouted) return reserveAttempt();
    const all = this.reserve(exchange, "main", this.levels.forRequest(exchange.caller));
    return all ? all.then(reserveAttempt) : reserveAttempt();
  }

  done(exchange: DoneExchange): void {
    const reserving = this.reservations(exchange);
    reserving.ended = true;
    this.sockets.delete(exchange);
    // After later plugins have set the charge.
    queueMicrotask(() => this.settle(exchange, reserving));
  }

  /** Responds to `GET /v1/key` with the caller's own limits and usage. */
  serve({ caller }: AccessExchange): Promise<Answer> {
    if (!caller) throw new GatewayError("missing_api_key");
    return this.page.answer(caller);
  }

  private settle(exchange: DoneExchange, { main, attempt }: ReservationState): void {
    const { charge = NO_SPENDING, caller, model, attempt: last, time } = exchange;
    const serves = last?.target.modelId;
    const unused = model && serves !== undefined && serves !== model.id ? this.levels.model(model.id) : undefined;
    if (attempt !== undefined) this.limiter.settle(attempt.id, charge);
    if (charge.cost === 0) {
      if (main !== undefined) this.limiter.settle(main.id, charge, unused?.scope);
      return;
    }
    const scopes = this.levels
      .scopes(caller, serves ?? model?.id ?? "", last?.target.provider.name ?? "")
      .filter((scope) => !hasScope(main, scope) && !hasScope(attempt, scope));
    this.limiter.settle(main?.id ?? "", charge, unused?.scope, { scopes, time });
  }

  private reserve(
    exchange: RouteExchange | SendExchange,
    part: ReservedPart,
    levels: readonly LimitLevel[],
  ): void | Promise<void> {
    if (levels.length === 0) return;
    return this.withWorstCase(exchange, (worst) => this.reserveWorst(exchange, part, levels, worst));
  }

  /** Calls a function with the worst case: at once, or in a later turn for a large request. */
  private withWorstCase(
    exchange: RouteExchange | SendExchange,
    use: (worst: WorstCase) => void | Promise<void>,
  ): void | Promise<void> {
    const reserving = this.reservations(exchange);
    const worst = reserving.worst ?? worstCase(exchange, this.translations, this.pricesOf);
    if (!(worst instanceof Promise)) {
      reserving.worst = worst;
      return use(worst);
    }
    return worst.then((known) => {
      reserving.worst = known;
      // Nothing settles what is reserved after the end.
      if (!reserving.ended) return use(known);
    });
  }

  private reserveWorst(
    exchange: RouteExchange | SendExchange,
    part: ReservedPart,
    levels: readonly LimitLevel[],
    { plausibleTokens, unpriced, maximum, minimum }: WorstCase,
  ): void | Promise<void> {
    const id =
      "attempts" in exchange && part === "attempt" ? `${exchange.id}/${exchange.attempts.length}` : exchange.id;
    if (unpriced !== undefined) requireLevelPrice(levels, unpriced);
    for (const level of levels) {
      const { tpm = 0 } = level.limits;
      if (tpm > 0 && plausibleTokens > tpm) throw requestTooLarge(level, plausibleTokens);
    }
    const reserved = this.limiter.reserve({ id, levels, maximum, minimum });
    if (!(reserved instanceof Promise)) return this.applyReserved(reserved, exchange, part, { id, levels });
    return reserved.then((later) => {
      // The exchange ended while its reservation was pending.
      if (this.reservations(exchange).ended && "grant" in later) this.limiter.settle(id, NO_SPENDING);
      this.applyReserved(later, exchange, part, { id, levels });
    });
  }

  /** Applies the result of a reservation. @throws GatewayError rate_limit_exceeded, insufficient_quota */
  private applyReserved(
    reserved: ReserveResult,
    exchange: RouteExchange | SendExchange,
    part: ReservedPart,
    made: MadeReservation,
  ): void {
    const reserving = this.reservations(exchange);
    const { protocol, notices, dryRun } = exchange;
    const { rateHeaders } = protocol;
    if ("excess" in reserved) {
      const { limit, allowed, remaining, retryAfter = 0 } = reserved.excess;
      const state = { limit: allowed, remaining, reset: retryAfter * 1000 };
      const rates = limit === "rpm" ? { requests: state } : limit === "tpm" ? { tokens: state } : undefined;
      if (rates && rateHeaders) showHeaders(exchange, reserving, rateHeaders(rates, Date.now()));
      throw limitExceeded(reserved.excess);
    }
    reserving[part] = made;
    if (dryRun) dryRun.notes.push(`has capacity: ${made.levels.map((level) => limitOwner(level)).join(", ")}`);
    const { grant } = reserved;
    if (grant.warnings) notices.push(...grant.warnings);
    // A provider's remaining limit concerns all callers, and is not reported to one.
    if (part === "main" && rateHeaders && (grant.requests || grant.tokens)) {
      reserving.grantHeaders = rateHeaders(grant, Date.now());
      showHeaders(exchange, reserving, reserving.grantHeaders);
    }
  }

  /** Returns a level that limits tokens or money, of any target that may serve. */
  private meteredLevel({ caller, model, targets }: RouteExchange): LimitLevel | undefined {
    const metered = (id: string | undefined) => {
      const level = id === undefined ? undefined : this.levels.model(id);
      return level && (level.limits.tpm || hasHardBudget(level.limits)) ? level : undefined;
    };
    return (
      metered(model?.id) ??
      targets
        .map(({ provider, modelId }) => metered(modelId) ?? this.levels.unmeasured(caller, provider.name))
        .find((level) => level)
    );
  }

  /**
   * Checks an exchange whose usage is not known in time.
   * @throws GatewayError key_not_allowed where a level limits tokens or money
   */
  private refuseUnmeasured(exchange: RouteExchange, { why, hint }: Unmeasured): void {
    const found = this.meteredLevel(exchange);
    if (found)
      throw new GatewayError("key_not_allowed", {
        message: `${limitOwner(found)} has a limit of tokens or a budget, and ${why}.`,
        hint,
      });
  }
}

/** Replaces an exchange's rate-limit headers: those of a refused attempt are not the client's if another target answers. */
function showHeaders(
  { replyHeaders }: RouteExchange | SendExchange,
  reserving: ReservationState,
  headers: readonly string[],
): void {
  const { shownHeaders } = reserving;
  if (headers === shownHeaders) return;
  reserving.shownHeaders = headers;
  if (shownHeaders.length > 0) {
    const at = replyHeaders.findIndex((_, i) => shownHeaders.every((text, j) => replyHeaders[i + j] === text));
    if (at !== -1) replyHeaders.splice(at, shownHeaders.length);
  }
  for (const text of headers) replyHeaders.push(text);
}

/** Reports whether a reservation counts there. */
function hasScope(reservation: MadeReservation | undefined, scope: string): boolean {
  if (reservation) for (const level of reservation.levels) if (level.scope === scope) return true;
  return false;
}

/** Limits a request's output tokens to what the model provides. @throws GatewayError invalid_field in strict mode */
function applyClamp(exchange: RouteExchange, { edits, path, most }: OutputClamp): void {
  const why = `the model's answers are at most ${most} tokens long`;
  if (exchange.strict)
    throw new GatewayError("invalid_field", { message: `${path}: ${why}, and nothing may be changed.`, param: path });
  exchange.edit(edits);
  exchange.notices.push(`${path}: ${why}`);
}

/** Why usage is not known in time, and how to avoid that. */
interface Unmeasured {
  readonly why: string;
  readonly hint: string;
}

const ON_SOCKET: Unmeasured = {
  why: "the usage of a WebSocket is not known in advance",
  hint: "Use a POST request, or another key.",
};
/** A response that is never fetched would cost the vendor's price, and be missing from every budget. */
const DEFERRED: Unmeasured = {
  why: "the usage of a background answer is not known until it is fetched",
  hint: "Send the request without background or deferred, streamed if it takes long, or use another key.",
};

const hasHardBudget = ({ budgets }: LimitLevel["limits"]): boolean => budgets?.some(({ soft }) => !soft) === true;

/**
 * Checks that a key's budget can be enforced. Models limited in gateway.yaml have prices, or it would not start; keys are
 * created without that check.
 * @throws GatewayError key_not_allowed for a budget with an unpriced model
 */
function requirePrice({ limits }: Caller, { prices, modelId: serves }: Attempt["target"]): void {
  if (prices || !limits || !hasHardBudget(limits)) return;
  throw new GatewayError("key_not_allowed", {
    message: `The key has a budget, and the price of the model ${JSON.stringify(serves ?? "")} is unknown.`,
    hint: "Use another model, or ask the operator for its price.",
  });
}

/** Checks that no budget applies to a request whose cost has no upper bound. @throws GatewayError key_not_allowed */
function requireLevelPrice(levels: readonly LimitLevel[], what: string): void {
  const level = levels.find(({ limits }) => hasHardBudget(limits));
  if (!level) return;
  throw new GatewayError("key_not_allowed", {
    message: `${limitOwner(level)} has a budget, and the price of ${what} is unknown.`,
    hint: "Leave it out of the request, or ask the operator for its price.",
  });
}
