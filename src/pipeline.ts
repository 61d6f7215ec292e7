import type { Admission } from "./core/admission.ts";
import type { Chain } from "./core/chain.ts";
import type { Exchange } from "./core/exchange.ts";
import { logExchange } from "./core/exchange-log.ts";
import type { Log } from "./core/log.ts";
import type { Redactor } from "./core/redactor.ts";
import { pluginAnswer } from "./downstream/plugin-answer.ts";
import type { Receive } from "./downstream/receive.ts";
import type { Reply } from "./downstream/reply.ts";
import type { Objects } from "./objects/objects.ts";
import type { UpstreamAnswer, Upstreams } from "./upstream/attempts.ts";
import type { ClientSide, UpstreamProxy } from "./upstream/proxy.ts";

/** The parts of a generation that every exchange passes. */
export interface Parts {
  admission: Admission;
  upstreams: Upstreams;
  proxy: UpstreamProxy;
  objects: Objects;
  log: Log;
  redactor: Redactor;
}

/** What a request's life needs of them. */
export type LifeParts = Omit<Parts, "upstreams" | "proxy"> & { upstreams: Pick<Upstreams, "reach"> };

/** What the client is told. */
export type Answering = ClientSide & Pick<Reply, "stream" | "refuse">;

/** The life of a request, from its checked head to its ledger entry. Never throws. */
export async function live(
  exchange: Exchange,
  chain: Chain,
  parts: LifeParts,
  receive: Receive,
  reply: Answering,
): Promise<void> {
  let answer: UpstreamAnswer | undefined;
  try {
    // Between two waits is what a batch does together (`Batch`): each lets the others do the same before the next step begins.
    await chain.access(exchange);
    if (!exchange.answer) {
      const entered = parts.admission.enter(exchange);
      if (entered) await entered;
      const asking = exchange.elapsed;
      const body = await receive();
      exchange.waited = exchange.elapsed - asking;
      exchange.receive(body);
      await chain.request(exchange);
    }
    if (!exchange.answer) {
      await chain.route(exchange);
    }
    if (!exchange.answer) {
      const owned = parts.objects.admit(exchange);
      if (owned) await owned;
    }
    answer = exchange.answer
      ? pluginAnswer(exchange, exchange.answer)
      : await parts.upstreams.reach(exchange, chain, reply);
    const made = chain.response(exchange, answer.head);
    const stages = made instanceof Promise ? await made : made;
    const noting = exchange.answer ? undefined : parts.objects.stage(exchange, answer.head);
    await reply.stream(answer, noting ? [noting, ...stages] : stages);
  } catch (error) {
    answer?.destroy();
    await reply.refuse(parts.redactor.error(error, exchange.credentials));
  } finally {
    exchange.form?.close();
    parts.admission.leave(exchange);
    const recorded = chain.done(exchange);
    logExchange(exchange, parts, recorded instanceof Promise ? await recorded : recorded);
  }
}
