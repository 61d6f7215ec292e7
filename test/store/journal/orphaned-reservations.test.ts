import { spawn } from "node:child_process";
import { once } from "node:events";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import t from "tap";
import { Calendar } from "../../../src/core/calendar.ts";
import { journalFile, processName } from "../../../src/store/journal/files.ts";
import { Journal } from "../../../src/store/journal/journal.ts";
import { readJournals } from "../../../src/store/journal/lines.ts";
import { orphanedLine, readOrphaned } from "../../../src/store/journal/orphaned-reservations.ts";
import type { RunningReservation } from "../../../src/store/limiter.ts";
import { MemoryLimiter } from "../../../src/store/memory-limiter.ts";
import { level } from "../../support/limiter-contract.ts";

const spending = { tokens: 0, cost: 4 };
const orphaned = ["a", "b"].map((id) => ({
  reservation: { id, levels: [], maximum: spending, minimum: spending },
  time: 5,
}));

t.test("what a process has reserved is read from its journal, however many files that has had since", async (t) => {
  const folder = join(t.testdir(), "journal");
  t.same(readOrphaned(folder, "1-1-1"), { orphaned: [], complete: true });
  const journal = new Journal(folder, () => {}, { full: 1, memory: 1e6 });
  journal.recordOrphaned(orphanedLine(orphaned));
  journal.write();
  t.equal(journal.number, 2);
  t.same(readOrphaned(folder, "1-1-1"), { orphaned, complete: true });
  t.same(readOrphaned(folder, journal.owner).orphaned, [], "one's own is counted already");
  journal.recordOrphaned(orphanedLine(orphaned.slice(1)));
  journal.write();
  t.same(readOrphaned(folder, "1-1-1").orphaned, orphaned.slice(1), "the last record");
  t.match(
    await readJournals(folder),
    { ended: { length: 0 }, open: { length: 0 }, objects: { length: 0 } },
    "it is no row",
  );
  journal.close();
});

t.test("a line that a power cut has damaged is no record", (t) => {
  const folder = t.testdir();
  const damaged = orphanedLine(orphaned).replace("reservation", "\0");
  writeFileSync(journalFile(folder, "1-1-1", 1), `${orphanedLine(orphaned)}${damaged}`);
  t.same(readOrphaned(folder, "2-2-2"), { orphaned, complete: true });
  t.end();
});

t.test("what a limiter has running is recorded without its counters", async (t) => {
  const limiter = new MemoryLimiter(
    async () => new Map(),
    new Calendar(),
    () => {},
  );
  await limiter.reserve({ id: "a", levels: [level("key", "ci", { rpm: 9 })], maximum: spending, minimum: spending });
  const [, [read]] = JSON.parse(orphanedLine(limiter.running)) as [string, [RunningReservation]];
  t.same(Object.keys(read), ["reservation", "time"]);
  t.equal(read.reservation.id, "a");
});

t.test("what one's own workers have reserved is counted already", async (t) => {
  const folder = t.testdir();
  const worker = spawn("sleep", ["60"]);
  t.teardown(() => worker.kill("SIGKILL"));
  writeFileSync(journalFile(folder, `${processName(worker.pid)}-1`, 1), orphanedLine(orphaned));
  t.same(readOrphaned(folder, "1-1-1").orphaned, []);
});

t.test("a process that goes on without its primary has not recorded it at once", async (t) => {
  const folder = t.testdir();
  const journalOf = async (program: string) => {
    // The shell ends, and its child goes on.
    const shell = spawn("/bin/sh", ["-c", `${program} > /dev/null 2>&1 & echo $!`]);
    const [text] = (await once(shell.stdout, "data")) as [Buffer];
    await once(shell, "close");
    const pid = Number(text);
    t.teardown(() => process.kill(pid, "SIGKILL"));
    const file = journalFile(folder, `${processName(pid)}-1`, 1);
    writeFileSync(file, "");
    return file;
  };
  await journalOf("sleep 60");
  t.ok(readOrphaned(folder, "1-1-1").complete, "it never had one");
  const file = await journalOf("tail -f /dev/null /nowhere/workers/main.ts");
  t.equal(readOrphaned(folder, "1-1-1").complete, false);
  writeFileSync(file, orphanedLine([]));
  t.same(readOrphaned(folder, "1-1-1"), { orphaned: [], complete: true });
});
