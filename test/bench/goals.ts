import type { CandidateName } from "./candidates.ts";
import type { Sample, Samples } from "./measure.ts";
import { median, table } from "./report.ts";
import type { StartSample } from "./start.ts";

interface Goal {
  title: string;
  scenario: string;
  value(sample: Sample): number;
  against: CandidateName;
  /** The bound of the gateway's value divided by the other's. */
  bound: { atMost: number } | { atLeast: number };
}

const cpu = (sample: Sample) => sample.cpuPerRequest;
const chunk = (sample: Sample) => sample.cpuPerChunk;
const throughput = (sample: Sample) => sample.requestsPerSecond;

/** The goals of the gateway, with its full chain, relative to candidates in the same run. */
const goals: Goal[] = [
  { title: "CPU per request, 1 KB", scenario: "json1k", value: cpu, against: "bare", bound: { atMost: 0.65 } },
  { title: "CPU per request, 30 KB", scenario: "json30k", value: cpu, against: "bare", bound: { atMost: 0.85 } },
  { title: "CPU per request, 1.5 MB", scenario: "json1m5", value: cpu, against: "bare", bound: { atMost: 1.15 } },
  { title: "CPU per paced SSE chunk", scenario: "ssepaced", value: chunk, against: "bare", bound: { atMost: 1 } },
  {
    title: "CPU per SSE chunk in a burst",
    scenario: "sseburst",
    value: chunk,
    against: "bare",
    bound: { atMost: 1.2 },
  },
  { title: "latency p99, 1 KB", scenario: "lat1k", value: (s) => s.latency.p99, against: "bare", bound: { atMost: 1 } },
  {
    title: "latency p99, 30 KB",
    scenario: "lat30k",
    value: (s) => s.latency.p99,
    against: "bare",
    bound: { atMost: 1 },
  },
  { title: "first byte p99", scenario: "latsse", value: (s) => s.firstByte.p99, against: "bare", bound: { atMost: 1 } },
  { title: "chunk p99", scenario: "latsse", value: (s) => s.chunk.p99, against: "bare", bound: { atMost: 1 } },
  {
    title: "RSS, 1,000 streams",
    scenario: "sse1000",
    value: (s) => s.rssMaxKb,
    against: "bare",
    bound: { atMost: 1.1 },
  },
  { title: "throughput, 1 KB", scenario: "json1k", value: throughput, against: "portkey", bound: { atLeast: 7 } },
  { title: "throughput, 1.5 MB", scenario: "json1m5", value: throughput, against: "portkey", bound: { atLeast: 10 } },
];

interface StartGoal {
  title: string;
  value(start: StartSample): number;
  unit: string;
  atMost: number;
}

/** The goals of a gateway that has just started. */
const startGoals: StartGoal[] = [
  { title: "first request after the start", value: (start) => start.firstMs, unit: " ms", atMost: 5 },
  {
    title: "CPU of requests 100 to 500 beside later ones",
    value: ({ next400, warm }) => next400 / warm,
    unit: " ×",
    atMost: 1.5,
  },
];

/** The outcome of one goal. */
export interface Outcome {
  title: string;
  goal: string;
  /** With its unit. */
  measured: string;
  state: "met" | "missed" | "not measured";
}

/** Judges every goal. @param start the gateway's start, if that was measured */
export function judge(samples: Samples, start?: StartSample): Outcome[] {
  return [...judgeRatios(samples), ...judgeStart(start)];
}

function judgeStart(start: StartSample | undefined): Outcome[] {
  return startGoals.map(({ title, value, unit, atMost }) => {
    const goal = `≤ ${atMost}${unit}`;
    if (!start) return { title, goal, measured: "–", state: "not measured" };
    const measured = value(start);
    return { title, goal, measured: `${measured.toFixed(1)}${unit}`, state: measured <= atMost ? "met" : "missed" };
  });
}

function judgeRatios(samples: Samples): Outcome[] {
  return goals.map(({ title, scenario, value, against, bound }) => {
    const ratio = median(samples, scenario, "gateway", value) / median(samples, scenario, against, value);
    const met = "atMost" in bound ? ratio <= bound.atMost : ratio >= bound.atLeast;
    const limit = "atMost" in bound ? `≤ ${bound.atMost} ×` : `≥ ${bound.atLeast} ×`;
    const state = Number.isNaN(ratio) ? "not measured" : met ? "met" : "missed";
    const measured = Number.isNaN(ratio) ? "–" : `${ratio.toFixed(2)} ×`;
    return { title, goal: `${limit} ${against}`, measured, state };
  });
}

/** Formats the outcomes as a table. */
export function goalsTable(outcomes: Outcome[]): string {
  const lines = outcomes.map(({ title, goal, measured, state }) => [title, goal, measured, state]);
  return table(["gateway", "goal", "measured", ""], lines);
}
