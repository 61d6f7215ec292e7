import { hash } from "node:crypto";
import {
  type Body,
  type DoneExchange,
  type Head,
  Log,
  Options,
  type Plugin,
  type RequestExchange,
  type ResponseExchange,
  type RouteExchange,
  type Stage,
  slot,
} from "model-gateway";
import { KeptValues } from "model-gateway/store";
import { inject, injectable } from "tsyringe";
import { z } from "zod";

/** Bytes of the largest answer that is kept: each of those that run at the same time takes as many. */
const MAX_ANSWER = 4_194_304;

/** What is stored of a response besides its bytes. */
interface CachedHead {
  type: string;
  /** What the translation could not express, for `gateway-dropped` and `gateway-notice`. */
  dropped: readonly string[];
  notices: readonly string[];
}

/** Returns a stored response to a caller who repeats a request, streamed as before, on any gateway of the store. */
@injectable()
export default class Cache implements Plugin {
  static options = z.strictObject({
    seconds: z.number().positive().default(300).describe("How long an answer is kept."),
    bytes: z.int().positive().default(67_108_864).describe("Of all answers together; the oldest go first."),
    shared: z.boolean().default(false).describe("Whether a caller gets what another one has asked."),
    headers: z
      .array(z.string().toLowerCase())
      .default(["gateway-strict", "anthropic-beta", "anthropic-version", "openai-beta"])
      .describe(
        "Headers of a request that change its answer, besides those that gateway.yaml forwards to its providers.",
      ),
  });
  // After models: the caller's permissions are checked before a response is found. Before rewrite: everything is in the
  // client's protocol.
  static after = ["models"];
  static before = ["rewrite"];

  private readonly state = slot((): { asked?: Body; name?: string; pieces?: Buffer[]; type?: string } => ({}));

  constructor(
    private readonly values: KeptValues,
    private readonly log: Log,
    @inject(Options) private readonly options: z.infer<typeof Cache.options>,
  ) {}

  request(exchange: RequestExchange): void {
    this.state(exchange).asked = exchange.body;
  }

  async route(exchange: RouteExchange): Promise<void> {
    const { caller, path, query, headers, model, body, operation, dryRun, targets } = exchange;
    const { asked = body } = this.state(exchange);
    delete this.state(exchange).asked;
    if (!operation.generates || !body.scan || dryRun) return;
    // Everything that a response depends on: `?alt=sse` is another framing, `gateway-strict` refuses what would be dropped.
    const whose = this.options.shared ? "all" : [caller?.id];
    const matters = [...this.options.headers, ...targets.flatMap(({ provider }) => provider.forward)];
    const lines = [...headers.entries()].filter(([name]) => matters.some((each) => isNamedBy(name, each)));
    // What plugins behind this one have changed, like a mask in place of a name, they may restore in the answer that is kept: it
    // answers only what was the same here, too. All of them have changed it before the first `route`.
    const bodies = [...new Set([asked, body])].map((each) => each.bytes().toString());
    const name = hash("sha256", JSON.stringify([whose, path, query.toString(), lines, model?.id, bodies]));
    const kept = await this.values.get("cache", name).catch((error: Error) => this.logFailure(error));
    if (kept) {
      const from = 4 + kept.readUInt32BE();
      const { type, dropped, notices }: CachedHead = JSON.parse(kept.toString("utf8", 4, from));
      exchange.answer = { headers: { "content-type": type }, body: kept.subarray(from) };
      exchange.dropped.push(...dropped.filter((path) => !exchange.dropped.includes(path)));
      exchange.notices.push(...notices.filter((text) => !exchange.notices.includes(text)));
    } else this.state(exchange).name = name;
  }

  response(exchange: ResponseExchange, head: Head): Stage | undefined {
    const state = this.state(exchange);
    if (state.name === undefined || head.status !== 200) return undefined;
    Object.assign(state, { pieces: [], type: head.headers.get("content-type") });
    let room = Math.min(this.options.bytes, MAX_ANSWER);
    return ({ kind, bytes }) => {
      room -= bytes.length;
      if (room < 0) delete state.pieces;
      else if (kind !== "end") state.pieces?.push(Buffer.from(bytes));
    };
  }

  done(exchange: DoneExchange): void {
    const { name, pieces, type = "" } = this.state(exchange);
    const { seconds, bytes } = this.options;
    if (name === undefined || !pieces || exchange.outcome !== "completed") return;
    const dropped = [...exchange.dropped, ...exchange.droppedFromResponse];
    // Other notices are about this caller.
    const head: CachedHead = { type, dropped, notices: exchange.attempt?.losses?.notices ?? [] };
    const headBytes = Buffer.from(JSON.stringify(head));
    const length = Buffer.alloc(4);
    length.writeUInt32BE(headBytes.length);
    const answer = Buffer.concat([length, headBytes, ...pieces]);
    if (answer.length > bytes) return;
    this.values
      .set("cache", name, answer, { milliseconds: seconds * 1000, bytes })
      .catch((error) => this.logFailure(error));
  }

  private logFailure(error: Error): undefined {
    this.log.warn({ cause: error.message }, "the cache's store does not answer");
  }
}

/** @param pattern a name, or a prefix that ends in `*` */
const isNamedBy = (name: string, pattern: string): boolean =>
  pattern.endsWith("*") ? name.startsWith(pattern.slice(0, -1)) : name === pattern;
