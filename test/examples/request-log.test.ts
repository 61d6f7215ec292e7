import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import t from "tap";
import RequestLog from "../../examples/request-log.ts";
import { say, startExample } from "./example.ts";

t.test("a line is written for each request", async (t) => {
  const file = join(t.testdir(), "requests.log");
  const gateway = await startExample(t, "request-log", { file });
  await (await say(gateway, "hi")).text();
  await gateway.gateway.stop({ drain: 0 });
  t.match(
    readFileSync(file, "utf8")
      .trim()
      .split("\n")
      .map((line) => JSON.parse(line) as object),
    [{ model: "echo", status: 200, outcome: "completed", time: /^\d{4}-/ }],
  );
});

t.test("a dry start creates no file, and reports one that cannot be written", async (t) => {
  const folder = t.testdir({ "requests.log": {} });
  const fresh = join(folder, "new.log");
  await new RequestLog({ file: fresh }).start({ dry: true });
  t.notOk(existsSync(fresh));
  await t.rejects(new RequestLog({ file: join(folder, "requests.log") }).start({ dry: true }), { code: "EISDIR" });
});

t.test("a file that cannot be written any more, as on a full disk, is reported and ends no gateway", async (t) => {
  const file = "/dev/full";
  if (!existsSync(file)) return t.pass("there is no such device here");
  const running = await startExample(t, "request-log", { file });
  for (let i = 0; i < 2; i++) t.equal((await say(running, "hi")).status, 200);
  await running.gateway.stop({ drain: 0 });
  const failure = { message: "a plugin failed to record", fields: { origin: "request-log.done", cause: /ENOSPC/ } };
  t.match(
    running.log.lines.filter(({ level }) => level === "error"),
    [failure, failure],
  );
});
