import type { HeaderList } from "../wire/headers.ts";
import type { Edit } from "../wire/splice.ts";
import type { Body } from "./body.ts";
import { MAX_UNCOUNTED_BODY } from "./buffer-memory.ts";
import type { Caller } from "./caller.ts";
import type { GatewayError } from "./errors.ts";
import { unnamedModelsNotAllowed } from "./key-scope.ts";
import { type LookAlikes, lookAlikes } from "./look-alikes.ts";
import type { Credential, Target } from "./marketplace.ts";
import { findOtherModels, type OtherModel, otherModelEdits } from "./other-models.ts";
import type { Operation, Protocol } from "./protocol.ts";

/** What the engine knows about an attempt before any plugin has seen it. */
export interface AttemptStart {
  target: Target;
  protocol: Protocol;
  method: string;
  headers: HeaderList;
  body: Body;
  startedAt: number;
  caller?: string;
}

/** One try at one target. */
export class Attempt {
  readonly target: Target;
  /** The protocol spoken upstream. */
  protocol: Protocol;
  /** The operation requested upstream, where it differs from the exchange's own. */
  operation: Operation | undefined;
  method: string;
  /** The query of the upstream URL, without `?`, where it differs from the client's. */
  query: string | undefined;
  /** Path and query below the provider's origin; replaces the path that the protocol gives. */
  path: string | undefined;
  /** The headers to send upstream; the engine sets the framing headers. */
  headers: HeaderList;
  /**
   * The body to send upstream, as edited by the plugins so far; initially the exchange's own body. Empty after the response phase
   * where `releasesBody`.
   */
  body: Body;
  private readonly clientProtocol: Protocol;
  /** What translating the request drops, and what it changes without changing the meaning; undefined: not translated. */
  losses: { readonly dropped: readonly string[]; readonly notices: readonly string[] } | undefined;
  /** Its number among the requests to its target, by which its end is told from that of an older one. Set by the engine. */
  requestNumber = 0;
  /** The caller that a credential refusal counts for, where it counts for one caller only; undefined: it counts for all. */
  readonly caller: string | undefined;
  /** The credential sent to the provider; undefined: none is configured. */
  credential: Credential | undefined;
  /** Milliseconds since the exchange began. */
  readonly startedAt: number;
  /** Milliseconds from the exchange's start until it began to wait for a slot at the provider; undefined: it did not wait. */
  queuedAt: number | undefined;
  /**
   * Milliseconds from the exchange's start until its new connection was open; undefined: a pooled one was reused, or passthrough.
   */
  connectedAt: number | undefined;
  /**
   * Milliseconds from the exchange's start until it was handed to the provider's connection pool; undefined: not yet, or
   * passthrough.
   */
  dispatchedAt: number | undefined;
  /** Milliseconds from the exchange's start until the response (of a stream: its first frame) or the failure. */
  respondedAt: number | undefined;
  status: number | undefined;
  /** Bytes that had arrived of a whole response that ended before any plugin could see it. */
  unreadBytes: number | undefined;
  /** True once the attempt was handed to the provider's connection pool, whatever happened to it there. */
  dispatched = false;
  /** True once the provider may have received any of it. */
  sent = false;
  /** The provider's own request id, for the log. */
  requestId: string | undefined;
  error: GatewayError | undefined;
  /** True once the provider has refused the request because of state that it did not make. */
  refusedState = false;
  /** True once the provider has refused the request because it asks for a summary of the reasoning. */
  refusedSummary = false;
  /** True where this target has refused the request because of state: it is sent without any. Set by the engine. */
  withoutState = false;
  /** True where this provider refuses to summarise the reasoning: a translated request does not ask for it. Set by the engine. */
  withoutSummary = false;
  /** The provider's error where the response passes unchanged, without secrets; for log and ledger only, never for decisions. */
  refusal: Pick<GatewayError, "code" | "message"> | undefined;

  constructor(start: AttemptStart) {
    this.target = start.target;
    this.protocol = this.clientProtocol = start.protocol;
    this.method = start.method;
    this.headers = start.headers;
    this.body = start.body;
    this.startedAt = start.startedAt;
    this.caller = start.caller;
  }

  /**
   * Changes the body of this attempt only.
   * @param edits offsets in the current `body`
   * @throws GatewayError when the body is no longer JSON
   */
  edit(edits: readonly Edit[]): void {
    this.body = this.body.edited(edits);
  }

  /** Whether the request was translated. */
  get isTranslated(): boolean {
    return this.protocol !== this.clientProtocol;
  }

  /** Whether it lets go of its body once its answer has begun: a large one, which only the translation has made. */
  get releasesBody(): boolean {
    return this.isTranslated && this.body.length > MAX_UNCOUNTED_BODY;
  }

  /** Returns members that case-insensitive servers read as a member that was checked, and the edits that remove them. */
  lookAlikes(): LookAlikes {
    return lookAlikes(this.body, this.protocol);
  }

  /**
   * Replaces the names of models that the body names besides the requested one.
   * @param caller where it is restricted to some models, names are searched for at every place that can hold one
   * @throws GatewayError `key_not_allowed` where a restricted caller leaves the choice to the vendor; also what `map` throws
   */
  mapOtherModels(caller: Caller | undefined, map: (model: OtherModel) => string): void {
    const { body, protocol } = this;
    const found = findOtherModels(body, protocol, caller?.models !== undefined);
    if (found.length === 0) return;
    const unnamed = caller?.models && found.find((each) => each.unnamed);
    if (unnamed) throw unnamedModelsNotAllowed(caller, unnamed.path.join("."));
    this.edit(otherModelEdits(body, found, map));
  }
}
