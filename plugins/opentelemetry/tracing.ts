import { hostname } from "node:os";
import type { Tracer } from "@opentelemetry/api";
import type { SpanExporter } from "@opentelemetry/sdk-trace";
import type { Log } from "model-gateway";
import type { TracePackages } from "./packages.ts";

/** Maximum number of queued spans, further ones are lost, and of spans that are sent, and formatted in one turn, together. */
const [MAX_QUEUE, MAX_BATCH] = [4096, 512];
/** The same for spans with the texts of requests and answers. */
const [MAX_QUEUE_WITH_TEXTS, MAX_BATCH_WITH_TEXTS] = [512, 32];
/** Milliseconds between two batches, for one of them, and for the last one when the gateway stops. */
const EXPORT_INTERVAL = 2000;
const EXPORT_TIMEOUT = 10_000;
const SHUTDOWN_TIMEOUT = 3000;
/** Milliseconds between two log messages about failures. */
const WARN_INTERVAL = 60_000;

/** Creates and sends spans. */
export interface Tracing {
  readonly tracer: Tracer;
  close(): Promise<void>;
}

interface TracingOptions {
  readonly endpoint: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly service: string;
  readonly sample: number;
  readonly content: boolean;
}

/** Starts to send spans to the collector. Failures are logged, at most one a minute. */
export function startTracing({ sdk, exporter, resources }: TracePackages, options: TracingOptions, log: Log): Tracing {
  const { endpoint, headers, service, sample, content } = options;
  const url = new URL(endpoint);
  if (url.pathname === "/") url.pathname = "/v1/traces";
  const sending = new exporter.OTLPTraceExporter({
    url: url.href,
    headers: { ...headers },
    timeoutMillis: EXPORT_TIMEOUT,
  });
  const processor = new sdk.BatchSpanProcessor({
    ...{
      exporter: loggingExporter(sending, url.host, log),
      maxQueueSize: content ? MAX_QUEUE_WITH_TEXTS : MAX_QUEUE,
      maxExportBatchSize: content ? MAX_BATCH_WITH_TEXTS : MAX_BATCH,
      scheduledDelayMillis: EXPORT_INTERVAL,
    },
    exportTimeoutMillis: EXPORT_TIMEOUT,
  });
  const provider = new sdk.TracerProvider({
    resource: resources.resourceFromAttributes({ "service.name": service, "host.name": hostname() }),
    sampler: new sdk.ParentBasedSampler({ root: new sdk.TraceIdRatioBasedSampler(sample) }),
    spanProcessors: [processor],
  });
  const close = async () => {
    const late = new Promise<void>((resolve) => setTimeout(resolve, SHUTDOWN_TIMEOUT).unref());
    await Promise.race([provider.shutdown(), late]);
  };
  return { tracer: provider.getTracer("model-gateway"), close };
}

/** Logs failed exports, at most once a minute: the library itself does not report them. */
function loggingExporter(sending: SpanExporter, host: string, log: Log): SpanExporter {
  let [warnedAt, lost] = [Number.NEGATIVE_INFINITY, 0];
  return {
    export(spans, done) {
      sending.export(spans, (result) => {
        if (result.error ?? result.code !== 0) {
          lost += spans.length;
          const now = performance.now();
          if (now - warnedAt >= WARN_INTERVAL) {
            log.warn({ host, lost, cause: result.error?.message }, "spans could not be sent");
            [warnedAt, lost] = [now, 0];
          }
        }
        done(result);
      });
    },
    shutdown: () => sending.shutdown(),
    ...(sending.forceFlush && { forceFlush: () => sending.forceFlush?.() ?? Promise.resolve() }),
  };
}
