import { Body } from "./core/body.ts";
import type { Chain } from "./core/chain.ts";
import { GatewayError } from "./core/errors.ts";
import type { Attempt, Exchange } from "./core/exchange.ts";
import { logExchange } from "./core/exchange-log.ts";
import type { Marketplace, Provider } from "./core/marketplace.ts";
import type { SocketWords } from "./core/protocol.ts";
import type { HandshakeResponse } from "./downstream/handshake.ts";
import type { RouteMatch } from "./downstream/paths.ts";
import { pluginAnswer } from "./downstream/plugin-answer.ts";
import { Reply } from "./downstream/reply.ts";
import { SocketNames } from "./objects/socket-names.ts";
import type { Parts } from "./pipeline.ts";
import { addressed, authenticate, pathOf } from "./upstream/address.ts";
import { callerOf, switchedOff } from "./upstream/health.ts";
import { headerObject } from "./upstream/pass-meter.ts";
import type { PassMatch } from "./upstream/pass-path.ts";
import type { Place } from "./upstream/places.ts";
import { SocketMeter } from "./upstream/socket-meter.ts";
import type { Handshake, SocketEnd, SocketLimits } from "./upstream/websocket.ts";

interface SocketParts extends Parts {
  sockets: SocketLimits;
  marketplace: Marketplace;
}

/**
 * Runs a WebSocket from its checked handshake to its ledger entry. Until the response to the handshake it is a request without a
 * body; plugins do not see its messages. Never throws.
 * @param response sends an error response to the handshake
 */
export async function websocket(
  exchange: Exchange,
  { chain, pass }: RouteMatch,
  parts: SocketParts,
  handshake: Handshake,
  response: HandshakeResponse,
): Promise<void> {
  const reply = new Reply(exchange, handshake.request, response, parts.upstreams.persist);
  const refuse = (error: unknown) => {
    reply.refuse(parts.redactor.error(error, exchange.credentials), true);
    response.send(handshake.socket);
  };
  const { health, places } = parts.upstreams;
  let place: Place | undefined;
  try {
    const admitted = chain.access(exchange);
    if (admitted) await admitted;
    if (!exchange.answer) await parts.admission.enter(exchange);
    const attempt = pass ? await passing(exchange, pass, parts) : await aim(exchange, chain, parts);
    if (attempt) {
      exchange.attempts.push(attempt);
      const written = chain.send(exchange, attempt);
      if (written) await written;
      authenticate(attempt);
      place = await places.take(attempt.target.provider, exchange);
      if (exchange.aborted) throw new GatewayError("client_gone");
      attempt.tried = true;
      attempt.sent = true;
      parts.upstreams.persist();
      const allowed = pass ? pass.path.responseHeaders : parts.upstreams.responseHeaders(exchange.protocol);
      const words = pass ? undefined : exchange.protocol.socket;
      const client = { own: () => reply.ownHeaders(), refuse };
      const { provider } = attempt.target;
      const names = words && judge(exchange, words, provider, parts);
      const meter = new SocketMeter(exchange, attempt, allowed, words, client, parts.redactor, names);
      const target = addressed(provider.url, pathOf(exchange, attempt));
      const { name, timeouts } = provider;
      const account = attempt.credential?.account ?? name;
      const outgoing = { target, headers: headerObject(attempt.headers), account, timeouts };
      settle(exchange, attempt, await parts.proxy.connect(outgoing, handshake, parts.sockets, meter));
      health.passed(attempt, !pass || pass.path.knows(pass.below));
    } else if (exchange.answer) {
      const answer = pluginAnswer(exchange, exchange.answer);
      response.send(handshake.socket);
      await reply.stream(answer, await chain.response(exchange, answer.head));
    }
  } catch (error) {
    refuse(error);
  } finally {
    place?.leave();
    parts.admission.leave(exchange);
    const recorded = chain.done(exchange);
    logExchange(exchange, parts, recorded instanceof Promise ? await recorded : recorded);
  }
}

