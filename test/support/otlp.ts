import { createServer } from "node:http";
import { buffer } from "node:stream/consumers";
import { gunzipSync } from "node:zlib";
import { listen, type Teardown } from "./listen.ts";

/** A span as received by a collector. */
export interface ReceivedSpan {
  readonly traceId: string;
  readonly spanId: string;
  readonly parentSpanId: string | undefined;
  readonly name: string;
  /** 2 SERVER, 3 CLIENT. */
  readonly kind: number;
  /** Milliseconds. */
  readonly start: number;
  readonly end: number;
  readonly attributes: Readonly<Record<string, unknown>>;
  /** 2 ERROR. */
  readonly status: number;
  readonly service: unknown;
}

type Value = {
  stringValue?: string;
  intValue?: number | string;
  doubleValue?: number;
  boolValue?: boolean;
  arrayValue?: { values: Value[] };
};
type Attributes = { key: string; value: Value }[];
interface Sent {
  resourceSpans: {
    resource: { attributes: Attributes };
    scopeSpans: { spans: Record<string, unknown>[] }[];
  }[];
}

const plainOf = (value: Value): unknown =>
  value.arrayValue
    ? value.arrayValue.values.map(plainOf)
    : (value.stringValue ?? value.boolValue ?? value.doubleValue ?? Number(value.intValue));
const members = (attributes: Attributes = []) =>
  Object.fromEntries(attributes.map(({ key, value }) => [key, plainOf(value)]));

/** Starts a collector for OTLP over HTTP with JSON (opentelemetry-proto, trace service). */
export async function startCollector(t: Teardown) {
  const spans: ReceivedSpan[] = [];
  const requests: { path: string | undefined; authorization: string | undefined }[] = [];
  const how = { status: 200 };
  const server = createServer(async (request, response) => {
    const sent = await buffer(request);
    const { authorization, "content-encoding": coding } = request.headers;
    requests.push({ path: request.url, authorization });
    const { resourceSpans } = JSON.parse(String(coding === "gzip" ? gunzipSync(sent) : sent)) as Sent;
    if (how.status === 200)
      for (const { resource, scopeSpans } of resourceSpans)
        for (const span of scopeSpans.flatMap((scope) => scope.spans))
          spans.push({
            ...(span as unknown as ReceivedSpan),
            start: Number(span["startTimeUnixNano"]) / 1e6,
            end: Number(span["endTimeUnixNano"]) / 1e6,
            parentSpanId: (span["parentSpanId"] as string) || undefined,
            attributes: members(span["attributes"] as Attributes),
            status: (span["status"] as { code?: number })?.code ?? 0,
            service: members(resource.attributes)["service.name"],
          });
    response.writeHead(how.status, { "content-type": "application/json" }).end("{}");
  });
  return { url: `http://127.0.0.1:${await listen(t, server)}`, spans, requests, how };
}
