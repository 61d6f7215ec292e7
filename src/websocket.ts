import type { Attempt } from "./core/attempt.ts";
import { Body } from "./core/body.ts";
import type { Chain } from "./core/chain.ts";
import { GatewayError } from "./core/errors.ts";
import type { Exchange } from "./core/exchange.ts";
import { logExchange } from "./core/exchange-log.ts";
import type { Marketplace, Provider } from "./core/marketplace.ts";
import type { SocketProtocol } from "./core/protocol.ts";
import type { HandshakeResponse } from "./downstream/handshake.ts";
import type { RouteMatch } from "./downstream/paths.ts";
import { discardAnswer, pluginAnswer } from "./downstream/plugin-answer.ts";
import { namesModel } from "./downstream/query-names.ts";
import { outcomeOf, Reply, type ReplyParts } from "./downstream/reply.ts";
import { SocketMessageChecker } from "./objects/socket-message-checker.ts";
import type { ExchangeParts } from "./pipeline.ts";
import { addCredential } from "./upstream/address.ts";
import { callerIdOf, switchedOffError } from "./upstream/health.ts";
import { outgoingPass } from "./upstream/pass.ts";
import type { PassMatch } from "./upstream/pass-path.ts";
import type { ProviderSlot } from "./upstream/provider-slots.ts";
import type { UpstreamAnswer } from "./upstream/received-answer.ts";
import { SocketMeter } from "./upstream/socket-meter.ts";
import type { Handshake, SocketEnd, SocketLimits } from "./upstream/websocket.ts";

interface SocketParts extends ExchangeParts {
  config: ReplyParts["config"];
  sockets: SocketLimits;
  marketplace: Marketplace;
}

/**
 * Runs a WebSocket from its checked handshake to its ledger entry. Until the response to the handshake it is a request without a
 * body; plugins do not see its messages. Never throws.
 * @param response sends an error response to the handshake
 */
export async function runWebSocket(
  exchange: Exchange,
  { chain, pass }: RouteMatch,
  parts: SocketParts,
  handshake: Handshake,
  response: HandshakeResponse,
): Promise<void> {
  const reply = new Reply(exchange, handshake.request, response, parts);
  const refuse = (error: unknown) => {
    reply.refuse(parts.redactor.error(error, exchange.credentials), true);
    response.send(handshake.socket);
  };
  let slot: ProviderSlot | undefined;
  let answer: UpstreamAnswer | undefined;
  try {
    const admitted = chain.access(exchange);
    if (admitted) await admitted;
    if (!exchange.answer) await parts.admission.acquire(exchange);
    const attempt = exchange.answer
      ? undefined
      : pass
        ? await passthroughAttempt(exchange, pass, parts)
        : await routeAttempt(exchange, chain, parts);
    if (attempt) {
      exchange.attempts.push(attempt);
      const written = chain.send(exchange, attempt);
      if (written) await written;
      addCredential(attempt);
      slot = await parts.upstreams.dispatch(exchange, attempt);
      const allowed = pass ? pass.path.responseHeaders : parts.upstreams.responseHeaders(exchange.protocol);
      const socketProtocol = pass ? undefined : exchange.protocol.socket;
      const client = { gatewayHeaders: () => reply.gatewayHeaders(), refuse };
      const names = socketProtocol && messageChecker(exchange, socketProtocol, attempt.target.provider, parts);
      const meter = new SocketMeter(exchange, attempt, allowed, socketProtocol, client, parts.redactor, names);
      const outgoing = outgoingPass(exchange, attempt);
      setOutcome(exchange, attempt, await parts.proxy.connect(outgoing, handshake, parts.sockets, meter));
      parts.upstreams.health.recordPassThrough(attempt, !pass || pass.path.isModelApi(pass.below));
    } else if (exchange.answer) {
      answer = pluginAnswer(exchange, exchange.answer);
      response.send(handshake.socket);
      await reply.stream(answer, await chain.response(exchange, answer.head));
    }
  } catch (error) {
    discardAnswer(exchange, answer);
    refuse(error);
  } finally {
    slot?.release();
    parts.admission.release(exchange);
    const recorded = chain.done(exchange);
    logExchange(exchange, parts, recorded instanceof Promise ? await recorded : recorded);
  }
}

/**
 * Returns the attempt of a passthrough path. Messages on its socket may name any object, and are not parsed.
 * @throws GatewayError the path's refusal
 */
