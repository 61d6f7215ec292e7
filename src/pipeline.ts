import type { Chain } from "./core/chain.ts";
import type { Exchange } from "./core/exchange.ts";
import { logExchange } from "./core/exchange-log.ts";
import type { Log } from "./core/log.ts";
import { pluginAnswer } from "./downstream/plugin-answer.ts";
import type { Receive } from "./downstream/receive.ts";
import type { Reply } from "./downstream/reply.ts";
import type { UpstreamAnswer, Upstreams } from "./upstream/attempts.ts";
import type { UpstreamProxy } from "./upstream/proxy.ts";

/** The parts of a generation that every exchange passes. */
export interface Parts {
  upstreams: Upstreams;
  proxy: UpstreamProxy;
  log: Log;
}

/** The life of a request, from its checked head to its ledger entry. Never throws. */
export async function live(
  exchange: Exchange,
  chain: Chain,
  { upstreams, log }: Parts,
  receive: Receive,
  reply: Reply,
): Promise<void> {
  let answer: UpstreamAnswer | undefined;
  try {
    // A phase that gives no promise is not waited for: each wait is a turn of the queue.
    const admitted = chain.access(exchange);
    if (admitted) await admitted;
    if (!exchange.answer) {
      exchange.receive(await receive());
      const asked = chain.request(exchange);
      if (asked) await asked;
    }
    if (!exchange.answer) {
      const routed = chain.route(exchange);
      if (routed) await routed;
    }
    answer = exchange.answer ? pluginAnswer(exchange, exchange.answer) : await upstreams.reach(exchange, chain, reply);
    const made = chain.response(exchange, answer.head);
    await reply.stream(answer, made instanceof Promise ? await made : made);
  } catch (error) {
    answer?.destroy();
    await reply.refuse(error);
  } finally {
    const recorded = chain.done(exchange);
    logExchange(exchange, log, recorded instanceof Promise ? await recorded : recorded);
  }
}
