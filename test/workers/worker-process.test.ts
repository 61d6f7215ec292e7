import { spawnSync } from "node:child_process";
import type { Socket } from "node:net";
import t from "tap";
import type { StartSettings } from "../../src/config/changes.ts";
import { WorkerProcess } from "../../src/workers/worker-process.ts";

const START = { text: "", generation: 1, started: {} as StartSettings };

t.test("a worker for which the system has no process ends, like one that died at once", async (t) => {
  const { execPath } = process;
  t.teardown(() => {
    process.execPath = execPath;
  });
  const ended = Promise.withResolvers<readonly Socket[]>();
  const events: string[] = [];
  process.execPath = "/nonexistent/node";
  const worker = new WorkerProcess(["", ""], START, {
    onOutput: () => {},
    onMessage: () => {},
    onLost: () => {},
    onDisconnect: () => events.push("disconnect"),
    onExit: (_, notAccepted) => {
      events.push("exit");
      ended.resolve(notAccepted);
    },
  });
  await t.rejects(worker.ready, { message: /a worker has ended before it was ready: .*ENOENT/ });
  t.same(await ended.promise, []);
  t.match(worker.exitReason, /ENOENT/);
  t.same(events, ["disconnect", "exit"], "nothing more comes from it, and its slot is free");
});

t.test("a worker that is started without free file descriptors ends too, and nothing is thrown", async (t) => {
  const module = new URL("../../src/workers/worker-process.ts", import.meta.url).href;
  const script = `
    const { WorkerProcess } = await import(${JSON.stringify(module)});
    const { openSync } = await import("node:fs");
    try { for (;;) openSync("/dev/null", "r"); } catch {}
    const listener = { onOutput() {}, onMessage() {}, onLost() {}, onDisconnect() {}, onExit: (worker) => console.log(worker.exitReason) };
    new WorkerProcess(["", ""], ${JSON.stringify(START)}, listener);`;
  const loader = new URL("../../src/loader/register.js", import.meta.url).href;
  const args = ["--import", loader, "--input-type=module", "--eval", script];
  const limited = spawnSync("sh", ["-c", 'ulimit -n 256 && exec "$0" "$@"', process.execPath, ...args], {
    encoding: "utf8",
    env: { ...process.env, NODE_OPTIONS: "" },
  });
  t.match(limited, { status: 0, stdout: /EMFILE/, stderr: "" });
});
