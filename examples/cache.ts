import { hash } from "node:crypto";
import {
  type DoneExchange,
  type Head,
  Options,
  type Plugin,
  type ResponseExchange,
  type RouteExchange,
  type Stage,
  slot,
} from "model-gateway";
import { inject, injectable } from "tsyringe";
import { z } from "zod";

interface Recorded {
  type: string;
  streamed: boolean;
  pieces: Buffer[];
}

/** Gives the same answer again to a caller who asks the same again, streamed as it was, without asking a provider. */
@injectable()
export default class Cache implements Plugin {
  static options = z.strictObject({
    seconds: z.number().positive().default(300).describe("How long an answer is kept."),
    answers: z.number().int().min(1).default(1000).describe("How many are kept; the oldest go first."),
    headers: z
      .array(z.string())
      .default(["gateway-strict", "anthropic-beta", "anthropic-version", "openai-beta"])
      .describe("Headers of a request that change its answer."),
  });
  // What a caller may use has been judged when an answer is found.
  static after = ["models"];
  // What it keeps and gives again is in the client's protocol.
  static before = ["rewrite"];

  private readonly answers = new Map<string, Recorded & { until: number }>();
  private readonly state = slot((): { key?: string; recorded?: Recorded } => ({}));

  constructor(@inject(Options) private readonly options: z.infer<typeof Cache.options>) {}

  route(exchange: RouteExchange): void {
    const { caller, path, query, headers, model, body, operation } = exchange;
    if (!operation.generates || !body.scan) return;
    // All that an answer depends on: `?alt=sse` is another framing, `gateway-strict` refuses what is dropped without it.
    const asked = [caller?.id, path, query.toString(), this.options.headers.map((name) => headers.get(name))];
    const key = hash("sha256", JSON.stringify([...asked, model?.id, body.bytes().toString()]));
    const known = this.answers.get(key);
    if (known && known.until > exchange.time) {
      const { type, streamed, pieces } = known;
      exchange.answer = { headers: { "content-type": type }, body: streamed ? pieces : Buffer.concat(pieces) };
    } else this.state(exchange).key = key;
  }

  response(exchange: ResponseExchange, head: Head): Stage | undefined {
    const state = this.state(exchange);
    if (state.key === undefined || head.status !== 200) return undefined;
    const pieces: Buffer[] = [];
    state.recorded = { type: head.headers.get("content-type") ?? "", streamed: head.framing !== undefined, pieces };
    return (frame) => {
      if (frame.kind !== "end") pieces.push(Buffer.from(frame.bytes));
    };
  }

  done(exchange: DoneExchange): void {
    const { key, recorded } = this.state(exchange);
    if (key === undefined || !recorded || exchange.outcome !== "completed") return;
    this.answers.set(key, { ...recorded, until: Date.now() + this.options.seconds * 1000 });
    if (this.answers.size > this.options.answers) this.answers.delete(this.answers.keys().next().value ?? "");
  }
}
