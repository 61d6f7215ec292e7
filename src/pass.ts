import type { Chain } from "./core/chain.ts";
import { GatewayError } from "./core/errors.ts";
import type { Exchange } from "./core/exchange.ts";
import { logExchange } from "./core/exchange-log.ts";
import type { MaybePromise } from "./core/plugin.ts";
import { discardAnswer, pluginAnswer } from "./downstream/plugin-answer.ts";
import { openBodyAccount } from "./downstream/receive-body.ts";
import type { Reply } from "./downstream/reply.ts";
import type { Generation } from "./generation.ts";
import type { ExchangeParts } from "./pipeline.ts";
import { addCredential } from "./upstream/address.ts";
import { outgoingPass } from "./upstream/pass.ts";
import { PassMeter } from "./upstream/pass-meter.ts";
import type { PassMatch } from "./upstream/pass-path.ts";
import type { UpstreamAnswer } from "./upstream/received-answer.ts";

type PassParts = ExchangeParts & Pick<Generation, "limits" | "bodies" | "config">;

/**
 * Runs a request on a passthrough path (`pass` in gateway.yaml): bodies are not parsed, and only the phases access, send and done
 * run. Never throws.
 */
export async function runPassthrough(
  exchange: Exchange,
  chain: Chain,
  parts: PassParts,
  match: PassMatch,
  reply: Reply,
): Promise<void> {
  let answer: UpstreamAnswer | undefined;
  let recorded: { later: MaybePromise<GatewayError | undefined> } | undefined;
  const record = () => {
    recorded ??= { later: chain.done(exchange) };
    return recorded.later;
  };
  const settle = () => {
    record();
    parts.upstreams.persist();
  };
  try {
    const admitted = chain.access(exchange);
    if (admitted) await admitted;
    if (exchange.answer) {
      answer = pluginAnswer(exchange, exchange.answer);
      await reply.stream(answer, await chain.response(exchange, answer.head));
    } else {
      await parts.admission.acquire(exchange);
      await forwardUnparsed(exchange, chain, parts, match, reply, settle);
    }
  } catch (error) {
    discardAnswer(exchange, answer);
    // An exchange recorded as complete stays so, even if its client did not take the last bytes.
    if (!recorded) await reply.refuse(parts.redactor.error(error, exchange.credentials));
  } finally {
    exchange.bodyMemory?.close();
    parts.admission.release(exchange);
    const later = record();
    logExchange(exchange, parts, later instanceof Promise ? await later : later);
  }
}

/**
 * Passes request and response through the proxy.
 * @param settle records the exchange: the response is complete, and its last bytes are sent next
 * @throws GatewayError before the head, or where the response broke off
 */
async function forwardUnparsed(
  exchange: Exchange,
  chain: Chain,
  parts: PassParts,
  { path, below }: PassMatch,
  reply: Reply,
  settle: () => void,
): Promise<void> {
  const { proxy, redactor, objects, limits: pace, upstreams } = parts;
  const { stalled } = parts.config.connections;
  const attempt = path.createAttempt(exchange, below);
  const memory = openBodyAccount(exchange, parts, pace.maxBytes, (error) => passing.preempt(error));
  const passing = path.objects(exchange, below, objects, pace.maxBytes, memory);
  const owned = passing.admit();
  if (owned) await owned;
  exchange.attempts.push(attempt);
  upstreams.health.admit(attempt, exchange);
  const written = chain.send(exchange, attempt);
  if (written) await written;
  addCredential(attempt);
  const outgoing = outgoingPass(exchange, attempt);
  const meter = new PassMeter(exchange, attempt, path, () => reply.gatewayHeaders(), redactor, passing, settle);
  const slot = await upstreams.dispatch(exchange, attempt);
  try {
    reply.sendContinue();
    await proxy.pass({ ...outgoing, pace, stalled }, reply, meter);
  } catch (thrown) {
    attempt.error = GatewayError.from(thrown);
    if (attempt.error.code === "upstream_unreachable") attempt.sent = false;
    throw attempt.error;
  } finally {
    slot.release();
  }
  upstreams.health.recordPassThrough(attempt, meter.confirmedByBody || path.isModelApi(below), meter.refused);
}
