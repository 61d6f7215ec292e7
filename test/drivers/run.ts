// Runs real clients against a running gateway, with a scripted provider behind it. See README.md.
import { randomBytes } from "node:crypto";
import { mkdtempSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { each } from "../support/raw.ts";
import { shared } from "../support/shared.ts";
import { BEHIND, type Behind, configuration, DRIVERS, type Driver, modelsFor } from "./drivers.ts";
import { allowed } from "./exceptions.ts";
import { install, outputOf, type Started, startGateway, startStub } from "./processes.ts";
import { again, late, type Result, readResult, resultLine, summary } from "./results.ts";

const USAGE = `node_modules/.bin/node --import ./src/loader/register.js test/drivers/run.ts [driver…] [options]
  driver           of ${DRIVERS.map(({ name }) => name).join(", ")}; without one, all
  --cli            installs Claude Code and Codex too (0.6 GB) and runs them
  --only A,B*      only these scenarios
  --behind A,B     also with providers that speak only this, of ${BEHIND.map(({ prefix }) => prefix).join(", ")}; all: each
  --jobs N         drivers at a time (2)
  --install        install only`;

/** Milliseconds a driver may take. */
const LIMIT = 300_000;

const { values: options, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    cli: { type: "boolean", default: false },
    only: { type: "string" },
    behind: { type: "string" },
    jobs: { type: "string", default: "2" },
    install: { type: "boolean", default: false },
    help: { type: "boolean", default: false },
  },
});

/** Drivers that were named, else all; those of the command-line clients only when asked for. */
function chosen(): Driver[] {
  const unknown = positionals.filter((name) => !DRIVERS.some((driver) => driver.name === name));
  if (unknown.length > 0) throw new Error(`${unknown.join(", ")}: no such driver.\n${USAGE}`);
  if (positionals.length > 0) return DRIVERS.filter(({ name }) => positionals.includes(name));
  return DRIVERS.filter((driver) => options.cli || !driver.cli);
}

/** A driver against models that are served in one protocol, or, without one, in the client's own. */
interface Run {
  driver: Driver;
  behind?: Behind;
}

/** Every driver with its own protocol, and with each of those asked for. */
function runs(drivers: readonly Driver[]): Run[] {
  const names = options.behind?.split(",") ?? [];
  const unknown = names.filter((name) => name !== "all" && !BEHIND.some(({ prefix }) => prefix === name));
  if (unknown.length > 0) throw new Error(`${unknown.join(", ")}: no such protocol.\n${USAGE}`);
  const behind = BEHIND.filter(({ prefix }) => names.includes(prefix) || names.includes("all"));
  return [
    ...drivers.map((driver) => ({ driver })),
    ...drivers.filter(({ variant }) => !variant).flatMap((driver) => behind.map((each) => ({ driver, behind: each }))),
  ];
}

/** @param only these scenarios; undefined: all */
async function drive(
  { driver, behind }: Run,
  { folder, gateway, stub, key }: { folder: string; gateway: Started; stub: Started; key: string },
  only = options.only,
): Promise<Result> {
  const began = performance.now();
  const name = behind ? `${driver.name} > ${behind.prefix}` : driver.name;
  // --native asks for everything that plain runs ask for, and for what only the same protocol on both sides keeps.
  const how = behind ? ["--model", `${behind.prefix}-stub-{s}`] : ["--native"];
  const some = only === undefined ? [] : ["--only", only];
  const args = [`drive-${driver.file}.mjs`, gateway.url, key, ...how, "--stub", stub.url, ...driver.options, ...some];
  const output = await outputOf(args, folder, LIMIT);
  const result = allowed(readResult(name, output, (performance.now() - began) / 1000), driver, behind);
  console.log(resultLine(result));
  return result;
}

async function main(): Promise<number> {
  if (options.help) {
    console.log(USAGE);
    return 0;
  }
  const drivers = chosen();
  const source = shared("clients");
  if (source === undefined) {
    console.log("../shared/clients is not there: the drivers are skipped.\n0 passed, 0 failed");
    return 0;
  }
  const began = performance.now();
  const folder = await install(
    source,
    drivers.some(({ cli }) => cli),
  );
  console.log(`clients installed in ${((performance.now() - began) / 1000).toFixed(1)} s`);
  if (options.install) return 0;
  const stub = await startStub(folder);
  try {
    const scenarios = (await (await fetch(`${stub.url}/_stub/scenarios`)).json()) as object;
    const key = `driver-${randomBytes(16).toString("hex")}`;
    const yaml = configuration(stub.url, modelsFor(Object.keys(scenarios)), key);
    const gateway = await startGateway(mkdtempSync(join(tmpdir(), "gateway-drivers-")), yaml);
    try {
      const place = { folder, gateway, stub, key };
      const all = runs(drivers);
      const results = await each(all, (run) => drive(run, place), Number(options.jobs));
      for (const [i, run] of all.entries()) {
        const scenarios = late(results[i] as Result);
        if (scenarios.length > 0)
          results[i] = again(results[i] as Result, await drive(run, place, scenarios.join(",")));
      }
      console.log(summary(results));
      return results.some(({ failures }) => failures.length > 0) ? 1 : 0;
    } finally {
      await gateway.stop();
    }
  } finally {
    await stub.stop();
  }
}

process.exitCode = await main();
