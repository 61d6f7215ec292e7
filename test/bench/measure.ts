import { setTimeout as sleep } from "node:timers/promises";
import { bodyFile, tools } from "./build.ts";
import { type CandidateName, type Running, startCandidate } from "./candidates.ts";
import { output, residentKb, tree } from "./machine.ts";
import { type Scenario, scenarios, streams } from "./scenarios.ts";

/** Microseconds. */
export interface Spread {
  p50: number;
  p90: number;
  p99: number;
  p999: number;
  max: number;
}

/** The load generator's figures of one window. CPU is user and system time of the candidate, in microseconds. */
export interface Sample {
  seconds: number;
  requests: number;
  errors: number;
  not200: number;
  /** Requests that were due while no connection was free. */
  late: number;
  requestsPerSecond: number;
  chunks: number;
  chunksPerSecond: number;
  cpuPercent: number;
  cpuPerRequest: number;
  cpuPerChunk: number;
  userMs: number;
  systemMs: number;
  rssMaxKb: number;
  /** Percent of one core that other programs used meanwhile. */
  foreignPercent: number;
  latency: Spread;
  firstByte: Spread;
  /** From the upstream's write to the client's read of a chunk. */
  chunk: Spread;
  gap: Spread;
  idleKb: number;
}

/** Samples by scenario and candidate, one per round. */
export type Samples = Map<string, Map<CandidateName, Sample[]>>;

/** A window in which others used more of a core than this is measured again, and the quietest of so many tries counts:
 * a pinned program can get nothing at all for 200 ms while another one has its core. */
const LATENCY_NEEDS = { foreignPercent: 15, tries: 4 };
const OTHERS_NEED = { foreignPercent: 40, tries: 2 };

/** The measured candidates, and the upstream behind them. */
export interface Course {
  upstream: Running;
  running: Running[];
}

async function load(course: Course, running: Running, scenario: Scenario): Promise<Sample> {
  const args = ["--port", running.port, "--connections", scenario.connections, "--body", bodyFile(scenario.body)];
  args.push("--model", scenario.model, "--dur", scenario.seconds, "--warm", scenario.warm);
  args.push("--others", course.upstream.pids.join(","));
  if (scenario.rate) args.push("--rate", scenario.rate);
  if (scenario.rampMs) args.push("--ramp", scenario.rampMs);
  const pids = running.name === "direct" ? [] : running.pids.flatMap(tree);
  if (pids.length) args.push("--pid", [...new Set(pids)].join(","));
  for (const header of running.headers) args.push("--header", header);
  return { ...JSON.parse(await output(tools.load, args.map(String))), idleKb: running.idleKb };
}

async function quietest(course: Course, running: Running, scenario: Scenario): Promise<Sample> {
  const needs = scenario.rate ? LATENCY_NEEDS : OTHERS_NEED;
  let best = await load(course, running, scenario);
  for (let i = 1; i < needs.tries && best.foreignPercent > needs.foreignPercent; i++) {
    await sleep(1500);
    const again = await load(course, running, scenario);
    if (again.foreignPercent < best.foreignPercent) best = again;
  }
  if (!(streams(scenario) ? best.chunks : best.requests)) {
    throw new Error(`answered nothing; ${best.errors} errors, others used ${best.foreignPercent} % of a core`);
  }
  return best;
}

async function measureFresh(course: Course, name: CandidateName, scenario: Scenario): Promise<Sample> {
  const running = await startCandidate(name, course.upstream);
  try {
    const burst = scenarios.get("sseburst");
    if (burst) await load(course, running, { ...burst, seconds: 0.5, warm: 0 });
    running.idleKb = residentKb(running.pids);
    return await quietest(course, running, scenario);
  } finally {
    await running.stop();
  }
}

/** The plan of a run. */
export interface Plan {
  rounds: number;
  scenarios: Scenario[];
  /** Scales the measured and the warm-up times. */
  scale: number;
  /** Receives a line for each sample and each failure. */
  progress(line: string): void;
}

/** Runs one step and reports it, or why it failed. */
async function told<T>(plan: Plan, title: string, act: () => Promise<T>): Promise<T | undefined> {
  try {
    const result = await act();
    plan.progress(title);
    return result;
  } catch (error) {
    plan.progress(`${title}: ${error instanceof Error ? error.message : error}`);
    return undefined;
  }
}

/** Requests, or chunks of streams, after which V8 has compiled a candidate's code; and maximum seconds for them. */
const COMPILED = { pieces: 60_000, seconds: 12 };
/** Seconds of load between counts. */
const GO = 2;

/** Warms up the candidates with the kinds of load that will be measured. */
async function warmUp(course: Course, plan: Plan): Promise<void> {
  const kinds = new Map(plan.scenarios.filter(({ fresh }) => !fresh).map((scenario) => [scenario.body, scenario]));
  for (const running of course.running.filter(({ name }) => name !== "direct")) {
    for (const scenario of kinds.values()) {
      const { rate: _rate, rampMs: _ramp, ...closedLoop } = scenario;
      const model = streams(scenario) ? "stub-sse-200-0" : scenario.model;
      const seconds = GO * plan.scale;
      const go = { ...closedLoop, model, connections: 16, seconds, warm: 0 };
      await told(plan, `warm-up ${scenario.body} ${running.name}`, async () => {
        let pieces = 0;
        for (let spent = 0; spent < COMPILED.seconds && pieces < COMPILED.pieces; spent += GO) {
          const { requests, chunks } = await load(course, running, go);
          pieces += requests + chunks;
        }
      });
    }
  }
}

/** Measures every scenario on every candidate, in rounds, alternately A B C and C B A. */
export async function measure(course: Course, plan: Plan): Promise<Samples> {
  const samples: Samples = new Map();
  await warmUp(course, plan);
  for (let round = 0; round < plan.rounds; round++) {
    for (const unscaled of plan.scenarios) {
      const scenario = { ...unscaled, seconds: unscaled.seconds * plan.scale };
      const order = round % 2 ? [...course.running].reverse() : course.running;
      for (const running of order) {
        if (running.name === "direct" && !scenario.rate) continue;
        const sample = await told(plan, `round ${round + 1}/${plan.rounds} ${scenario.name} ${running.name}`, () =>
          scenario.fresh ? measureFresh(course, running.name, scenario) : quietest(course, running, scenario),
        );
        if (!sample) continue;
        const byName = samples.get(scenario.name) ?? new Map<CandidateName, Sample[]>();
        byName.set(running.name, [...(byName.get(running.name) ?? []), sample]);
        samples.set(scenario.name, byName);
      }
    }
  }
  return samples;
}
