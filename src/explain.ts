import type { IncomingMessage, ServerResponse } from "node:http";
import type { Attempt } from "./core/attempt.ts";
import { Body } from "./core/body.ts";
import { Chain, type Link } from "./core/chain.ts";
import { DryRun } from "./core/dry-run.ts";
import { GatewayError } from "./core/errors.ts";
import type { AbortListener, Exchange } from "./core/exchange.ts";
import { Marketplace, type Target } from "./core/marketplace.ts";
import { PHASES, type Phase, type Plugin } from "./core/plugin.ts";
import { isThenable } from "./core/plugin-deadline.ts";
import type { ReceiveBody } from "./downstream/receive-body.ts";
import { type ClientReply, type ExchangeParts, type PipelineParts, runExchange } from "./pipeline.ts";
import { addCredential, upstreamPath } from "./upstream/address.ts";
import type { Upstreams } from "./upstream/attempts.ts";
import { callerIdOf, noTargetError, switchedOffError } from "./upstream/health.ts";
import type { UpstreamAnswer } from "./upstream/received-answer.ts";
import { outcomeOfError } from "./upstream/retry.ts";
import { HeaderList } from "./wire/headers.ts";

/** What one plugin did in one phase. */
export interface ExplainedStep {
  plugin: string;
  phase: Phase | "serve";
  /** Descriptions of its changes; empty: it changed nothing. Never contains a header's value or text of the request. */
  did: string[];
}

/** A refusal or failure. */
interface ExplainedRefusal {
  status: number;
  code: string;
  message: string;
  /** Plugin and phase, like `auth.access`. */
  by: string | null;
}

/** A target, in the order in which targets would be requested. */
export interface ExplainedTarget {
  /** `provider:model`. */
  target: string;
  /** The reasons for its place. */
  why: string[];
  protocol: string;
  /** The request that would be sent to the provider, with its credential hidden. */
  request: {
    method: string;
    url: string;
    headers: [name: string, value: string][];
    credential: string | null;
    /** The body for the provider; of a form only the part around its model. */
    body: string;
  } | null;
  /** What plugins do for this attempt only. */
  steps: ExplainedStep[];
  /** Paths in the client's request that the provider's protocol cannot express. */
  dropped: readonly string[];
  notices: readonly string[];
  /** Why it would not be requested after all. */
  refused: ExplainedRefusal | null;
}

/** What would happen to a request. */
export interface Explanation {
  method: string;
  path: string;
  protocol: string;
  operation: string;
  chain: { name: string; plugins: string[] };
  caller: { id: string; name: string; group: string | null } | null;
  model: { asked: string | null; id: string | null; balance: string | null };
  steps: ExplainedStep[];
  /** Plugins that would see the response, in that order. */
  answer: string[];
  /** The plugin that responds itself. */
  answered_by: string | null;
  refused: ExplainedRefusal | null;
  targets: ExplainedTarget[];
  /** Upper bounds, as `limits` reserves them; null where no plugin calculates them. */
  maximum: { tokens: number; usd: number | null } | null;
  notices: readonly string[];
}

/**
 * Runs a request without its provider: the chain's own code decides, each target's request is built, and nothing is sent. A
 * plugin's refusal is part of the explanation.
 * @param withRequests whether the requests to providers are part of it: what is in them only the operator may know
 */
export async function explainExchange(
  exchange: Exchange,
  chain: Chain,
  parts: PipelineParts & Pick<ExchangeParts, "upstreams">,
  receive: ReceiveBody,
  withRequests: boolean,
): Promise<Explanation> {
  const dryRun = new DryRun();
  exchange.dryRun = dryRun;
  const steps: ExplainedStep[] = [];
  const dry = new DryUpstreams(parts.upstreams, steps, withRequests);
  const outcome = new DryReply(exchange);
  await runExchange(exchange, new DryChain(chain, steps), { ...parts, upstreams: dry }, receive, outcome);
  // No attempt was really made, so the response's headers must name none.
  exchange.attempts.length = 0;
  const { model, caller, answerer } = exchange;
  const maximum = dryRun.maximum && {
    tokens: dryRun.maximum.tokens,
    usd: exchange.targets.some(({ prices }) => prices) ? dryRun.maximum.cost / 1e9 : null,
  };
  return {
    method: exchange.method,
    path: exchange.path,
    protocol: exchange.protocol.name,
    operation: exchange.operation.name,
    chain: { name: chain.name, plugins: chain.links.map(({ name }) => name) },
    caller: caller ? { id: caller.id, name: caller.name, group: caller.group ?? null } : null,
    model: { asked: exchange.requestedModel ?? null, id: model?.id ?? null, balance: model?.balance ?? null },
    steps,
    answer: chain.links.flatMap(({ name, plugin }) => (plugin.response ? [name] : [])).reverse(),
    answered_by: answerer?.name ?? null,
    refused: outcome.refused ?? null,
    targets: dry.targets,
    maximum: maximum ?? null,
    notices: exchange.notices,
  };
}