async function passthroughAttempt(
  exchange: Exchange,
  { path, below }: PassMatch,
  parts: SocketParts,
): Promise<Attempt> {
  const attempt = path.createAttempt(exchange, below);
  const owned = path.objects(exchange, below, parts.objects, 0).admit();
  if (owned) await owned;
  parts.upstreams.health.admit(attempt, exchange);
  return attempt;
}

/** Returns the attempt at the first target that takes WebSockets; undefined: a plugin has responded. There are no retries. */
async function routeAttempt(
  exchange: Exchange,
  chain: Chain,
  { upstreams, objects }: SocketParts,
): Promise<Attempt | undefined> {
  checkNames(exchange);
  exchange.receive(Body.empty);
  await chain.request(exchange);
  try {
    if (!exchange.answer) await chain.route(exchange);
  } catch (thrown) {
    throw thrown instanceof GatewayError && thrown.code === "not_served" ? socketNotServed(exchange) : thrown;
  }
  if (exchange.answer) return undefined;
  const { protocol, query } = exchange;
  const able = exchange.targets.filter(({ provider }) => provider.speaks.includes(protocol.name));
  const target = upstreams.firstTarget(upstreams.health.enabled(able), callerIdOf(exchange));
  if (!target) throw able.length > 0 ? switchedOffError() : socketNotServed(exchange);
  const named = query
    .entries()
    .filter(([name]) => protocol.socket?.objectParameters.includes(firstWord(name)))
    .map(([param, id]) => ({ id, param }));
  const owned =
    named.length > 0 &&
    objects.share !== "all" &&
    objects.admitAtProvider(target.provider.name, named, exchange.caller);
  if (owned) await owned;
  const attempt = upstreams.createAttempt(exchange, target);
  attempt.query = query.with(protocol.socket?.modelParameter ?? "model", target.model);
  return attempt;
}

/** Returns the checker of the client's messages, if there is anything to check. */
const messageChecker = (
  exchange: Exchange,
  protocol: SocketProtocol,
  provider: Provider,
  { objects, marketplace }: SocketParts,
) =>
  SocketMessageChecker.isNeeded(exchange, objects)
    ? new SocketMessageChecker(protocol, exchange, provider, objects, marketplace)
    : undefined;

/** Returns the error that makes clients fall back to HTTP. */
const socketNotServed = ({ model }: Exchange): GatewayError =>
  new GatewayError("upgrade_required", {
    message: `No provider of the model "${model?.id}" takes WebSockets.`,
    hint: "Use a POST request; the operator sets websocket: true at a provider that takes them.",
    param: "model",
  });

/**
 * Refuses parameters that the vendor could read as the name of another model, from a key that is restricted to some models.
 * @throws GatewayError `key_not_allowed`
 */
function checkNames({ caller, query, protocol: { socket } }: Exchange): void {
  if (!caller?.models || !socket) return;
  const { modelParameter, otherParameters } = socket;
  const other = query.names().find((name) => {
    const word = firstWord(name);
    return name !== modelParameter && (word === modelParameter || namesModel(name) || otherParameters.includes(word));
  });
  if (other !== undefined)
    throw new GatewayError("key_not_allowed", {
      message: `The key "${caller.name}" may use some models only, and the query parameter "${other}" could name another one.`,
      hint: `Name the model in "${modelParameter}" alone, or use another key.`,
    });
}

/** Returns the first word of a parameter's name. */
const firstWord = (name: string): string => /\w+/.exec(name.toLowerCase())?.[0] ?? "";

function setOutcome(exchange: Exchange, attempt: Attempt, { code, endedBy }: SocketEnd): void {
  exchange.closeCode = code;
  const { interruption } = exchange;
  if (interruption && interruption.code !== "interrupted") {
    exchange.error = interruption;
    exchange.outcome = outcomeOf(interruption, exchange);
  } else if (endedBy === "provider") {
    exchange.error = new GatewayError("upstream_truncated");
    attempt.error = exchange.error;
    exchange.outcome = "upstream_error";
  } else if (endedBy === "gateway") {
    exchange.error = new GatewayError("interrupted");
    exchange.outcome = "interrupted";
  } else if (endedBy === "client" || exchange.status === 0) {
    exchange.outcome = "aborted";
    exchange.status ||= 499;
  } else if (exchange.status >= 400 && !exchange.error) exchange.outcome = "upstream_error";
}
