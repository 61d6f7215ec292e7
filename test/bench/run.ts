// Measures the gateway against nginx, bare http-proxy-3 and Portkey in one run. See README.md.
import { writeFileSync } from "node:fs";
import { parseArgs } from "node:util";
import { build, buildPortkey, node } from "./build.ts";
import {
  type CandidateName,
  candidateNames,
  type Running,
  removeScratch,
  startCandidate,
  startUpstream,
} from "./candidates.ts";
import { goalsTable, judge } from "./goals.ts";
import { calibrate, output, pinned, stopAll } from "./machine.ts";
import { measure, type Plan } from "./measure.ts";
import { doubts, ratioTable } from "./report.ts";
import { quick, type Scenario, scenarios } from "./scenarios.ts";
import { measureStart, type StartSample } from "./start.ts";
import { behaviourTable, wrongAnswers } from "./verify.ts";

const USAGE = `node_modules/.bin/node test/bench/run.ts [options]
  --quick            what has a goal, 3 rounds, about 12 minutes (the default)
  --full             every scenario, 5 rounds, about 20 minutes
  --only A,B         of ${candidateNames.join(", ")}
  --scenario A,B     of ${[...scenarios.keys()].join(", ")}
  --rounds N         instead of 3 or 5
  --scale X          measures X times as long; 0.5 is enough to see that it works
  --check            exit code 1 when a goal is missed or was not measured
  --start            only what the gateway costs when it has just started, half a minute
  --verify           measure nothing, show how the candidates behave
  --json FILE        also write every sample`;

const { values: options } = parseArgs({
  options: {
    quick: { type: "boolean" },
    full: { type: "boolean" },
    only: { type: "string" },
    scenario: { type: "string" },
    rounds: { type: "string" },
    scale: { type: "string", default: "1" },
    check: { type: "boolean" },
    start: { type: "boolean" },
    verify: { type: "boolean" },
    json: { type: "string" },
    help: { type: "boolean" },
  },
});

function chosen<T extends string>(option: string | undefined, all: readonly T[]): T[] | undefined {
  return option?.split(",").map((name) => {
    const found = all.find((known) => known === name);
    if (!found) throw new Error(`${name} is not one of ${all.join(", ")}`);
    return found;
  });
}

function makePlan(): Plan {
  const all = [...scenarios.keys()];
  const names = chosen(options.scenario, all) ?? (options.full ? all : quick);
  const picked = names.map((name) => scenarios.get(name)).filter((scenario): scenario is Scenario => !!scenario);
  const rounds = Number(options.rounds ?? (options.full ? 5 : 3));
  const scale = Number(options.scale);
  if (!(rounds >= 1) || !(scale > 0)) throw new Error("--rounds and --scale are numbers above 0");
  return { rounds, scenarios: picked, scale, progress: (line) => console.error(line) };
}

function makeCandidates(plan: Plan): CandidateName[] {
  const names = chosen(options.only, candidateNames);
  if (!names) return candidateNames.filter((name) => name !== "direct" || plan.scenarios.some(({ rate }) => rate));
  const needsDirect = plan.scenarios.some(({ rate }) => rate) && !names.includes("direct");
  return needsDirect ? ["direct", ...names] : names;
}

/** Starts the candidates that can be started and respond correctly; reports the others on stderr. */
async function line(names: CandidateName[], upstream: Running): Promise<Running[]> {
  const running: Running[] = [];
  for (const name of names) {
    try {
      if (name === "portkey") buildPortkey();
      const candidate = await startCandidate(name, upstream);
      const wrong = options.verify ? [] : await wrongAnswers(candidate, upstream);
      if (!wrong.length) running.push(candidate);
      else await candidate.stop();
      for (const answer of wrong) console.error(`${name} is left out, it answers wrongly: ${answer}`);
    } catch (error) {
      console.error(`${name} is left out: ${error instanceof Error ? error.message : error}`);
    }
  }
  return running;
}

const startLine = ({ upMs, firstMs, first100, next400, warm }: StartSample): string =>
  `just started: up after ${upMs.toFixed(0)} ms, first request ${firstMs.toFixed(1)} ms, CPU of 1 to 100 ${first100.toFixed(0)} µs, ` +
  `100 to 500 ${next400.toFixed(0)} µs, after 30,000 ${warm.toFixed(0)} µs`;

async function main(): Promise<number> {
  if (options.help) {
    console.log(USAGE);
    return 0;
  }
  const plan = makePlan();
  const names = makeCandidates(plan);
  build();
  const upstream = await startUpstream();
  if (options.start) {
    console.log(startLine(await measureStart("gateway", upstream)));
    return 0;
  }
  const running = await line(names, upstream);
  const complete = running.length === names.length;
  if (options.verify) {
    console.log(await behaviourTable(running, upstream));
    return complete ? 0 : 1;
  }
  const version = (await output(node(), ["--version"])).trim();
  const before = calibrate();
  const start = names.includes("gateway") && !options.scenario ? await measureStart("gateway", upstream) : undefined;
  const samples = await measure({ upstream, running }, plan);
  const outcomes = judge(samples, start);
  const cores = pinned ? "proxies on core 0, load and upstream on core 1" : "not pinned to cores: taskset is missing";
  const slower = `calibration ${before} µs before, ${calibrate()} µs after`;
  console.log(`${new Date().toISOString()}, Node ${version}, medians of ${plan.rounds} rounds, ${cores}, ${slower}\n`);
  console.log(`${ratioTable(samples)}\n\n× is against bare; added is against direct (in brackets: direct itself)\n`);
  if (start) console.log(`${startLine(start)}\n`);
  for (const doubt of doubts(samples)) console.log(`- doubtful: ${doubt}`);
  console.log(`\n${goalsTable(outcomes)}`);
  if (options.json) {
    const all = [...samples].map(([scenario, byName]) => [scenario, Object.fromEntries(byName)]);
    writeFileSync(
      options.json,
      `${JSON.stringify({ version, before, samples: Object.fromEntries(all), outcomes }, null, 1)}\n`,
    );
  }
  return options.check && outcomes.some(({ state }) => state !== "met") ? 1 : 0;
}

process.once("exit", () => {
  stopAll();
  removeScratch();
});
for (const signal of ["SIGINT", "SIGTERM"] as const) process.once(signal, () => process.exit(130));

try {
  process.exit(await main());
} catch (error) {
  console.error(error instanceof Error ? error.message : error);
  process.exit(2);
}