/**
 * Returns the attempt of a passthrough path. Messages on its socket may name any object, and are not parsed.
 * @throws GatewayError the path's refusal
 */
async function passing(exchange: Exchange, { path, below }: PassMatch, parts: SocketParts): Promise<Attempt> {
  const attempt = path.attempt(exchange, below);
  const owned = path.objects(exchange, below, parts.objects, 0).admit(path.open);
  if (owned) await owned;
  parts.upstreams.health.admit(attempt.target);
  attempt.credential = parts.upstreams.health.credential(attempt.target, undefined, attempt.caller);
  return attempt;
}

/** Returns the attempt at the first target that takes WebSockets; undefined: a plugin has responded. There are no retries. */
async function aim(
  exchange: Exchange,
  chain: Chain,
  { upstreams, objects }: SocketParts,
): Promise<Attempt | undefined> {
  checkNames(exchange);
  exchange.receive(Body.empty);
  if (!exchange.answer) await chain.request(exchange);
  try {
    if (!exchange.answer) await chain.route(exchange);
  } catch (thrown) {
    throw thrown instanceof GatewayError && thrown.code === "not_served" ? withoutSocket(exchange) : thrown;
  }
  if (exchange.answer) return undefined;
  const { protocol, query } = exchange;
  const able = exchange.targets.filter(({ provider }) => provider.speaks.includes(protocol.name));
  const target = upstreams.first(upstreams.health.on(able), callerOf(exchange));
  if (!target) throw able.length > 0 ? switchedOff() : withoutSocket(exchange);
  const named = query
    .entries()
    .filter(([name]) => protocol.socket?.objects.includes(wordOf(name)))
    .map(([param, id]) => ({ id, param }));
  const owned =
    named.length > 0 && objects.share !== "all" && objects.admitAt(target.provider.name, named, exchange.caller);
  if (owned) await owned;
  const attempt = upstreams.begin(exchange, target);
  attempt.query = query.with(protocol.socket?.model ?? "model", target.model);
  return attempt;
}

/** Returns the checker of the client's messages, if there is anything to check. */
const judge = (exchange: Exchange, words: SocketWords, provider: Provider, { objects, marketplace }: SocketParts) =>
  SocketNames.needed(exchange, objects) ? new SocketNames(words, exchange, provider, objects, marketplace) : undefined;

/** Returns the error that makes clients fall back to HTTP. */
const withoutSocket = ({ model }: Exchange): GatewayError =>
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
  const { model, elsewhere } = socket;
  const other = query.names().find((name) => {
    const word = wordOf(name);
    return name !== model && (word === model || elsewhere.includes(word));
  });
  if (other !== undefined)
    throw new GatewayError("key_not_allowed", {
      message: `The key "${caller.name}" may use some models only, and the query parameter "${other}" could name another one.`,
      hint: `Name the model in "${model}" alone, or use another key.`,
    });
}

/** Returns the first word of a parameter's name. */
const wordOf = (name: string): string => /\w+/.exec(name.toLowerCase())?.[0] ?? "";

function settle(exchange: Exchange, attempt: Attempt, { code, died }: SocketEnd): void {
  exchange.closeCode = code;
  const { interruption } = exchange;
  if (interruption && interruption.code !== "interrupted") {
    exchange.error = interruption;
    exchange.outcome = "rejected";
  } else if (died === "provider") {
    exchange.error = new GatewayError("upstream_truncated");
    attempt.error = exchange.error;
    exchange.outcome = "upstream_error";
  } else if (died === "gateway") {
    exchange.error = new GatewayError("interrupted");
    exchange.outcome = "interrupted";
  } else if (died === "client" || exchange.status === 0) {
    exchange.outcome = "aborted";
    exchange.status ||= 499;
  } else if (exchange.status >= 400 && !exchange.error) exchange.outcome = "upstream_error";
}
