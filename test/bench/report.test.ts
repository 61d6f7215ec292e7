import t from "tap";
import type { CandidateName } from "./candidates.ts";
import { goalsTable, judge } from "./goals.ts";
import type { Sample, Samples } from "./measure.ts";
import { doubts, median, ratioTable } from "./report.ts";

const quiet = { p50: 0, p90: 0, p99: 0, p999: 0, max: 0 };

function sample(values: Partial<Sample>): Sample {
  const counts = { seconds: 1, requests: 1, errors: 0, not200: 0, late: 0, chunks: 0, userMs: 0, systemMs: 0 };
  const rates = { requestsPerSecond: 1, chunksPerSecond: 0, cpuPercent: 0, cpuPerRequest: 1, cpuPerChunk: 0 };
  const rest = {
    rssMaxKb: 0,
    idleKb: 0,
    foreignPercent: 0,
    latency: quiet,
    firstByte: quiet,
    chunk: quiet,
    gap: quiet,
  };
  return { ...counts, ...rates, ...rest, ...values };
}

function taken(scenario: string, byName: Partial<Record<CandidateName, Partial<Sample>[]>>): Samples {
  const rounds = Object.entries(byName).map(([name, list]) => [name, list.map(sample)] as [CandidateName, Sample[]]);
  return new Map([[scenario, new Map(rounds)]]);
}

t.test("the median of an even number of rounds lies between the middle two", (t) => {
  const samples = taken("json1k", { bare: [40, 10, 20, 1000].map((cpuPerRequest) => ({ cpuPerRequest })) });
  t.equal(
    median(samples, "json1k", "bare", (s) => s.cpuPerRequest),
    30,
  );
  t.end();
});

t.test("CPU is shown with its ratio to a bare server, latency as the difference to direct requests", (t) => {
  const cpu = ratioTable(taken("json1k", { bare: [{ cpuPerRequest: 100 }], gateway: [{ cpuPerRequest: 62 }] }));
  t.match(cpu, "| CPU per request, 1 KB, µs | 100 (1.00 ×) | 62 (0.62 ×) |");
  const spread = (p50: number) => ({ latency: { ...quiet, p50 } });
  const latency = ratioTable(taken("lat1k", { direct: [spread(100)], gateway: [spread(340)] }));
  t.match(latency, "| added latency p50, 200 req/s of 1 KB, µs | (100) | 240 |");
  t.end();
});

t.test("a goal is met at its bound, missed beyond it, and not measured without both sides", (t) => {
  const states = (cpuPerRequest: number) => {
    const samples = taken("json1k", { bare: [{ cpuPerRequest: 100 }], gateway: [{ cpuPerRequest }] });
    return judge(samples).map(({ state }) => state);
  };
  t.equal(states(65)[0], "met");
  t.equal(states(66)[0], "missed");
  t.equal(states(65)[1], "not measured");
  const fast = taken("json1k", { portkey: [{ requestsPerSecond: 10 }], gateway: [{ requestsPerSecond: 70 }] });
  t.match(goalsTable(judge(fast)), "| throughput, 1 KB | ≥ 7 × portkey | 7.00 × | met |");
  t.end();
});

t.test("failed requests, a busy machine and rounds that disagree are reported", (t) => {
  const samples = taken("json1k", {
    bare: [{ cpuPerRequest: 100 }, { cpuPerRequest: 200, foreignPercent: 80 }],
    gateway: [{ not200: 3 }],
  });
  t.strictSame(doubts(samples), [
    "json1k bare: other programs used up to 80 % of a core",
    "json1k bare: CPU differs by ±33 % between rounds",
    "json1k gateway: 3 requests failed or were not answered with 200",
  ]);
  t.end();
});
