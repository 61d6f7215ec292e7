import type { Admission } from "./core/admission.ts";
import type { Body } from "./core/body.ts";
import type { Chain } from "./core/chain.ts";
import { GatewayError } from "./core/errors.ts";
import type { Exchange } from "./core/exchange.ts";
import { type ExchangeLogParts, logExchange } from "./core/exchange-log.ts";
import { discardAnswer, pluginAnswer } from "./downstream/plugin-answer.ts";
import type { ReceiveBody } from "./downstream/receive-body.ts";
import type { Reply } from "./downstream/reply.ts";
import type { ObjectAccess } from "./objects/objects.ts";
import type { Upstreams } from "./upstream/attempts.ts";
import type { ClientSide, UpstreamProxy } from "./upstream/proxy.ts";
import type { UpstreamAnswer } from "./upstream/received-answer.ts";

/** The parts of a generation that every exchange uses. */
export interface ExchangeParts extends ExchangeLogParts {
  admission: Admission;
  upstreams: Upstreams;
  proxy: UpstreamProxy;
  objects: ObjectAccess;
}

/** The parts that a request's life uses. */
export type PipelineParts = Omit<ExchangeParts, "upstreams" | "proxy"> & { upstreams: Pick<Upstreams, "reach"> };

/** The client side of a request. */
export type ClientReply = ClientSide & Pick<Reply, "stream" | "refuse" | "afterDelivery">;

/** Waits for the rest of the client's body, and notes how long. */
async function waitForBody(exchange: Exchange, body: Promise<Body>): Promise<Body> {
  const began = exchange.elapsed;
  const whole = await body;
  exchange.bodyWait = exchange.elapsed - began;
  return whole;
}

/** Runs a request from its checked head to its ledger entry. Never throws. */
export async function runExchange(
  exchange: Exchange,
  chain: Chain,
  parts: PipelineParts,
  receive: ReceiveBody,
  reply: ClientReply,
): Promise<void> {
  let answer: UpstreamAnswer | undefined;
  try {
    // The steps between two awaits are batched (`Batch`): all requests of a batch finish a step before the next one begins.
    await chain.access(exchange);
    if (!exchange.answer) {
      const entered = parts.admission.acquire(exchange);
      if (entered) await entered;
      const body = receive();
      exchange.receive(body instanceof Promise ? await waitForBody(exchange, body) : body);
      await chain.request(exchange);
    }
    if (!exchange.answer) {
      await chain.route(exchange);
    }
    // From here on the key's limits bound how many such requests it has, and the memory for bodies how large they are together.
    exchange.bodyMemory?.retainWhileAnswered();
    // An answer of a plugin too, once a model is chosen: it may repeat what another key was answered about its objects.
    if (!exchange.answer || exchange.targets.length > 0) {
      const owned = parts.objects.admit(exchange);
      if (owned) await owned;
    }
    answer = exchange.answer
      ? pluginAnswer(exchange, exchange.answer)
      : await parts.upstreams.reach(exchange, chain, reply);
    exchange.bodyMemory?.releaseAllButRetained();
    const made = chain.response(exchange, answer.head);
    const stages = made instanceof Promise ? await made : made;
    exchange.releaseAllButBody();
    const objectStage = exchange.answer ? undefined : parts.objects.recordingStage(exchange, answer.head);
    await reply.stream(answer, objectStage ? [objectStage, ...stages] : stages);
  } catch (error) {
    discardAnswer(exchange, answer);
    if (error instanceof GatewayError && error.code === "plugin_timeout") exchange.cancel();
    await reply.refuse(parts.redactor.error(error, exchange.credentials));
  } finally {
    exchange.form?.close();
    exchange.bodyMemory?.close();
    answer?.release?.(reply);
    answer?.recordEnd?.(exchange);
    parts.admission.release(exchange);
    const recorded = chain.done(exchange);
    logExchange(exchange, parts, recorded instanceof Promise ? await recorded : recorded);
  }
}
