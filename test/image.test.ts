import { spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { gunzipSync, gzipSync } from "node:zlib";
import t from "tap";
import { until } from "./support/until.ts";

/** The name of an image that was built: docker build -t model-gateway . */
const IMAGE = process.env["GATEWAY_TEST_IMAGE"];
/** docker, podman, or what takes their words. */
const ENGINE = process.env["GATEWAY_TEST_ENGINE"] ?? "docker";
/** Bytes that a registry keeps and a machine fetches. */
const MAX_IMAGE_BYTES = 90e6;

const run = (command: string, ...args: string[]) => {
  const { status, stdout, stderr } = spawnSync(command, args, { encoding: "utf8", maxBuffer: 1e8 });
  return { status, stdout, said: stdout + stderr };
};
const engine = (...args: string[]) => run(ENGINE, ...args);

if (IMAGE === undefined) t.pass("skipped: GATEWAY_TEST_IMAGE names no image");
else {
  t.test("the image's layers are at most 90 MB, compressed", async (t) => {
    const folder = mkdtempSync(join(tmpdir(), "gateway-image-"));
    t.teardown(() => rmSync(folder, { recursive: true }));
    t.match(engine("save", "--output", join(folder, "image.tar"), IMAGE), { status: 0 });
    t.match(run("tar", "-xf", join(folder, "image.tar"), "-C", folder), { status: 0 });
    const [{ Layers }] = JSON.parse(readFileSync(join(folder, "manifest.json"), "utf8")) as [{ Layers: string[] }];
    let sum = 0;
    for (const layer of Layers) {
      const bytes = readFileSync(join(folder, layer));
      sum += gzipSync(bytes[0] === 0x1f ? gunzipSync(bytes) : bytes).length;
    }
    t.comment(`${(sum / 1e6).toFixed(1)} MB`);
    t.ok(sum > 0 && sum <= MAX_IMAGE_BYTES, `${sum} bytes`);
  });

  t.test("it runs without root, capabilities or a writable root, answers, and stops in order", async (t) => {
    const locked = ["--read-only", "--tmpfs", "/tmp", "--cap-drop", "ALL", "--security-opt", "no-new-privileges"];
    const { stdout, said } = engine("run", "--detach", ...locked, IMAGE);
    const id = stdout.trim().split("\n").at(-1) ?? "";
    t.match(id, /^[0-9a-f]{12,}$/, said);
    t.teardown(() => engine("rm", "--force", "--volumes", id));
    const logs = () => engine("logs", id).said;
    await until(() => logs().includes("curl -N"), "a start");
    const key = /key +(gw_\S+) .*more with: model-gateway keys create/.exec(logs())?.[1] ?? "";
    const inside = (...args: string[]) => engine("exec", id, ...args);

    t.match(inside("id", "-u"), { stdout: "65532\n" });
    t.not(inside("touch", "/opt/model-gateway/x").status, 0, "nothing can be changed there");
    t.equal(inside("node", "/opt/model-gateway/deploy/container/healthcheck.mjs").status, 0);
    const script = readFileSync(fileURLToPath(new URL("support/in-container.mjs", import.meta.url)), "utf8");
    const asked = inside("node", "--input-type=module", "-e", script, key);
    t.equal(asked.status, 0, asked.said);
    t.match(
      inside("model-gateway", "usage", "--rows", "--json"),
      { stdout: /"echo"/ },
      "verbs use the store that serves",
    );
    t.match(inside("model-gateway", "check"), { status: 0 });

    t.match(engine("stop", "-t", "60", id), { status: 0 });
    t.match(engine("wait", id), { stdout: "0\n" });
    t.match(logs(), /"msg":"exchange"/);
  });
}
