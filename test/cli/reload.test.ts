import { readFileSync, writeFileSync } from "node:fs";
import { userInfo } from "node:os";
import { join } from "node:path";
import t from "tap";
import { findAdmin, requestAdmin } from "../../src/cli/admin-client.ts";
import * as diff from "../../src/cli/diff.ts";
import * as reload from "../../src/cli/reload.ts";
import * as top from "../../src/cli/top.ts";
import { BUNDLED_CONFIG } from "../../src/cli/verb.ts";
import { ConfigError } from "../../src/config/problems.ts";
import { printError } from "../../src/text/format-error.ts";
import { startAdmin, TOKEN, WITH_TOKENS } from "../admin/support.ts";
import { folder } from "../loader/folder.ts";
import { recordingTerminal } from "../support/terminal.ts";

const verb = async (
  act: typeof reload.runReload,
  base: string | undefined,
  args: string[] = [],
  env: NodeJS.ProcessEnv = { ADMIN_TOKEN: TOKEN },
) => {
  const { io, lines } = recordingTerminal({ env });
  const { hostname: host, port } = new URL(base ?? "http://off");
  const admin = base === undefined ? undefined : { host, port: Number(port) };
  const code = await act(args, io, admin).catch((thrown) => {
    if (!(thrown instanceof ConfigError)) throw thrown;
    printError(thrown, io, args.includes("--json"));
    return 1;
  });
  return { code, text: lines.join("\n") };
};

t.test("reload and diff print the result, and fail with what is wrong", async (t) => {
  const { base, folder, gateway } = await startAdmin(t, WITH_TOKENS);
  const file = join(folder, "gateway.yaml");
  const written = readFileSync(file, "utf8");
  t.same(await verb(diff.runDiff, base), { code: 0, text: "Nothing would change." });
  t.same(await verb(reload.runReload, base), { code: 0, text: "Nothing has changed." });
  writeFileSync(file, `${written}drain: 7s\nworkers: 2\n`);
  const shown = await verb(diff.runDiff, base);
  t.equal(shown.code, 1);
  t.match(shown.text, /^workers: 1 -> 2\ndrain: 10m -> 7s\nAt the next start only: workers\.$/);
  t.match(await verb(reload.runReload, base), {
    code: 0,
    text: /^Reloaded: 2 changes, generation 2\.\nAt the next start only/,
  });
  t.equal(gateway.config.drain, 7000);
  t.match(JSON.parse((await verb(reload.runReload, base, ["--json"])).text), { changes: { length: 0 }, generation: 2 });
  writeFileSync(file, "models: [");
  for (const act of [diff.runDiff, reload.runReload])
    t.match(await verb(act, base), { code: 1, text: /gateway\.yaml:\d+:\d+/ });
  const detail = { cli: userInfo().username };
  t.match(
    await gateway.stores.audit.list(10),
    [
      { who: "admin", address: /127/, action: "reload", detail: { ...detail, problem: /gateway\.yaml:\d+:\d+/ } },
      { detail: { ...detail, generation: 2, changes: { length: 0 } } },
      { detail: { ...detail, generation: 2, changes: [{ path: "workers" }, { path: "drain", after: "7s" }] } },
      { detail: { ...detail, generation: 1, changes: { length: 0 } } },
    ],
    "the audit trail has each, with the user of the verb",
  );
  for (const act of [diff.runDiff, reload.runReload]) {
    const { code, text } = await verb(act, base, ["--json"]);
    t.equal(code, 1);
    t.match(JSON.parse(text), {
      ok: false,
      problems: [{ file: /gateway\.yaml$/, line: 1, message: String, frame: String }],
    });
  }
  t.match(await verb(reload.runReload, base, [], {}), { code: 1, text: /wants a token/ });
  for (const [args, env] of [
    [["--token", "wrong"], {}],
    [[], { ADMIN_TOKEN: "wrong" }],
  ] as const)
    t.match(await verb(reload.runReload, base, [...args], env), {
      code: 1,
      text: /refuses this token: .*ADMIN_TOKEN$/,
    });
  t.match(await verb(reload.runReload, "http://127.0.0.1:9"), { code: 1, text: /no gateway answers.*--admin ADDRESS/ });
  const elsewhere = ["--admin", new URL(base).host];
  writeFileSync(file, "");
  t.match(await verb(reload.runReload, "http://127.0.0.1:9", elsewhere), {
    code: 1,
    text: /gateway\.yaml:1:1 error: is empty; it needs providers and models/,
  });
  writeFileSync(file, written);
  t.match(await verb(reload.runReload, undefined, elsewhere), { code: 0, text: /^Reloaded/ }, "the one that is named");
  await t.rejects(verb(diff.runDiff, base, ["--admin", "nowhere"]), { message: /^--admin: not an address/ });
  await t.rejects(verb(reload.runReload, undefined), { message: /SIGHUP/ });
  await t.rejects(verb(diff.runDiff, base, ["--nope"]));
});

