import { createServer } from "node:net";
import t from "tap";
import { ConfigError } from "../../src/config/problems.ts";
import { FileError, StoreUnavailableError } from "../../src/core/errors.ts";
import { PluginError, pluginError } from "../../src/loader/problems.ts";
import { FormattedError, formatError, printError } from "../../src/text/format-error.ts";

t.test("an expected error is reported in one line, without a stack", async (t) => {
  t.equal(formatError(new FileError("The store x cannot be used.")), "The store x cannot be used.");
  t.equal(
    formatError(new StoreUnavailableError("PostgreSQL at x cannot be reached.")),
    "PostgreSQL at x cannot be reached.",
  );
  const listening = (code: string, address: string, port: number) =>
    formatError(Object.assign(new Error(`listen ${code}`), { code, syscall: "listen", address, port }));
  t.match(listening("EADDRINUSE", "127.0.0.1", 80), /^127\.0\.0\.1:80 is taken: .*listen:/);
  t.match(listening("EACCES", "::", 80), /^:::80 is not open to this user: .*listen:/);
});

t.test("an address that cannot be listened on is reported in one line, with what to do", async (t) => {
  const whyNot = (address: { host: string; port: number } | { path: string }) =>
    new Promise<string>((resolve) => {
      const server = createServer().listen(address, () => server.close(() => resolve("it listens")));
      server.once("error", (error) => resolve(formatError(error)));
    });
  t.match(await whyNot({ host: "192.0.2.1", port: 8080 }), /^192\.0\.2\.1:8080 is no address of this machine: [^\n]*$/);
  t.match(
    await whyNot({ path: "/no/such/folder/a.sock" }),
    /^\/no\/such\/folder\/a\.sock is not open to this user: [^\n]*$/,
  );
  t.match(await whyNot({ host: "name.invalid", port: 8080 }), /^name\.invalid cannot be resolved \(\w+\): [^\n]*$/);
});

t.test("an error reported by another process stays unchanged", async (t) => {
  t.equal(formatError(new FormattedError("plugin a: its start() failed")), "plugin a: its start() failed");
});

t.test("an unexpected error keeps its stack", async (t) => {
  t.match(formatError(new TypeError("x is not a function")), /^TypeError: x is not a function\n +at /);
  t.equal(formatError("thrown"), "thrown");
});

t.test("with --json errors in gateway.yaml are reported as check reports them, and all else as usual", async (t) => {
  const say = (thrown: unknown, json: boolean) => {
    const said: Record<"out" | "err", string[]> = { out: [], err: [] };
    printError(thrown, { out: (line) => said.out.push(line), err: (line) => said.err.push(line) }, json);
    return said;
  };
  const problem = { file: "a.yaml", line: 2, column: 3, message: "no", frame: "", severity: "error" } as const;
  const wrong = new ConfigError([problem]);
  t.same(say(wrong, true), { out: [JSON.stringify({ ok: false, problems: [problem] })], err: [] });
  t.same(say(wrong, false), { out: [], err: ["a.yaml:2:3 error: no"] });
  t.same(JSON.parse(say(pluginError("/x/p.ts", "it has no phase"), true).out[0] ?? "").problems, [
    { ...problem, file: "/x/p.ts", line: 1, column: 1, message: "it has no phase" },
  ]);
  const framed = new PluginError([{ file: "/x/g.yaml", line: 5, column: 3, message: "no", frame: "> 5 | a" }]);
  t.match(JSON.parse(say(framed, true).out[0] ?? "").problems, [{ line: 5, column: 3, frame: "> 5 | a" }]);
  t.same(say(framed, false).err, ["/x/g.yaml:5:3 error: no\n> 5 | a"]);
  t.same(say(new FileError("gone"), true), { out: [], err: ["gone"] });
});
