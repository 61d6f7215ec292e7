import { parseArgs } from "node:util";
import { offNotice } from "../config/problems.ts";
import { PinoLog } from "../core/log.ts";
import { Gateway } from "../gateway.ts";
import { endAfterCrash } from "./crash.ts";
import { reason } from "./reason.ts";
import { COMMAND, type Terminal } from "./verb.ts";

export const help = "run [--config FILE]          start the gateway (the default)";

/**
 * Starts, prints what a newcomer needs, and ends the process at a signal. Exit codes: 0 stopped, 1 could not start, 2 usage,
 * 3 failed while it ran.
 */
export async function run(
  args: readonly string[],
  io: Terminal,
  place: { file: string; folder: string },
): Promise<number> {
  try {
    parseArgs({ args: [...args], options: {} });
  } catch (thrown) {
    io.err(`${(thrown as Error).message}\nusage: ${help}`);
    return 2;
  }
  // A reader that has left is no failure of the gateway.
  for (const stream of [process.stdout, process.stderr]) stream.on("error", () => {});
  const log = new PinoLog();
  let gateway: Gateway;
  try {
    gateway = await Gateway.start({ ...place, env: io.env, log });
    log.level = gateway.config.log.level;
  } catch (thrown) {
    io.err(reason(thrown));
    return 1;
  }
  endAfterCrash(gateway, log, () => leave(log, 3));
  await greet(gateway, io);
  const signal = await stopped();
  io.out(`${signal}: no new requests, waiting for running ones (again to stop at once)`);
  process.once(signal, () => process.exit(1));
  await gateway.stop();
  return leave(log, 0);
}

/** Ends the process: left to itself it would wait for whoever does not read what it prints. */
async function leave(log: PinoLog, code: number): Promise<never> {
  await log.flush();
  process.exit(code);
}

function stopped(): Promise<NodeJS.Signals> {
  return new Promise((resolve) => {
    for (const signal of ["SIGINT", "SIGTERM"] as const) process.once(signal, resolve);
  });
}

async function greet(gateway: Gateway, io: Terminal): Promise<void> {
  const { config, address, generation, stores } = gateway;
  const host = address.family === "IPv6" ? `[${address.address}]` : address.address;
  const base = `http://${host}:${address.port}`;
  const off = config.providers.filter((provider) => provider.off !== undefined);
  const on = config.providers.filter((provider) => provider.off === undefined);
  const usable = generation.marketplace.models.filter((model) => model.targets.length > 0).map((model) => model.id);
  const idle = generation.marketplace.models.filter((model) => model.targets.length === 0).map((model) => model.id);
  io.out(`model-gateway listens on ${base}`);
  io.out(`  providers  ${on.map((provider) => provider.name).join(", ") || "none"}`);
  for (const { name, off: why } of off) io.out(`             ${name} is off: ${why}`);
  io.out(`  models     ${usable.join(", ") || "none"}`);
  if (idle.length > 0) io.out(`             off with their providers: ${idle.join(", ")}`);
  for (const notice of config.notices)
    if (!off.some(({ name, off = "" }) => notice === offNotice("provider", name, off)))
      io.out(`  note       ${notice}`);
  const key = await stores.keys.ensureFirstKey();
  if (key) io.out(`  key        ${key}   (shown once; more with: ${COMMAND} keys create NAME)`);
  else io.out(`  key        one of yours (${COMMAND} keys list)`);
  if (usable[0]) {
    io.out("\nTry it:\n");
    io.out(`  curl -N ${base}/v1/chat/completions -H "authorization: Bearer ${key ?? "$GATEWAY_KEY"}" \\`);
    io.out("    -H 'content-type: application/json' \\");
    io.out(`    -d '{"model":"${usable[0]}","stream":true,"messages":[{"role":"user","content":"Hello"}]}'\n`);
  }
}