/** A chain that records its plugins' changes, and whose responses pass no plugin. */
class DryChain extends Chain {
  constructor({ name, links, serving }: Chain, steps: ExplainedStep[]) {
    const watched = (link: Link): Link => ({ ...link, plugin: recordPlugin(link, steps) });
    super(name, links.map(watched), serving && watched(serving));
  }

  override response(): [] {
    return [];
  }
}

function recordPlugin({ name, plugin }: Link, steps: ExplainedStep[]): Plugin {
  const watched: Record<string, unknown> = {};
  for (const phase of [...PHASES, "serve"] as const) {
    const run = plugin[phase]?.bind(plugin) as ((exchange: Exchange, attempt?: Attempt) => unknown) | undefined;
    if (!run) continue;
    watched[phase] = phase === "done" || phase === "response" ? run : recordPhase(name, phase, run, steps);
  }
  return watched as Plugin;
}

function recordPhase(
  plugin: string,
  phase: ExplainedStep["phase"],
  run: (exchange: Exchange, attempt?: Attempt) => unknown,
  steps: ExplainedStep[],
) {
  return (exchange: Exchange, attempt?: Attempt): unknown => {
    const before = requestState(exchange, attempt);
    const record = (...refusal: string[]) =>
      steps.push({ plugin, phase, did: [...describeChanges(before, requestState(exchange, attempt)), ...refusal] });
    const fail = (thrown: unknown): never => {
      const { status, code } = GatewayError.from(thrown, "plugin_failed");
      record(`refuses it: ${status} ${code}`);
      throw thrown;
    };
    let made: unknown;
    try {
      made = run(exchange, attempt);
    } catch (thrown) {
      return fail(thrown);
    }
    if (!isThenable(made)) {
      record();
      return made;
    }
    return Promise.resolve(made).then((value) => {
      record();
      return value;
    }, fail);
  };
}

/** Replaces the upstreams: builds each target's request, and sends none. */
class DryUpstreams {
  readonly targets: ExplainedTarget[] = [];

  constructor(
    private readonly upstreams: Upstreams,
    private readonly steps: ExplainedStep[],
    private readonly withRequests: boolean,
  ) {}

  async reach(exchange: Exchange, chain: Chain): Promise<UpstreamAnswer> {
    const ordered = this.upstreams.health.ordered(exchange.targets, callerIdOf(exchange));
    const off = exchange.targets
      .filter((target) => !ordered.includes(target))
      .map((target) => switchedOffTarget(exchange, target));
    if (ordered.length === 0) {
      this.targets.push(...off);
      throw noTargetError(exchange);
    }
    const best = this.upstreams.firstTarget(ordered, callerIdOf(exchange));
    const order = best && best !== ordered[0] ? [best, ...ordered.filter((each) => each !== best)] : ordered;
    // The result for the client: a refusal that is final at the first target ends it, any other moves on to the next target.
    let [taken, finalError]: [boolean, GatewayError | undefined] = [false, undefined];
    for (const target of order) {
      const error = await this.attempt(exchange, chain, target);
      const ended = taken || (finalError !== undefined && outcomeOfError(finalError.code) === "final");
      if (ended) continue;
      taken = error === undefined;
      finalError = error;
    }
    this.targets.push(...off);
    if (finalError) throw finalError;
    return { head: { status: 200, headers: new HeaderList() }, read() {}, resume() {}, destroy() {} };
  }

  /** Builds a target's request; returns the error if it cannot be requested. */
  private async attempt(exchange: Exchange, chain: Chain, target: Target): Promise<GatewayError | undefined> {
    const { health, slots } = this.upstreams;
    const attempt = this.upstreams.createAttempt(exchange, target);
    exchange.attempts.push(attempt);
    const from = this.steps.length;
    let error: GatewayError | undefined;
    try {
      await chain.send(exchange, attempt);
      addCredential(attempt);
    } catch (thrown) {
      error = GatewayError.from(thrown, "plugin_failed");
    }
    this.targets.push({
      target: Marketplace.nameOf(target),
      why: targetReasons(exchange, attempt, health.isUsable(target, attempt.caller), slots.hasFree(target.provider)),
      protocol: attempt.protocol.name,
      request: error || !this.withRequests ? null : explainedRequest(exchange, attempt),
      steps: this.steps.splice(from),
      dropped: attempt.losses?.dropped ?? [],
      notices: attempt.losses?.notices ?? [],
      refused: error ? explainedRefusal(error) : null,
    });
    // Or the bodies of all targets would be kept at the same time, which nobody counts.
    if (!this.withRequests) attempt.body = Body.empty;
    return error;
  }
}

