import { spawnSync } from "node:child_process";
import { fileURLToPath } from "node:url";
import t from "tap";

const ROOT = new URL("../../", import.meta.url);

t.test("a gateway with the built-in plugins serves without loading undici", async (t) => {
  const program = `
    const { Gateway } = await import("${new URL("src/gateway.ts", ROOT)}");
    const { JsonLog } = await import("${new URL("src/core/log.ts", ROOT)}");
    const file = ${JSON.stringify(fileURLToPath(new URL("plugins/warm-up/gateway.yaml", ROOT)))};
    const folder = process.cwd();
    const env = { WARM_UP_PROVIDER: "http://127.0.0.1:9" };
    const gateway = await Gateway.start({ file, folder, env, log: new JsonLog(2) });
    const loaded = process.moduleLoadList.map((each) => each.split(" ").at(-1));
    console.log(loaded.includes("http"), loaded.filter((each) => each.includes("undici")).join());
    await gateway.stop({ linger: 0, drain: 0 });`;
  const register = new URL("src/loader/register.js", ROOT).href;
  const { stdout, stderr } = spawnSync(process.execPath, ["--import", register, "--input-type=module", "-e", program], {
    encoding: "utf8",
    cwd: t.testdir(),
  });
  t.equal(stdout, "true \n", stderr);
});
