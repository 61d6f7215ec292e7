import type { CandidateName } from "./candidates.ts";
import type { Sample, Samples } from "./measure.ts";
import { median, table } from "./report.ts";

interface Goal {
  title: string;
  scenario: string;
  value(sample: Sample): number;
  against: CandidateName;
  /** The gateway's value over the other's is to be at most, or at least, this. */
  bound: { atMost: number } | { atLeast: number };
}

const cpu = (sample: Sample) => sample.cpuPerRequest;
const chunk = (sample: Sample) => sample.cpuPerChunk;
const throughput = (sample: Sample) => sample.requestsPerSecond;

/** What the gateway, with its full chain on, is to reach in the same run as those it is compared with. */
const goals: Goal[] = [
  { title: "CPU per request, 1 KB", scenario: "json1k", value: cpu, against: "bare", bound: { atMost: 0.65 } },
  { title: "CPU per request, 30 KB", scenario: "json30k", value: cpu, against: "bare", bound: { atMost: 0.85 } },
  { title: "CPU per request, 1.5 MB", scenario: "json1m5", value: cpu, against: "bare", bound: { atMost: 1.15 } },
  { title: "CPU per paced SSE chunk", scenario: "ssepaced", value: chunk, against: "bare", bound: { atMost: 1 } },
  { title: "throughput, 1 KB", scenario: "json1k", value: throughput, against: "portkey", bound: { atLeast: 7 } },
  { title: "throughput, 1.5 MB", scenario: "json1m5", value: throughput, against: "portkey", bound: { atLeast: 10 } },
];

/** How one goal came out. */
export interface Outcome {
  title: string;
  goal: string;
  /** NaN where one of the two was not measured. */
  ratio: number;
  state: "met" | "missed" | "not measured";
}

/** Judges every goal. */
export function judge(samples: Samples): Outcome[] {
  return goals.map(({ title, scenario, value, against, bound }) => {
    const ratio = median(samples, scenario, "gateway", value) / median(samples, scenario, against, value);
    const met = "atMost" in bound ? ratio <= bound.atMost : ratio >= bound.atLeast;
    const limit = "atMost" in bound ? `≤ ${bound.atMost} ×` : `≥ ${bound.atLeast} ×`;
    const state = Number.isNaN(ratio) ? "not measured" : met ? "met" : "missed";
    return { title, goal: `${limit} ${against}`, ratio, state };
  });
}

/** The outcomes as a table. */
export function goalsTable(outcomes: Outcome[]): string {
  const lines = outcomes.map(({ title, goal, ratio, state }) => {
    return [title, goal, Number.isNaN(ratio) ? "–" : `${ratio.toFixed(2)} ×`, state];
  });
  return table(["gateway", "goal", "measured", ""], lines);
}
