import { execFileSync } from "node:child_process";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import t, { type Test } from "tap";
import { firstRun } from "../../src/cli/first-run.ts";
import { recordingTerminal } from "../support/terminal.ts";
import { json, startVendor } from "../support/vendor.ts";

const CAME_ALONG = 'providers: { demo: { url: "demo:" } }\nmodels: { echo: { targets: [demo:echo] } }\n';

/** A folder in which the gateway is started by hand; a checkout has the gateway.yaml that came along, and git knows it. */
async function folderOf(t: Test, { checkout }: { checkout: boolean }) {
  const vendor = await startVendor(t, json({ data: [{ id: "gpt-5.6" }, { id: "gpt-5.4-mini" }] }));
  const folder = t.testdir(checkout ? { "gateway.yaml": CAME_ALONG } : {});
  if (checkout) {
    const git = (...args: string[]) =>
      execFileSync("git", ["-c", "user.name=a", "-c", "user.email=a@b", ...args], { cwd: folder, stdio: "ignore" });
    git("init");
    git("add", ".");
    git("commit", "-m", "first");
  }
  const bundled = checkout ? join(folder, "gateway.yaml") : "/came/along/gateway.yaml";
  const keyed = { OPENAI_API_KEY: "sk-0123456789abcdef", OPENAI_BASE_URL: `${vendor.url}/v1` };
  const start = async (answers: string[], env: Record<string, string> = keyed) => {
    const asked: string[] = [];
    const ask = async (question: string) => {
      asked.push(question);
      return answers.shift() ?? "";
    };
    const { io, lines } = recordingTerminal({ env: { PATH: "", HOME: folder, ...env }, folder });
    const place = await firstRun({ file: bundled, folder }, io, { ask, bundled });
    return { asked, place, out: lines.join("\n") };
  };
  return { folder, bundled, start, own: join(folder, "gateway.yaml") };
}

t.test(
  "in a checkout with a vendor's key the user chooses from that vendor's models, and they are served",
  async (t) => {
    const { start, own, folder } = await folderOf(t, { checkout: true });
    const { asked, place, out } = await start(["", "gpt-5.4*"]);
    t.match(asked[0], /the bundled one[\s\S]*models of OPENAI_API_KEY/);
    t.match(asked[1], /Which models/);
    t.match(out, /gpt-5\.6 +/);
    t.same(place, { file: own, folder });
    t.match(readFileSync(own, "utf8"), /targets: \[openai:gpt-5\.4-mini\]/);
    t.notMatch(out, /key, shown once|start it/, "the gateway prints these itself at its start");
    t.same((await start([])).asked, [], "once: the file is no longer tracked by git");
  },
);

t.test("no question for a user who declined before, changed the file, ran it before, or has no key", async (t) => {
  const { start, own, bundled, folder } = await folderOf(t, { checkout: true });
  t.equal((await start(["n"])).place.file, bundled);
  t.same((await start([], {})).asked, []);
  mkdirSync(join(folder, "data"));
  writeFileSync(join(folder, "data/gateway.db"), "");
  t.same((await start([])).asked, []);
  t.equal(readFileSync(own, "utf8"), CAME_ALONG);
  const other = await folderOf(t, { checkout: true });
  writeFileSync(other.own, `${CAME_ALONG}# mine\n`);
  t.same((await other.start([])).asked, []);
});

t.test("a folder without a gateway.yaml gets one if the user agrees", async (t) => {
  const { start, own, bundled } = await folderOf(t, { checkout: false });
  t.equal((await start(["no"])).place.file, bundled);
  const { asked, place } = await start(["y", ""]);
  t.match(asked[0], /There is no gateway\.yaml in this folder/);
  t.equal(place.file, own);
  t.match(readFileSync(own, "utf8"), /openai:gpt-5\.6/);
});

t.test("without a terminal, or with --config, the given file is used", async (t) => {
  const { folder, bundled } = await folderOf(t, { checkout: true });
  const { io } = recordingTerminal({ env: { OPENAI_API_KEY: "sk-0123456789abcdef" }, folder });
  t.equal((await firstRun({ file: bundled, folder }, io)).file, bundled);
  const ask = () => Promise.reject(new Error("nobody is asked"));
  t.equal((await firstRun({ file: "/else.yaml", folder }, io, { ask, bundled })).file, "/else.yaml");
});
