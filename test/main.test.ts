import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import t from "tap";

const ROOT = fileURLToPath(new URL("..", import.meta.url));
const folder = mkdtempSync(join(tmpdir(), "gateway-main-"));
t.teardown(() => rmSync(folder, { recursive: true }));
const YAML =
  'providers: { demo: { url: "demo:" } }\nmodels: { echo: { targets: [demo:echo] } }\nstore: { ledger: "sqlite:./gateway.db" }\n';
writeFileSync(join(folder, "gateway.yaml"), YAML);
writeFileSync(join(folder, "wrong.yaml"), YAML.replace("providers", "provders"));

function run(args: string[], command = process.execPath, cwd = folder) {
  const before =
    command === process.execPath ? ["--import", `${ROOT}src/loader/register.js`, `${ROOT}src/main.ts`] : [];
  const { stdout, stderr, status } = spawnSync(command, [...before, ...args], {
    cwd,
    encoding: "utf8",
    env: { PATH: process.env["PATH"] },
  });
  return { out: stdout, err: stderr, status };
}

t.test("every verb is reached, and help lists them all", async (t) => {
  const help = run(["help"]);
  t.equal(help.status, 0);
  for (const verb of ["run", "check", "schema", "keys create", "usage"]) t.match(help.out, verb);
  t.match(run(["check"]), { status: 0, out: /ok, 1 provider/ });
  t.match(run(["check", "wrong.yaml"]), { status: 1 });
  t.equal((JSON.parse(run(["schema"]).out) as { type: string }).type, "object");
  const created = run(["keys", "create", "ci"]);
  t.match(created, { status: 0, out: /^gw_\S+\n/ });
  t.match(run(["keys", "list"]), { status: 0, out: /ci/ });
  t.match(run(["usage"]), { status: 0, out: /No requests/ });
});

t.test("without a gateway.yaml of its own a folder gets the one that came along, and keeps its own data", async (t) => {
  const empty = join(folder, "empty");
  mkdirSync(empty);
  t.match(run(["keys", "create", "here"], undefined, empty), { status: 0, out: /^gw_/ });
  t.ok(existsSync(join(empty, "data/gateway.db")));
});

t.test("an unknown verb is a usage error that lists the verbs", async (t) => {
  t.match(run(["serve"]), { status: 2, err: /unknown verb "serve".*check/s });
});

t.test("--config takes another file for every verb", async (t) => {
  t.match(run(["keys", "list", "--config", "wrong.yaml"]), { status: 1, err: /provders.*did you mean "providers"/s });
  t.match(run(["keys", "list", "--config=gateway.yaml"]), { status: 0 });
});

t.test("the installed command starts the same program, also through a link and from elsewhere", async (t) => {
  const link = join(folder, "model-gateway");
  symlinkSync(join(ROOT, "bin/model-gateway"), link);
  t.match(run(["check"], link), { status: 0, out: /ok, 1 provider/ });
});
