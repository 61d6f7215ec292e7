import { hash } from "node:crypto";
import {
  type DoneExchange,
  type Head,
  Log,
  Options,
  type Plugin,
  type ResponseExchange,
  type RouteExchange,
  type Stage,
  slot,
} from "model-gateway";
import { KeptValues } from "model-gateway/store";
import { inject, injectable } from "tsyringe";
import { z } from "zod";

/** Returns a stored response to a caller who repeats a request, streamed as before, on any gateway of the store. */
@injectable()
export default class Cache implements Plugin {
  static options = z.strictObject({
    seconds: z.number().positive().default(300).describe("How long an answer is kept."),
    bytes: z.int().positive().default(67_108_864).describe("Of all answers together; the oldest go first."),
    shared: z.boolean().default(false).describe("Whether a caller gets what another one has asked."),
    headers: z
      .array(z.string())
      .default(["gateway-strict", "anthropic-beta", "anthropic-version", "openai-beta"])
      .describe("Headers of a request that change its answer."),
  });
  // After models: the caller's permissions are checked before a response is found. Before rewrite: everything is in the
  // client's protocol.
  static after = ["models"];
  static before = ["rewrite"];

  private readonly state = slot((): { name?: string; pieces?: Buffer[] } => ({}));

  constructor(
    private readonly values: KeptValues,
    private readonly log: Log,
    @inject(Options) private readonly options: z.infer<typeof Cache.options>,
  ) {}

  async route(exchange: RouteExchange): Promise<void> {
    const { caller, path, query, headers, model, body, operation, dryRun } = exchange;
    if (!operation.generates || !body.scan || dryRun) return;
    // Everything that a response depends on: `?alt=sse` is another framing, `gateway-strict` refuses what would be dropped.
    const whose = this.options.shared ? "all" : [caller?.id];
    const asked = [whose, path, query.toString(), this.options.headers.map((name) => headers.get(name)), model?.id];
    const name = hash("sha256", JSON.stringify([...asked, body.bytes().toString()]));
    const kept = await this.values.get("cache", name).catch((error: Error) => this.logFailure(error));
    if (kept) {
      const [streamed = 0, length = 0] = kept;
      const answer = kept.subarray(2 + length);
      const headers = { "content-type": kept.toString("latin1", 2, 2 + length) };
      exchange.answer = { headers, body: streamed ? [answer] : answer };
    } else this.state(exchange).name = name;
  }

  response(exchange: ResponseExchange, head: Head): Stage | undefined {
    const state = this.state(exchange);
    const type = Buffer.from(head.headers.get("content-type") ?? "", "latin1");
    if (state.name === undefined || head.status !== 200 || type.length > 255) return undefined;
    const pieces = [Buffer.of(head.framing ? 1 : 0, type.length), type];
    state.pieces = pieces;
    return ({ kind, bytes }) => void (kind !== "end" && pieces.push(Buffer.from(bytes)));
  }

  done(exchange: DoneExchange): void {
    const { name, pieces } = this.state(exchange);
    const { seconds, bytes } = this.options;
    if (name === undefined || !pieces || exchange.outcome !== "completed") return;
    const answer = Buffer.concat(pieces);
    if (answer.length > bytes) return;
    this.values
      .set("cache", name, answer, { milliseconds: seconds * 1000, bytes })
      .catch((error) => this.logFailure(error));
  }

  private logFailure(error: Error): undefined {
    this.log.warn({ cause: error.message }, "the cache's store does not answer");
  }
}