t.test("reload and diff print what the new file turns off, and not again with later reloads", async (t) => {
  const { base, folder, gateway } = await startAdmin(t, WITH_TOKENS);
  const file = join(folder, "gateway.yaml");
  const off = readFileSync(file, "utf8").replace('url: "demo:"', "$&, credential: $NOT_SET_ANYWHERE");
  const note = 'note: provider "demo" is off: NOT_SET_ANYWHERE is not set';
  writeFileSync(file, off);
  t.equal((await verb(diff.runDiff, base)).text.split("\n").at(-1), note);
  t.same((await verb(reload.runReload, base)).text.split("\n").slice(1), [note]);
  t.ok(gateway.config.providers[0]?.off);
  writeFileSync(file, `${off}drain: 8s\n`);
  t.same((await verb(diff.runDiff, base)).text, "drain: 10m -> 8s");
  t.match(await verb(reload.runReload, base), { code: 0, text: /^Reloaded: one change, generation 3\.$/ });
});

t.test("the admin side's address can be given while the file is invalid", async (t) => {
  const at = (yaml: string) => {
    const own = folder(t, { "gateway.yaml": yaml });
    return findAdmin({ file: join(own, "gateway.yaml"), folder: "/etc" }, { ADMIN: "9097" });
  };
  const port = (n: number) => ({ host: "127.0.0.1", port: n });
  t.match(at("models: {"), { ...port(9090), fileError: { problems: [{ file: /gateway\.yaml$/, line: 1 }] } });
  t.same(at("models: {}"), port(9090), "valid, and so not a guess");
  t.same(at("models: {\nadmin: 127.0.0.1:7 # here\n"), port(7));
  t.same(at("admin: 7"), port(7));
  t.same(at('admin: { token: $A, listen: "127.0.0.1:8" }\nlisten: 1'), port(8));
  // biome-ignore lint/suspicious/noTemplateCurlyInString: as in gateway.yaml.
  t.same(at('admin: { token: "${A}", listen: "127.0.0.1:${ADMIN}" }'), port(9097));
  t.same(at("admin:\n  token: $A\n  listen: 127.0.0.1:9\n"), port(9));
  t.same(at("admin: # comment\n  listen: 127.0.0.1:9\n"), port(9));
  t.same(at("admin:\n  token: $A\n\n# where\n  listen: 127.0.0.1:9\n"), port(9));
  t.same(at('"admin": {\n  token: $A,\n  listen: "127.0.0.1:9"\n}\n'), port(9));
  t.same(at("x-admin: &a { listen: 127.0.0.1:9 }\nadmin: { <<: *a, token: $A }\n"), port(9));
  t.same(at("admin: { token: $A }"), port(9090));
  t.same(at("admin: unix:admin.sock"), { path: "/etc/admin.sock" });
  t.equal(at("admin: off"), undefined);
  t.same(at("admin: $ADMIN"), port(9097));
  t.match(at("admin: $NOT_SET"), /^NOT_SET is not set; set it/);
  t.match(at("admin: nowhere"), /^not an address/);
  const gone = [{ file: "/nowhere/gateway.yaml", message: "cannot be read: there is no such file" }];
  t.match(findAdmin({ file: "/nowhere/gateway.yaml", folder: "/" }, {}), {
    ...port(9090),
    fileError: { problems: gone },
  });
  t.match(
    findAdmin({ file: BUNDLED_CONFIG, folder: "/nowhere" }, {}),
    { ...port(9090), fileError: { problems: gone } },
    "the bundled file belongs to no gateway here",
  );
  t.same(findAdmin({ file: BUNDLED_CONFIG, folder: "/nowhere", named: true }, {}), port(9090));
});

t.test("if nothing responds and the file does not say where, the file's mistake is reported first", async (t) => {
  const file = join(folder(t, { "gateway.yaml": "models: {\n" }), "gateway.yaml");
  const found = findAdmin({ file, folder: "/" }, {});
  if (!found || typeof found === "string") return t.fail("there is a default");
  const usual = { host: "127.0.0.1", port: 9, ...(found.fileError && { fileError: found.fileError }) };
  for (const act of [reload.runReload, diff.runDiff, top.runTop]) {
    for (const args of [[], ["--json"]]) {
      const { io, lines: said } = recordingTerminal();
      const thrown = await act(args, io, usual).then(
        () => t.fail("nobody responds"),
        (error) => error,
      );
      printError(thrown, io, args.length > 0);
      const last = /So the gateway's admin side is not known: the default 127\.0\.0\.1:9 was asked.*--admin ADDRESS\.$/;
      if (args.length === 0)
        t.match(said.join("\n"), new RegExp(`^\\S*gateway\\.yaml:\\d+:\\d+ error: [^]*${last.source}`));
      else t.match([JSON.parse(said[0] ?? ""), said[1]], [{ ok: false, problems: [{ line: Number }] }, last]);
    }
    const { io, lines } = recordingTerminal();
    t.equal(await act(["--admin", "127.0.0.1:9"], io, usual), 1, "a named gateway is not a guess");
    t.match(lines, [/^no gateway answers at 127\.0\.0\.1:9: does/]);
  }
});

t.test("a refusal of the admin side is explained", async (t) => {
  const { base } = await startAdmin(t);
  const { hostname: host, port } = new URL(base);
  await t.rejects(requestAdmin({ host, port: Number(port) }, undefined, "/api/nothing"), /answers 404/);
});
