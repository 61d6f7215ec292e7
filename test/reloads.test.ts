import { renameSync, symlinkSync, unlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as after } from "node:timers/promises";
import t from "tap";
import { AuditTrail } from "../src/audit-trail.ts";
import type { Config } from "../src/config/types.ts";
import { configSources, FileWatch, Reloads } from "../src/reloads.ts";
import type { Audit, AuditEntry } from "../src/store/audit.ts";
import { folder } from "./loader/folder.ts";
import { MemoryLog } from "./support/gateway.ts";
import { until } from "./support/until.ts";

const SIGNAL = { who: "signal", address: "here", detail: { signal: "SIGHUP" } };

t.test("reloads run one after the other, and each is reported", async (t) => {
  const log = new MemoryLog();
  let running = 0;
  let number = 0;
  const entries: AuditEntry[] = [];
  const audit = { add: async (entry: AuditEntry) => void entries.push(entry) } as Audit;
  const act = async () => {
    t.equal(++running, 1);
    await after(5);
    running--;
    number++;
    if (number === 2) throw new Error("it is broken");
    if (number === 3) return { changes: [], restart: [], notices: [], generation: 2 };
    return {
      changes: [{ path: "models.m.context", before: "1", after: `2${"0".repeat(999)}` }],
      restart: ["listen"],
      notices: ['provider "acme" is off: ACME_KEY is not set'],
      generation: 2,
    };
  };
  const trail = new AuditTrail(
    log,
    () => audit,
    () => [],
  );
  const reloads = new Reloads(log, act, trail, () => ({
    host: "here",
    listen: "127.0.0.1:8080",
    file: "/etc/gateway.yaml",
    file_hash: "0123abcd",
  }));
  const problems: string[] = [];
  reloads.onFailure = (problem) => problems.push(problem);
  const ends = await Promise.allSettled([reloads.run(), reloads.run(SIGNAL), reloads.run(SIGNAL)]);
  await reloads.whenIdle();
  t.same(
    ends.map(({ status }) => status),
    ["fulfilled", "rejected", "fulfilled"],
  );
  t.same([reloads.succeeded, reloads.failed], [2, 1]);
  t.match(problems, [/it is broken/]);
  t.equal(reloads.last?.problem, undefined);
  t.same(
    log.lines.map(({ level, message }) => [level, message]),
    [
      ["info", "the configuration was reloaded"],
      ["warn", "reload: this takes effect at the next start"],
      ["warn", "reload: check the new configuration"],
      ["error", "the configuration was not reloaded, and nothing has changed"],
      ["info", "reload: nothing has changed"],
    ],
  );
  t.match(
    entries.map(({ who, action, detail }) => [who, action, detail]),
    [
      [
        "program",
        "reload",
        {
          generation: 2,
          host: "here",
          file: "/etc/gateway.yaml",
          file_hash: "0123abcd",
          changes: [{ path: "models.m.context", before: "1", after: `2${"0".repeat(199)}…` }],
        },
      ],
      ["signal", "reload", { signal: "SIGHUP", problem: /it is broken/ }],
      ["signal", "reload", { signal: "SIGHUP", generation: 2, changes: { length: 0 } }],
    ],
    "each is in the audit trail once",
  );
  t.equal(entries.length, 3);
});

t.test("files are watched by their names: written, replaced, or links that change their target", async (t) => {
  const own = folder(t, { a: "1", "one/b": "1", "two/b": "2 " });
  symlinkSync(join(own, "one"), join(own, "now"));
  const files = [join(own, "a"), join(own, "now/b"), join(own, "not-there")];
  let changed = 0;
  const watch = new FileWatch(
    () => files,
    () => changed++,
    10,
  );
  t.teardown(() => watch.close());
  await after(60);
  t.equal(changed, 0);
  const noticed = async (count: number, what: string) => until(() => changed === count, what);
  writeFileSync(join(own, "a"), "22");
  await noticed(1, "a change");
  writeFileSync(join(own, "new"), "22");
  renameSync(join(own, "new"), join(own, "a"));
  await noticed(2, "another file of that name");
  unlinkSync(join(own, "now"));
  symlinkSync(join(own, "two"), join(own, "now"));
  await noticed(3, "another link");
  writeFileSync(join(own, "not-there"), "");
  await noticed(4, "one that was not there");
  unlinkSync(join(own, "a"));
  symlinkSync("a", join(own, "a"));
  await noticed(5, "one that can no longer be read: a link to itself");
});

t.test("a configuration's sources are its file, its secrets' files and its plugins' code", async (t) => {
  const own = folder(t, { "p.ts": "", "plugins/unused.ts": "", "plugins/notes.txt": "" });
  const text = 'providers: { p: { credential: $file:./key, x: "$file:/run/b" } }';
  const config = { file: "/etc/gateway.yaml", folder: own, text } as Config;
  const plugins = new Map([["p", { file: join(own, "p.ts"), Class: class {} as never }]]);
  t.same(configSources(config, plugins), [
    ...["/etc/gateway.yaml", join(own, "key"), "/run/b"],
    ...[join(own, "p.ts"), join(own, "plugins/unused.ts")],
  ]);
});
