import t from "tap";
import type { Audit, AuditEntry } from "../src/store/audit.ts";
import { Trail } from "../src/trail.ts";
import { MemoryLog } from "./support/gateway.ts";

const BY = { who: "signal", address: "here", detail: { signal: "SIGHUP" } };
const SECRET = "q8Zr-not-for-anybody";

t.test("what was wrong is told without secrets, and not at length", async (t) => {
  const entries: AuditEntry[] = [];
  const audit = { add: async (entry: AuditEntry) => void entries.push(entry) } as Audit;
  const trail = new Trail(
    new MemoryLog(),
    () => audit,
    () => [SECRET],
  );
  await trail.failed(
    BY,
    "reload",
    "gateway.yaml",
    `a plugin said ${SECRET}, token: another-secret-of-somebody ${"x".repeat(5000)}`,
  );
  const [{ detail = {}, ...entry } = {}] = entries;
  t.match(entry, { who: "signal", address: "here", action: "reload", subject: "gateway.yaml", time: Number });
  t.match(detail, { signal: "SIGHUP", problem: /^a plugin said \*+, token: \*+ x+$/ });
  t.equal(String(detail["problem"]).length, 1000);
});

t.test("a trail that cannot be written is told in the log, and stops nothing", async (t) => {
  const log = new MemoryLog();
  const audit = { add: () => Promise.reject(new Error("the disk is full")) } as unknown as Audit;
  const trail = new Trail(
    log,
    () => audit,
    () => [],
  );
  await trail.done(BY, "reload", "gateway.yaml", { generation: 2 });
  t.match(log.lines, [{ level: "error", fields: { action: "reload", who: "signal", cause: /the disk is full/ } }]);
});

t.test("a start says which gateway.yaml it serves, and whether the last start or reload had another", async (t) => {
  const log = new MemoryLog();
  const entries: AuditEntry[] = [];
  const audit = {
    add: async (entry: AuditEntry) => void entries.unshift(entry),
    list: async () => entries,
  } as unknown as Audit;
  const trail = new Trail(
    log,
    () => audit,
    () => [],
  );
  const start = async (hash: string) => {
    await trail.started(BY, { version: "1.2.3", file: "/etc/gateway.yaml", hash });
    return entries[0];
  };
  t.same((await start("aa"))?.detail, { version: "1.2.3", file: "/etc/gateway.yaml", hash: "aa", signal: "SIGHUP" });
  await trail.done(BY, "keys.create", "ci", {});
  t.match(await start("aa"), {
    action: "start",
    subject: "gateway.yaml",
    detail: { changed: false, before: undefined },
  });
  t.same(log.lines, []);
  await trail.done(BY, "reload", "gateway.yaml", { hash: "bb" });
  t.match((await start("aa"))?.detail, { changed: true, before: "bb" });
  t.match(log.lines, [{ level: "info", fields: { hash: "aa", before: "bb" } }]);
});