/** Describes a target that would not be tried: its request is not built. */
function switchedOffTarget({ protocol }: Exchange, target: Target): ExplainedTarget {
  const { speaks } = target.provider;
  return {
    target: Marketplace.nameOf(target),
    why: ["switched off by an admin: not tried"],
    protocol: target.protocolName ?? (speaks.includes(protocol.name) ? protocol.name : (speaks[0] ?? protocol.name)),
    request: null,
    ...{ steps: [], dropped: [], notices: [] },
    refused: explainedRefusal(switchedOffError()),
  };
}

/** Replaces the reply: records a plugin's response or a refusal, and writes nothing. */
class DryReply implements ClientReply {
  /** Never read: no provider gets this request. */
  declare readonly request: IncomingMessage;
  declare readonly response: ServerResponse;
  refused: ExplainedRefusal | undefined;

  constructor(private readonly exchange: Exchange) {}

  addAbortListener(listener: AbortListener): void {
    this.exchange.addAbortListener(listener);
  }

  removeAbortListener(listener: AbortListener): void {
    this.exchange.removeAbortListener(listener);
  }

  async stream(answer: UpstreamAnswer): Promise<void> {
    this.exchange.status = answer.head.status;
    answer.destroy();
  }

  afterDelivery(run: () => void): void {
    run();
  }

  refuse(thrown: unknown): void {
    const error = GatewayError.from(thrown);
    this.exchange.status = error.status;
    this.exchange.error = error;
    this.exchange.outcome = error.status < 500 ? "rejected" : "failed";
    this.refused = explainedRefusal(error);
  }
}

function explainedRefusal(thrown: unknown): ExplainedRefusal {
  const { status, code, message, origin } = GatewayError.from(thrown, "plugin_failed");
  return { status, code, message, by: origin ?? null };
}

function explainedRequest(exchange: Exchange, attempt: Attempt): NonNullable<ExplainedTarget["request"]> {
  const { target, credential, headers } = attempt;
  const shown: [string, string][] = [];
  for (let i = 0; i < headers.lines.length; i += 2) {
    const [name = "", value = ""] = headers.lines.slice(i, i + 2);
    shown.push([name, credential?.secret ? value.replaceAll(credential.secret, "…") : value]);
  }
  const url = `${target.provider.url.origin}${upstreamPath(exchange, attempt)}`;
  return {
    method: attempt.method,
    url,
    headers: shown,
    credential: credential?.label ?? null,
    body: attempt.body.bytes().toString(),
  };
}

function targetReasons(exchange: Exchange, attempt: Attempt, usable: boolean, free: boolean): string[] {
  const { model, targets, protocol } = exchange;
  const { target } = attempt;
  const why: string[] = [];
  if (target.modelId !== undefined && target.modelId !== model?.id)
    why.push(`fallback: the model ${target.modelId}, tried only before the first byte`);
  else if (model && model.targets.length > 1) why.push(describeBalance(target, model.targets, model.balance));
  if (exchange.conversation !== undefined && targets.length > 1) why.push("a conversation stays with its target");
  if (!usable) why.push("suspended at the moment: it failed, or its credentials were rejected or rate limited");
  if (!free) why.push("its provider has no capacity at the moment");
  const { speaks } = target.provider;
  if (target.protocolName !== undefined) why.push(`via ${target.protocolName} by gateway.yaml`);
  else if (!speaks.includes(protocol.name)) why.push(`does not speak ${protocol.name}: translated`);
  else if (attempt.protocol === protocol) why.push(`speaks ${protocol.name} as the client does`);
  else why.push(`serves this request better in ${attempt.protocol.name} than in ${protocol.name}: translated`);
  if (target.provider.credentials.length > 1) why.push(`${target.provider.credentials.length} credentials in turn`);
  return why;
}

function describeBalance(target: Target, targets: readonly Target[], balance: string): string {
  if (balance !== "weighted") return `balance: ${balance}`;
  const all = targets.reduce((sum, { weight }) => sum + weight, 0);
  return `weight ${target.weight} of ${all}: ${Math.round((target.weight / all) * 100)} % of new conversations begin here`;
}

