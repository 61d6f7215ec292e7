import { spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import t from "tap";
import { folder } from "../loader/folder.ts";
import { ROOT } from "../support/processes.ts";

t.test("a plugin whose code does not end is named, also where it blocks the thread", async (t) => {
  const folder = t.testdir({ plugins: { "quick.ts": "", "endless.ts": "", "later.ts": "" } });
  const code = `
    const { withImportWatch } = await import(${JSON.stringify(join(ROOT, "src/cli/import-watch.ts"))});
    const plugin = async (name) => { if (name === "endless") for (;;); };
    const extensions = withImportWatch({ protocols: new Map(), plugins: [], plugin }, 200);
    await extensions.plugin("quick", undefined, ${JSON.stringify(folder)});
    await extensions.plugin("auth", undefined, ${JSON.stringify(folder)});
    for (const name of ["endless", "later"]) extensions.plugin(name, undefined, ${JSON.stringify(folder)});`;
  const child = spawn(process.execPath, ["--import", "./src/loader/register.js", "--input-type=module", "-e", code], {
    cwd: ROOT,
    env: { PATH: process.env["PATH"] },
  });
  t.teardown(() => child.kill("SIGKILL"));
  const [told] = (await once(child.stderr, "data")) as [Buffer];
  t.equal(told.toString(), `still importing ${join(folder, "plugins/endless.ts")}: does its code run to its end?\n`);
  child.kill("SIGKILL");
  await once(child, "exit");
});

for (const [what, code] of Object.entries({
  constructor: "constructor() { for (;;); } access() {}",
  start: "start() { for (;;); } access() {}",
}))
  t.test(`a plugin whose ${what} does not end is named by check`, async (t) => {
    const own = folder(t, {
      "gateway.yaml":
        "providers: { demo: { url: 'demo:' } }\nmodels: { m: { targets: [demo:echo] } }\nplugins: { endless: {} }\n",
      "plugins/endless.ts": `export default class Endless { ${code} }`,
    });
    const command = ["--import", join(ROOT, "src/loader/register.js"), join(ROOT, "src/main.ts"), "check"];
    const child = spawn(process.execPath, command, {
      cwd: own,
      env: { PATH: process.env["PATH"] },
    });
    t.teardown(() => child.kill("SIGKILL"));
    const [told] = (await once(child.stderr, "data")) as [Buffer];
    t.equal(told.toString(), `still starting ${join(own, "plugins/endless.ts")}: does its code run to its end?\n`);
    child.kill("SIGKILL");
    await once(child, "exit");
  });
