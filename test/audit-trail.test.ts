import t from "tap";
import { AuditTrail, servedFile } from "../src/audit-trail.ts";
import type { Audit, AuditEntry } from "../src/store/audit.ts";
import { MemoryLog } from "./support/gateway.ts";

const BY = { who: "signal", address: "here", detail: { signal: "SIGHUP" } };
const SECRET = "q8Zr-not-for-anybody";

t.test("the reason of a failed change is recorded without secrets, and shortened", async (t) => {
  const entries: AuditEntry[] = [];
  const audit = { add: async (entry: AuditEntry) => void entries.push(entry) } as Audit;
  const trail = new AuditTrail(
    new MemoryLog(),
    () => audit,
    () => [SECRET],
  );
  await trail.recordFailure(
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

t.test("an audit trail that cannot be written is logged, and stops nothing", async (t) => {
  const log = new MemoryLog();
  const audit = { add: () => Promise.reject(new Error("the disk is full")) } as unknown as Audit;
  const trail = new AuditTrail(
    log,
    () => audit,
    () => [],
  );
  await trail.recordAction(BY, "reload", "gateway.yaml", { generation: 2 });
  t.match(log.lines, [{ level: "error", fields: { action: "reload", who: "signal", cause: /the disk is full/ } }]);
});

t.test(
  "a start records which gateway.yaml it serves, and whether the previous start or reload had another",
  async (t) => {
    const log = new MemoryLog();
    const entries: AuditEntry[] = [];
    const audit = {
      add: async (entry: AuditEntry) => void entries.unshift(entry),
      list: async () => entries,
    } as unknown as Audit;
    const trail = new AuditTrail(
      log,
      () => audit,
      () => [],
    );
    const served = (file_hash: string, other = {}) => ({
      host: "here",
      listen: "127.0.0.1:8080",
      file: "/etc/gateway.yaml",
      file_hash,
      ...other,
    });
    const start = async (hash: string, other = {}) => {
      await trail.recordStart(BY, "1.2.3", served(hash, other));
      return entries[0];
    };
    t.same((await start("aa"))?.detail, { version: "1.2.3", ...served("aa"), signal: "SIGHUP" });
    await trail.recordAction(BY, "keys.create", "ci", {});
    t.match(await start("aa"), {
      action: "start",
      subject: "gateway.yaml",
      detail: { file_changed: false, before: undefined },
    });
    t.same(log.lines, []);
    await trail.recordAction(BY, "reload", "gateway.yaml", served("bb"));
    t.match((await start("aa"))?.detail, { file_changed: true, before: "bb" });
    t.match(log.lines, [{ level: "info", fields: { file_hash: "aa", before: "bb" } }]);
    for (const other of [{ host: "there" }, { file: "/etc/other.yaml" }]) {
      const first = await start("cc", other);
      t.match(first?.detail, { file_changed: undefined, before: undefined }, "the first of its machine and file");
      t.match(
        (await start("aa"))?.detail,
        { file_changed: false },
        "another gateway with the same database has its own file",
      );
      t.match((await start("dd", other))?.detail, { file_changed: true, before: "cc" });
    }
  },
);

t.test("gateways of one host are distinguished by their address for clients", (t) => {
  const at = (host: string, port: number) =>
    servedFile({ file: "/etc/gateway.yaml", text: "", listen: { host, port } });
  t.equal(at("0.0.0.0", 8080).listen, "0.0.0.0:8080");
  t.equal(at("::1", 8081).listen, "[::1]:8081");
  t.equal(at("::1", 1).host, at("0.0.0.0", 2).host);
  t.end();
});
