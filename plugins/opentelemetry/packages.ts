import type * as Api from "@opentelemetry/api";
import type * as Exporter from "@opentelemetry/exporter-trace-otlp-http";
import type * as Resources from "@opentelemetry/resources";
import type * as Sdk from "@opentelemetry/sdk-trace";
import { optionalPackage } from "model-gateway";

/** OpenTelemetry's packages, which only this plugin needs. */
export interface TracePackages {
  readonly api: typeof Api;
  readonly exporter: typeof Exporter;
  readonly resources: typeof Resources;
  readonly sdk: typeof Sdk;
}

const NAMES = [
  "@opentelemetry/api",
  "@opentelemetry/exporter-trace-otlp-http",
  "@opentelemetry/resources",
  "@opentelemetry/sdk-trace",
];

/** @throws FileError with what to install, where one is missing */
export function loadPackages(): Promise<TracePackages> {
  const load = async (): Promise<TracePackages> => ({
    api: await import("@opentelemetry/api"),
    exporter: await import("@opentelemetry/exporter-trace-otlp-http"),
    resources: await import("@opentelemetry/resources"),
    sdk: await import("@opentelemetry/sdk-trace"),
  });
  return optionalPackage(NAMES, load, "The plugin opentelemetry");
}