/** The state that a plugin may change. */
interface RequestState {
  caller: string | undefined;
  headers: ReadonlyMap<string, string>;
  query: string;
  asked: string | undefined;
  model: string | undefined;
  targets: readonly string[];
  notices: readonly string[];
  dropped: readonly string[];
  reply: readonly string[];
  answer: string | undefined;
  protocol: string;
  body: Body;
  notes: readonly string[];
}

function requestState(exchange: Exchange, attempt: Attempt | undefined): RequestState {
  const { caller, answer } = exchange;
  const { lines } = attempt?.headers ?? exchange.headers;
  const headers = new Map<string, string>();
  for (let i = 0; i < lines.length; i += 2) headers.set((lines[i] as string).toLowerCase(), lines[i + 1] as string);
  return {
    caller: caller && `${caller.name} (${[caller.id, caller.group].filter(Boolean).join(", ")})`,
    headers,
    query: attempt?.query ?? exchange.query.toString(),
    asked: exchange.requestedModel,
    model: exchange.model?.id,
    targets: exchange.targets.map(Marketplace.nameOf),
    notices: [...exchange.notices],
    dropped: [...exchange.dropped, ...(attempt?.losses?.dropped ?? [])],
    reply: [...exchange.replyHeaders],
    answer: answer && `${answer.status ?? 200}`,
    protocol: (attempt?.protocol ?? exchange.protocol).name,
    body: attempt?.body ?? exchange.body,
    notes: [...(exchange.dryRun?.notes ?? [])],
  };
}

function describeChanges(before: RequestState, after: RequestState): string[] {
  const did: string[] = [];
  const added = <T>(old: readonly T[], now: readonly T[]) => now.slice(old.length);
  if (after.caller !== before.caller) did.push(`accepts it as ${after.caller}`);
  did.push(...differences("header", before.headers, after.headers));
  if (after.query !== before.query) did.push(`query: ${before.query || "none"} → ${after.query || "none"}`);
  if (after.asked !== before.asked) did.push(`requested model: ${before.asked} → ${after.asked}`);
  if (after.model !== before.model) did.push(`model: ${after.model}`);
  if (after.targets.join() !== before.targets.join()) did.push(`targets: ${after.targets.join(", ") || "none"}`);
  if (after.protocol !== before.protocol)
    did.push(`translates ${before.protocol} to ${after.protocol}: ${before.body.length} → ${after.body.length} bytes`);
  else if (before.body.length === 0 && after.body.length > 0) did.push(`reads the body: ${after.body.length} bytes`);
  else if (before.body !== after.body) did.push(...memberChanges(before.body, after.body));
  for (const path of added(before.dropped, after.dropped)) did.push(`leaves out ${path}`);
  for (const notice of added(before.notices, after.notices)) did.push(`notice to the client: ${notice}`);
  const reply = added(before.reply, after.reply);
  for (let i = 0; i < reply.length; i += 2) did.push(`answer's header ${reply[i]}: ${reply[i + 1]}`);
  did.push(...added(before.notes, after.notes));
  if (after.answer !== before.answer) did.push(`responds itself: ${after.answer}`);
  return did;
}

/**
 * Returns the changes at the top level, with the value of `model`, which is what people usually look for. The bytes are compared:
 * to parse a large body in each phase of each plugin would block the event loop for long.
 */
function memberChanges(old: Body, now: Body): string[] {
  if (!old.scan || !now.scan) return [];
  const did = differences("member", membersOf(old), membersOf(now), (a, b) => a.equals(b));
  const shown = (body: Body) => JSON.stringify(body.value("model"));
  return did.map((line) => (line === "changes member model" ? `member model: ${shown(old)} → ${shown(now)}` : line));
}

/** Returns the bytes of each member's value, by its name. */
function membersOf(body: Body): Map<string, Buffer> {
  // Joined once, so that no slice is a copy.
  const bytes = body.bytes();
  return new Map(body.scan?.members.map(({ name, start, end }) => [name, bytes.subarray(start, end)]));
}

function differences<Value>(
  what: string,
  old: ReadonlyMap<string, Value>,
  now: ReadonlyMap<string, Value>,
  isSame: (a: Value, b: Value) => boolean = Object.is,
): string[] {
  const names = new Set([...old.keys(), ...now.keys()]);
  return [...names].flatMap((name) => {
    const [before, after] = [old.get(name), now.get(name)];
    if (after === undefined) return [`removes ${what} ${name}`];
    if (before === undefined) return [`adds ${what} ${name}`];
    return isSame(before, after) ? [] : [`changes ${what} ${name}`];
  });
}
