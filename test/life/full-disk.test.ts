import { spawnSync } from "node:child_process";
import { closeSync, mkdirSync, mkdtempSync, openSync, rmSync, unlinkSync, writeSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as after } from "node:timers/promises";
import t, { type Test } from "tap";
import Record from "../../plugins/record.ts";
import { drive } from "../../src/testing.ts";
import { eventually, type ProcessOptions, startProcess } from "../support/process.ts";
import { mixedProvider, traffic } from "../support/traffic.ts";

/** Seconds for which there is no room, and requests in each. */
const SECONDS = Number(process.env["GATEWAY_TEST_FULL_SECONDS"] ?? 3);
const RATE = Number(process.env["GATEWAY_TEST_FULL_RATE"] ?? 100);

/** Whether a tool is there, and may do that here. */
const works = (command: string, ...args: string[]): boolean => spawnSync(command, args).status === 0;

interface Disk {
  fill(): void;
  free(): void;
}

/** Traffic while there is room, while there is none, and while there is again: no row may be missing then. */
async function throughFullDisk(t: Test, options: ProcessOptions, { fill, free }: Disk) {
  const upstream = await mixedProvider();
  t.teardown(() => upstream.close());
  const yaml = `providers: { up: { url: "${upstream.origin.origin}/v1", speaks: [openai-chat] } }
models: { m: { targets: [up:m], price: { input: 1, output: 1 } } }
`;
  const gateway = await startProcess(t, yaml, options);
  const stop = traffic(gateway.port, RATE);
  t.teardown(stop);
  await after(500);
  fill();
  const state = async () => (await gateway.ready())?.body["store"];
  await eventually(async () => (await state()) === "waiting", "the store to wait");
  await after(SECONDS * 1000);
  t.equal(await state(), "waiting");
  free();
  await eventually(async () => (await state()) === "ok", "the store to be well again");
  await after(500);
  const { whole: answered } = await stop();
  t.equal(await gateway.end("SIGINT"), 0);
  const { outcomes, twice } = gateway.ledger();
  const rows = gateway.rows();
  t.ok(answered.length > (SECONDS * RATE) / 2, `${answered.length} answers`);
  t.same(
    answered.filter((id) => rows[id] !== "completed"),
    [],
    "who was answered has a row that says so",
  );
  t.equal(twice, 0);
  t.same(outcomes, { completed: upstream.seen.length }, "no request failed, and each that a provider got has its row");
  const told = gateway.lines().map(({ msg, message }) => String(msg ?? message));
  t.ok(told.some((line) => /journal cannot be written|ledger cannot be written/.test(line)));
  t.ok(told.some((line) => /being written again; 0 (?:lines|entries) were lost/.test(line)));
  t.comment(`${SECONDS} s without room at ${RATE}/s: ${answered.length} answers, ${upstream.seen.length} rows`);
}

/** A file system of its own and what takes all room of it; undefined where none can be mounted. */
function disk(t: Test, size: string): ({ mount: string } & Disk) | undefined {
  const mount = mkdtempSync(join(tmpdir(), "gateway-disk-"));
  t.teardown(() => rmSync(mount, { recursive: true, force: true }));
  if (!works("mount", "-t", "tmpfs", "-o", `size=${size}`, "tmpfs", mount)) {
    t.comment("no file system can be mounted here: nothing was tried");
    return undefined;
  }
  t.teardown(() => works("umount", mount));
  const ballast = join(mount, "ballast");
  return {
    mount,
    fill() {
      const file = openSync(ballast, "w");
      // To the last byte, whatever else is written meanwhile.
      for (const size of [65_536, 1])
        try {
          for (;;) writeSync(file, Buffer.alloc(size));
        } catch (thrown) {
          if ((thrown as NodeJS.ErrnoException).code !== "ENOSPC") throw thrown;
        }
      closeSync(file);
    },
    free: () => unlinkSync(ballast),
  };
}

t.test("a disk that is full, and has room again, costs no row", async (t) => {
  const own = disk(t, "8m");
  if (!own) return;
  const folder = join(own.mount, "gateway");
  mkdirSync(folder);
  await throughFullDisk(t, { folder }, own);
});

t.test("a gateway that starts while the disk is full serves, and records as soon as there is room", async (t) => {
  const own = disk(t, "4m");
  if (!own) return;
  const { mount, fill, free } = own;
  fill();
  const driven = await drive(Record, { options: { sample: 1, file: join(mount, "recorded.db") } });
  t.teardown(() => driven.close());
  t.equal((await driven.ask({ protocol: "openai-chat" })).status, 200);
  const dropped = () => driven.log.filter(({ message }) => message.startsWith("exchanges were not recorded"));
  await eventually(() => dropped().length > 0, "a word on what is dropped");
  t.match(dropped(), [{ fields: { cause: /full/ } }]);
  free();
  const { headers } = await driven.ask({ protocol: "openai-chat" });
  t.ok(await driven.plugin.recorded?.(headers["x-request-id"] ?? ""));
});
