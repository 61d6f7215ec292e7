import type { Chain } from "./core/chain.ts";
import { GatewayError } from "./core/errors.ts";
import type { Exchange } from "./core/exchange.ts";
import { logExchange } from "./core/exchange-log.ts";
import { pluginAnswer } from "./downstream/plugin-answer.ts";
import type { Reply } from "./downstream/reply.ts";
import type { Parts } from "./pipeline.ts";
import { addressed, authenticate, pathOf } from "./upstream/address.ts";
import type { UpstreamAnswer } from "./upstream/attempts.ts";
import { headerObject, PassMeter } from "./upstream/pass-meter.ts";
import type { PassMatch } from "./upstream/pass-path.ts";

/**
 * The life of a request on a path that passes what it takes: nobody reads its bodies, so of the phases only access, send
 * and done are run. Never throws.
 * @param waiting the client waits for `100 Continue` before it sends the body
 */
export async function pass(
  exchange: Exchange,
  chain: Chain,
  parts: Parts,
  match: PassMatch,
  reply: Reply,
  waiting: boolean,
): Promise<void> {
  let answer: UpstreamAnswer | undefined;
  try {
    const admitted = chain.access(exchange);
    if (admitted) await admitted;
    if (exchange.answer) {
      answer = pluginAnswer(exchange, exchange.answer);
      await reply.stream(answer, await chain.response(exchange, answer.head));
    } else {
      await passOn(exchange, chain, parts, match, reply, waiting);
    }
  } catch (error) {
    answer?.destroy();
    await reply.refuse(error);
  } finally {
    const recorded = chain.done(exchange);
    logExchange(exchange, parts.log, recorded instanceof Promise ? await recorded : recorded);
  }
}

/** Hands request and response over to the proxy. @throws GatewayError before the head, or where the answer broke off */
async function passOn(
  exchange: Exchange,
  chain: Chain,
  { proxy }: Parts,
  { path, below }: PassMatch,
  reply: Reply,
  waiting: boolean,
): Promise<void> {
  const attempt = path.attempt(exchange, below);
  exchange.attempts.push(attempt);
  const written = chain.send(exchange, attempt);
  if (written) await written;
  if (waiting) reply.response.writeContinue();
  authenticate(attempt);
  const { provider } = attempt.target;
  const { name: account, timeouts } = provider;
  const target = addressed(provider.url, pathOf(exchange, attempt));
  const meter = new PassMeter(exchange, attempt, path, () => reply.ownHeaders());
  attempt.sent = true;
  try {
    await proxy.pass({ target, headers: headerObject(attempt.headers), account, timeouts }, reply, meter);
  } catch (thrown) {
    attempt.error = GatewayError.from(thrown);
    if (attempt.error.code === "upstream_unreachable") attempt.sent = false;
    throw attempt.error;
  }
  meter.end();
}
