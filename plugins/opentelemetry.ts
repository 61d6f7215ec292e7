import type { Context, Span } from "@opentelemetry/api";
import {
  type AccessExchange,
  type Attempt,
  type DoneExchange,
  Log,
  Options,
  type Plugin,
  type ResponseExchange,
  type SendExchange,
  type Stage,
  slot,
} from "model-gateway";
import { inject, injectable } from "tsyringe";
import { z } from "zod";
import { AnswerFacts } from "./opentelemetry/answer-facts.ts";
import { attemptAttributes, attemptSpanName, requestAttributes, requestSpanName } from "./opentelemetry/attributes.ts";
import { contentAttributes, MAX_READ_BYTES } from "./opentelemetry/content.ts";
import { loadPackages, type TracePackages } from "./opentelemetry/packages.ts";
import { startTracing, type Tracing } from "./opentelemetry/tracing.ts";

/**
 * Maximum spans per minute of requests refused without a key: anyone can cause any number of those, also sampled ones, and they
 * would displace others.
 */
const UNKEYED_PER_MINUTE = 10;
const MINUTE = 60_000;

/** The trace of a running exchange. */
interface TraceState {
  /** The request's span; undefined: it is not traced. */
  server?: { readonly span: Span; readonly context: Context };
  readonly attempts: Map<Attempt, Span>;
  readonly facts: AnswerFacts;
  readonly pieces: Buffer[];
  /** The response's text, where content is enabled. */
  output?: string;
}

/**
 * Exports traces of exchanges to OpenTelemetry, by the conventions for generative AI: a span of the request, and a child span
 * for each attempt at a provider. Batches are sent in the background (OTLP over HTTP), and no request waits for them.
 */
@injectable()
export default class OpenTelemetry implements Plugin {
  static before = ["sse", "auth", "scrub", "models", "limits", "rewrite", "usage"];
  static options = z.strictObject({
    endpoint: z
      .url({ protocol: /^https?$/, error: "expected an address like http://127.0.0.1:4318" })
      .default("http://127.0.0.1:4318")
      .describe("URL of the collector that gets the spans; /v1/traces is appended if it has no path."),
    headers: z
      .record(z.string(), z.string())
      .default({})
      .describe("Headers of requests to the collector, like { authorization: $OTLP_AUTHORIZATION }."),
    service: z.string().min(1).default("model-gateway").describe("The name of the service (`service.name`)."),
    sample: z
      .number()
      .min(0)
      .max(1)
      .default(1)
      .describe(
        "The sampled share of traces that begin here, from 0 to 1; a caller's trace is sampled if the caller samples it. Of requests refused without a key, ten a minute are sent.",
      ),
    content: z
      .boolean()
      .default(false)
      .describe(
        "Whether spans contain the texts of requests and answers, which may be confidential: the newest 128k characters of each, at most 16k of a text, none of more than 4 MiB.",
      ),
    propagate: z
      .boolean()
      .default(false)
      .describe("Whether providers get a traceparent even if the caller has sent none."),
  });

  private packages: TracePackages | undefined;
  private tracing: Tracing | undefined;
  private readonly unkeyed = { since: Number.NEGATIVE_INFINITY, spans: 0 };
  private readonly traced = slot((): TraceState => ({ attempts: new Map(), facts: new AnswerFacts(), pieces: [] }));

  constructor(
    private readonly log: Log,
    @inject(Options) private readonly options: z.infer<typeof OpenTelemetry.options>,
  ) {}

  /** Starts the exporter. @throws FileError with what to install, where the packages are missing */
  async start({ dry }: { readonly dry: boolean }): Promise<void> {
    this.packages = await loadPackages();
    if (!dry) this.tracing = startTracing(this.packages, this.options, this.log);
  }

