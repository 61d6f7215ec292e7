import type { Chain } from "./core/chain.ts";
import type { Exchange } from "./core/exchange.ts";
import type { Log } from "./core/log.ts";
import type { Plugin, Stage } from "./core/plugin.ts";
import type { Receive } from "./downstream/receive.ts";
import type { Reply } from "./downstream/reply.ts";
import type { Upstreams } from "./upstream/attempts.ts";

/** The parts of a generation that every exchange passes. */
export interface Parts {
  upstreams: Upstreams;
  log: Log;
}

/** The life of a request, from its checked head to its ledger entry. Never throws. */
export async function live(
  exchange: Exchange,
  chain: Chain,
  parts: Parts,
  receive: Receive,
  reply: Reply,
): Promise<void> {
  try {
    // A phase that gives no promise is not waited for: each wait is a turn of the queue.
    const admitted = chain.access(exchange);
    if (admitted) await admitted;
    exchange.receive(await receive());
    const asked = chain.request(exchange);
    if (asked) await asked;
    const routed = chain.route(exchange);
    if (routed) await routed;
    if (exchange.answer) reply.answer(exchange.answer);
    else await pass(exchange, chain, parts, reply);
  } catch (error) {
    await reply.refuse(error);
  } finally {
    const failed = chain.done(exchange);
    record(exchange, parts.log, failed instanceof Promise ? await failed : failed);
  }
}

/** Asks a provider, and hands its answer to the client. */
async function pass(exchange: Exchange, chain: Chain, parts: Parts, reply: Reply): Promise<void> {
  const upstream = await parts.upstreams.reach(exchange, chain, reply);
  let stages: Stage[];
  try {
    const made = chain.response(exchange, upstream.head);
    stages = made instanceof Promise ? await made : made;
  } catch (thrown) {
    upstream.destroy();
    throw thrown;
  }
  await reply.stream(upstream, stages);
}

/** The same for a path that a plugin answers itself. */
export async function serve(
  exchange: Exchange,
  chain: Chain,
  plugin: Plugin,
  parts: Parts,
  reply: Reply,
): Promise<void> {
  try {
    await chain.access(exchange);
    await reply.answer((await plugin.serve?.(exchange)) ?? { status: 404, body: "" });
  } catch (error) {
    await reply.refuse(error);
  } finally {
    const failed = await chain.done(exchange);
    record(exchange, parts.log, failed);
  }
}

/** Entries of a list in a log line. */
const LOGGED = 20;

/** One log line for each exchange, however it ended. */
function record(exchange: Exchange, log: Log, failed: Error | undefined): void {
  const { error, caller, model, attempts, usage } = exchange;
  const last = attempts.at(-1);
  const fields = {
    id: exchange.id,
    key: caller?.id,
    method: exchange.method,
    path: exchange.path,
    model: model?.id ?? exchange.requestedModel,
    target: last && `${last.target.provider.name}:${last.target.model}`,
    via: last && last.protocol !== exchange.protocol ? last.protocol.name : undefined,
    attempts: attempts.length,
    upstream_id: last?.requestId,
    status: exchange.status,
    outcome: exchange.outcome,
    tokens_in: usage?.in.total,
    tokens_out: usage?.out.total,
    first_byte_ms: exchange.firstByte === undefined ? undefined : Math.round(exchange.firstByte),
    ms: Math.round(exchange.elapsed),
    bytes: exchange.written,
    dropped: exchange.dropped.length > 0 ? exchange.dropped.slice(0, LOGGED) : undefined,
    unsaid: exchange.droppedFromAnswer.length > 0 ? exchange.droppedFromAnswer : undefined,
    error: error && { code: error.code, message: error.message, origin: error.origin, cause: causeOf(error) },
  };
  if (failed)
    log.error(
      { id: exchange.id, origin: (failed as { origin?: string }).origin, cause: causeOf(failed) },
      "a plugin failed to record",
    );
  if (error && error.status >= 500) log.warn(fields, "exchange");
  else log.info(fields, "exchange");
}

/** What lies under an error, for the log only: the client never sees it. */
function causeOf(error: Error): string | undefined {
  const cause = error.cause;
  if (cause === undefined) return undefined;
  return cause instanceof Error ? (cause.stack ?? cause.message) : String(cause);
}
