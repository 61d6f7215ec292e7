import { type CandidateName, candidateNames } from "./candidates.ts";
import type { Sample, Samples } from "./measure.ts";

/** Returns the median of a value over the rounds; NaN without samples. */
export function median(samples: Samples, scenario: string, name: CandidateName, value: (s: Sample) => number): number {
  const values = (samples.get(scenario)?.get(name) ?? []).map(value).sort((a, b) => a - b);
  const middle = (values.length - 1) / 2;
  return ((values[Math.floor(middle)] ?? Number.NaN) + (values[Math.ceil(middle)] ?? Number.NaN)) / 2;
}

interface Row {
  title: string;
  scenario: string;
  value(sample: Sample): number;
  /** What the candidates' values are compared with: a ratio to bare, a difference to direct, or nothing. */
  against: "bare" | "direct" | "none";
  digits: number;
}

const cpu = (title: string, scenario: string): Row => {
  return {
    title: `CPU per request, ${title}, µs`,
    scenario,
    value: (s) => s.cpuPerRequest,
    against: "bare",
    digits: 0,
  };
};
const throughput = (title: string, scenario: string): Row => {
  return {
    title: `throughput, ${title}, req/s`,
    scenario,
    value: (s) => s.requestsPerSecond,
    against: "bare",
    digits: 0,
  };
};
const chunk = (title: string, scenario: string): Row => {
  return {
    title: `CPU per SSE chunk, ${title}, µs`,
    scenario,
    value: (s) => s.cpuPerChunk,
    against: "bare",
    digits: 1,
  };
};
const added = (title: string, scenario: string, value: (s: Sample) => number): Row => {
  return { title: `added ${title}, µs`, scenario, value, against: "direct", digits: 0 };
};
const memory = (title: string, value: (s: Sample) => number): Row => {
  return { title: `${title}, MB`, scenario: "sse1000", value, against: "bare", digits: 0 };
};

const rows: Row[] = [
  cpu("1 KB", "json1k"),
  cpu("30 KB", "json30k"),
  cpu("1.5 MB", "json1m5"),
  chunk("paced", "ssepaced"),
  chunk("burst", "sseburst"),
  throughput("1 KB", "json1k"),
  throughput("30 KB", "json30k"),
  throughput("1.5 MB", "json1m5"),
  added("latency p50, 200 req/s of 1 KB", "lat1k", (s) => s.latency.p50),
  added("latency p99, 200 req/s of 1 KB", "lat1k", (s) => s.latency.p99),
  added("latency p50, 200 req/s of 30 KB", "lat30k", (s) => s.latency.p50),
  added("latency p99, 200 req/s of 30 KB", "lat30k", (s) => s.latency.p99),
  added("time to first byte p50, 20 streams/s", "latsse", (s) => s.firstByte.p50),
  added("time to first byte p99, 20 streams/s", "latsse", (s) => s.firstByte.p99),
  added("latency per chunk p50, 20 streams/s", "latsse", (s) => s.chunk.p50),
  added("latency per chunk p99, 20 streams/s", "latsse", (s) => s.chunk.p99),
  memory("RSS with 1,000 open streams", (s) => s.rssMaxKb / 1024),
  memory("RSS idle", (s) => s.idleKb / 1024),
];

function number(value: number, digits: number): string {
  return Number.isFinite(value) ? value.toFixed(digits) : "–";
}

function cell(samples: Samples, row: Row, name: CandidateName): string {
  const own = median(samples, row.scenario, name, row.value);
  if (!Number.isFinite(own) || (name === "direct" && row.against !== "direct")) return "–";
  const base = row.against === "none" ? Number.NaN : median(samples, row.scenario, row.against, row.value);
  if (row.against === "direct")
    return name === "direct" ? `(${number(own, row.digits)})` : number(own - base, row.digits);
  const ratio = Number.isFinite(base) ? ` (${number(own / base, 2)} ×)` : "";
  return number(own, row.digits) + ratio;
}

/** Formats a Markdown table. */
export function table(head: string[], lines: string[][]): string {
  return [head, head.map((_, i) => (i ? "--:" : "---")), ...lines].map((line) => `| ${line.join(" | ")} |`).join("\n");
}

/** Formats one line per measure, one column per candidate. */
export function ratioTable(samples: Samples): string {
  const shown = rows.filter((row) => samples.has(row.scenario));
  const names = candidateNames.filter((name) => shown.some((row) => samples.get(row.scenario)?.has(name)));
  const lines = shown.map((row) => [row.title, ...names.map((name) => cell(samples, row, name))]);
  return table(["", ...names], lines);
}

/** Lists what makes figures doubtful: errors, foreign load, rounds that disagree. */
export function doubts(samples: Samples): string[] {
  const found: string[] = [];
  for (const [scenario, byName] of samples) {
    for (const [name, rounds] of byName) {
      const sum = (value: (s: Sample) => number) => rounds.reduce((total, sample) => total + value(sample), 0);
      const most = (value: (s: Sample) => number) => Math.max(...rounds.map(value));
      const errors = sum((s) => s.errors + s.not200);
      if (errors) found.push(`${scenario} ${name}: ${errors} requests failed or were not answered with 200`);
      if (sum((s) => s.late))
        found.push(`${scenario} ${name}: ${sum((s) => s.late)} requests found no free connection`);
      const foreign = most((s) => s.foreignPercent);
      if (foreign > 25) found.push(`${scenario} ${name}: other programs used up to ${foreign.toFixed(0)} % of a core`);
      const value = (s: Sample) => (s.chunks ? s.cpuPerChunk : s.cpuPerRequest);
      const spread = (most(value) - Math.min(...rounds.map(value))) / 2 / median(samples, scenario, name, value);
      if (spread > 0.15)
        found.push(`${scenario} ${name}: CPU differs by ±${(spread * 100).toFixed(0)} % between rounds`);
    }
  }
  return found;
}
