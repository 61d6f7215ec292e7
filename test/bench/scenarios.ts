import type { BodyName } from "./bodies.ts";

/** A kind of load. */
export interface Scenario {
  name: string;
  /** Connections; each has at most one request in flight. */
  connections: number;
  body: BodyName;
  /** The behaviour of the stub upstream. */
  model: string;
  /** Seconds that are measured, and seconds of warm-up before. */
  seconds: number;
  warm: number;
  /** Milliseconds over which connections are opened, not counted in either. */
  rampMs?: number;
  /** Requests per second, due at fixed times; absent: each connection sends the next request after each response. */
  rate?: number;
  /** The candidate is restarted in each round: for memory. */
  fresh?: boolean;
}

const json = { body: "1k", model: "stub-json", seconds: 2, warm: 0.4 } as const;
const sse = { body: "1k-sse", seconds: 2 } as const;

const list: Scenario[] = [
  { name: "json1k", ...json, connections: 32 },
  { name: "json30k", ...json, connections: 32, body: "30k" },
  { name: "json1m5", ...json, connections: 8, body: "1m5" },
  { name: "ssepaced", ...sse, connections: 150, model: "stub-sse-100-20", warm: 1, rampMs: 1500 },
  { name: "sseburst", ...sse, connections: 16, model: "stub-sse-200-0", warm: 0.5 },
  { name: "lat1k", ...json, connections: 32, rate: 200, seconds: 4 },
  { name: "lat30k", ...json, connections: 32, rate: 200, seconds: 4, body: "30k" },
  { name: "latsse", ...sse, connections: 64, model: "stub-sse-40-25", rate: 20, seconds: 4, warm: 1.5 },
  {
    name: "sse1000",
    ...sse,
    connections: 1000,
    model: "stub-sse-600-50",
    seconds: 4,
    warm: 1,
    rampMs: 5000,
    fresh: true,
  },
];

/** All scenarios by name, in the order of the table. */
export const scenarios: ReadonlyMap<string, Scenario> = new Map(list.map((scenario) => [scenario.name, scenario]));

/** What --quick measures: everything that has a goal. */
export const quick = ["json1k", "json30k", "json1m5", "ssepaced", "sseburst", "lat1k", "lat30k", "latsse", "sse1000"];

/** Models of the behaviour checks. */
export const behaviours = {
  burst: "stub-sse-50-0",
  paced: "stub-sse-10-30",
  long: "stub-sse-300-20",
  hangs: "stub-hang",
  resets: "stub-abort-5-10",
  closes: "stub-close-5-10",
};

/** Every model that is requested. */
export const models: readonly string[] = [
  ...new Set([...list.map((scenario) => scenario.model), ...Object.values(behaviours)]),
];

/** Reports whether the responses of a scenario are event streams. */
export function streams(scenario: Scenario): boolean {
  return scenario.model.startsWith("stub-sse");
}