  access(exchange: AccessExchange): void {
    if (!this.tracing || !this.packages || exchange.dryRun) return;
    const { api } = this.packages;
    const parent = exchange.trace;
    const above = parent
      ? api.trace.setSpanContext(api.ROOT_CONTEXT, {
          ...{ traceId: parent.traceId, spanId: parent.parentId, isRemote: true },
          traceFlags: parent.sampled ? api.TraceFlags.SAMPLED : api.TraceFlags.NONE,
        })
      : api.ROOT_CONTEXT;
    const how = { kind: api.SpanKind.SERVER, startTime: exchange.time };
    const span = this.tracing.tracer.startSpan(`${exchange.method} ${exchange.protocol.name}`, how, above);
    exchange.traceId = span.spanContext().traceId;
    this.traced(exchange).server = { span, context: api.trace.setSpan(above, span) };
  }

  send(exchange: SendExchange, attempt: Attempt): void {
    const traced = this.traced(exchange);
    const { server } = traced;
    if (!this.tracing || !this.packages || !server) return;
    const { api } = this.packages;
    const how = { kind: api.SpanKind.CLIENT, startTime: exchange.time + attempt.startedAt };
    const span = this.tracing.tracer.startSpan(attemptSpanName(exchange, attempt), how, server.context);
    traced.attempts.set(attempt, span);
    // Also where the caller's header is forwarded by gateway.yaml: the provider gets the correct parent span.
    if (!this.options.propagate && !attempt.headers.has("traceparent")) return;
    const { traceId, spanId, traceFlags } = span.spanContext();
    attempt.headers.set("traceparent", `00-${traceId}-${spanId}-${traceFlags.toString(16).padStart(2, "0")}`);
  }

  /** Inspects frames as bytes: only relevant ones are parsed. */
  response(exchange: ResponseExchange): Stage | undefined {
    const { server, facts, pieces } = this.traced(exchange);
    if (!server?.span.isRecording()) return undefined;
    const { content } = this.options;
    let bytes = 0;
    return (frame) => {
      facts.observe(frame);
      if (!content) return;
      bytes += frame.bytes.length;
      if (bytes > MAX_READ_BYTES) pieces.length = 0;
      else if (frame.kind !== "end") pieces.push(Buffer.from(frame.bytes));
      else
        this.traced(exchange).output = exchange
          .completeResponseTexts(Buffer.concat(pieces), ["assistant"])
          .map(({ text }) => text)
          .join("");
    };
  }

  done(exchange: DoneExchange): void {
    const { server, attempts, facts, output } = this.traced(exchange);
    if (!server || !this.packages) return;
    // A span that does not end is not sent.
    const refused = exchange.caller === undefined && exchange.outcome === "rejected";
    if (refused && server.span.isRecording() && !this.takeUnkeyed()) return;
    const { SpanStatusCode } = this.packages.api;
    const ended = exchange.time + exchange.elapsed;
    for (const [attempt, span] of attempts) {
      const last = attempt === exchange.attempt;
      if (span.isRecording()) {
        span.setAttributes(attemptAttributes(exchange, attempt, last ? facts : undefined));
        if (last && this.options.content) span.setAttributes(contentAttributes(exchange, output, facts));
        const error = attempt.error ?? (last ? exchange.error : undefined);
        if (error || (attempt.status ?? 0) >= 400) span.setStatus({ code: SpanStatusCode.ERROR });
      }
      span.end(last ? ended : exchange.time + (attempt.respondedAt ?? exchange.elapsed));
    }
    const { span } = server;
    span.setAttributes(requestAttributes(exchange));
    // A client's error is not an error of the server (semantic conventions for HTTP spans).
    if (exchange.status >= 500) span.setStatus({ code: SpanStatusCode.ERROR });
    if (exchange.model) span.updateName(requestSpanName(exchange));
    span.end(ended);
  }

  /** Reports whether another span of a request without a key may be sent, and counts it. */
  private takeUnkeyed(): boolean {
    const { unkeyed } = this;
    const now = performance.now();
    if (now - unkeyed.since >= MINUTE) Object.assign(unkeyed, { since: now, spans: 0 });
    return ++unkeyed.spans <= UNKEYED_PER_MINUTE;
  }

  /** Sends pending spans, within a plugin's time for closing. */
  async close(): Promise<void> {
    await this.tracing?.close();
  }
}
