import { chmodSync, existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import t from "tap";
import { installedClients, localUrl, quoteKey, runConnect } from "../../src/cli/connect.ts";
import { help, USAGE } from "../../src/cli/help/connect.ts";
import { loadClients } from "../../src/loader/clients.ts";
import { UsageError } from "../../src/text/format-error.ts";
import { captured } from "../support/terminal.ts";

const PLACE = { listen: { host: "0.0.0.0", port: 8080 }, models: ["fast", "gpt-*-mini*"] };

const connect = (args: string[], env: Record<string, string> = {}, models = PLACE.models) =>
  captured((io) => runConnect(args, io, async () => ({ ...PLACE, models })), { env, folder: tmpdir() });

t.test("every client's settings are printed with address, key and model in their places", async (t) => {
  for (const { id } of loadClients()) {
    const { code, text } = await connect([id, "--key", "gw_k", "--model", "fast", "--url", "https://gw.example.com/"]);
    t.equal(code, 0);
    t.match(text, /gw\.example\.com/, id);
    t.notMatch(text, /\{\{|gw\.example\.com\/[/"']?\/|\/v1\/v1/, `${id} has all placeholders replaced`);
  }
  const { text } = await connect(["claude", "--key", "gw_k"]);
  t.match(text, /^export ANTHROPIC_BASE_URL=http:\/\/127\.0\.0\.1:8080$/m);
  t.match(text, /^export ANTHROPIC_AUTH_TOKEN=gw_k$/m);
  t.match(text, /^unset ANTHROPIC_API_KEY$/m);
  const { text: plain } = await connect(["claude"]);
  t.match(plain, /^export ANTHROPIC_AUTH_TOKEN="\$GATEWAY_KEY"$/m);
  const told = JSON.parse((await connect(["codex", "--json", "--key", "gw_k"])).text) as object;
  t.match(told, { client: "codex", env: { GATEWAY_KEY: "gw_k" }, files: [{ path: "~/.codex/config.toml" }] });
});

t.test("without a model no settings are printed, and the output explains how to add one", async (t) => {
  for (const args of [["codex"], ["codex", "--json"], ["codex", "--model", "fast"], ["codex", "--key", "k", "--"]]) {
    const { code, out, err } = await connect(args, {}, []);
    t.same([code, out], [1, ""], args.join(" "));
    t.match(err, /no model yet.* models: \{ fast: \{ targets: \["PROVIDER:MODEL"\].* init --out -/);
  }
  t.equal((await connect([], {}, [])).code, 0, "clients are listed all the same");
});

t.test("without --model a client gets the model that is chosen for its protocol", async (t) => {
  const choose = (protocol?: string) => (protocol === "anthropic-messages" ? "sonnet" : "fast");
  const { text } = await captured(
    (io) => runConnect(["claude", "--key", "k"], io, async () => ({ ...PLACE, models: ["fast", "sonnet"], choose })),
    { env: {}, folder: tmpdir() },
  );
  t.match(text, /^export ANTHROPIC_MODEL=sonnet$/m);
});

t.test("an address is accepted with or without its version, and local ones where clients reach them", async (t) => {
  t.match((await connect(["claude", "--url", "http://h:1/v1/"])).text, /^export ANTHROPIC_BASE_URL=http:\/\/h:1$/m);
  t.equal(localUrl({ host: "::", port: 1 }), "http://127.0.0.1:1");
  t.equal(localUrl({ host: "10.1.2.3", port: 1 }), "http://10.1.2.3:1");
});

t.test("an unknown client is a usage error that names a similar one", async (t) => {
  for (const [args, why] of [
    [["clade"], /did you mean "claude"/],
    [["claude", "--model", "fats"], /no model "fats".*did you mean "fast"/],
    [["claude", "--url", "gw"], /not a URL/],
    [["--", "x"], /needs a client/],
    [["--url", "http://h:1"], /^--url needs a client before it\.$/],
    [["curl-chat", "--key", "k", "--"], /not a program/],
    [["claude", "--"], /--key/],
  ] as const)
    await t.rejects(connect([...args]), { constructor: UsageError, message: why });
  t.equal((await connect(["claude", "--model", "gpt-9-mini"])).code, 0, "an alias's pattern is accepted for it");
});

t.test(
  "after -- the client is started with its settings and the caller's arguments, and its exit code is returned",
  async (t) => {
    const folder = t.testdir({});
    const bin = join(folder, "bin");
    mkdirSync(bin);
    const told = join(folder, "told");
    for (const name of ["claude", "gemini", "codex"]) {
      const script = `#!/bin/sh\n{ env | sort; for each in "$@"; do echo "arg $each"; done; [ -n "$GEMINI_CLI_SYSTEM_SETTINGS_PATH" ] && cat "$GEMINI_CLI_SYSTEM_SETTINGS_PATH"; } > ${told}\nexit 7\n`;
      writeFileSync(join(bin, name), script);
      chmodSync(join(bin, name), 0o755);
    }
    const env = { PATH: `${bin}:${process.env["PATH"]}`, ANTHROPIC_API_KEY: "sk-ant-own", GATEWAY_KEY: "gw_env" };
    t.equal((await connect(["claude", "--", "-p", "Say 'hi'"], env)).code, 7);
    const claude = readFileSync(told, "utf8");
    t.match(claude, /^ANTHROPIC_AUTH_TOKEN=gw_env$/m);
    t.notMatch(claude, "sk-ant-own");
    t.match(claude, /^arg -p\narg Say 'hi'$/m);
    t.equal((await connect(["gemini", "--"], env)).code, 7);
    t.match(readFileSync(told, "utf8"), /"selectedType": "gemini-api-key"/, "a settings file for one run");
    t.equal((await connect(["codex", "--model", "fast", "--", "exec", "x"], env)).code, 7);
    t.match(
      readFileSync(told, "utf8"),
      /arg model_provider=gateway\n[\s\S]*base_url="http:\/\/127\.0\.0\.1:8080\/v1"[\s\S]*arg -m\narg fast\narg exec\narg x/,
    );
    const missing = await connect(["opencode", "--"], { ...env, PATH: bin });
    t.match(missing, { code: 1, err: /opencode is not on PATH/ });
  },
);

t.test("the exit code of a client that a signal has ended is 128 and the signal's number, as in shells", async (t) => {
  const bin = t.testdir({ claude: '#!/bin/sh\nkill -s "$1" $$\n' });
  chmodSync(join(bin, "claude"), 0o755);
  const env = { PATH: `${bin}:${process.env["PATH"]}`, GATEWAY_KEY: "gw_env" };
  for (const [signal, code] of Object.entries({ KILL: 137, TERM: 143, HUP: 129 }))
    t.equal((await connect(["claude", "--", signal], env)).code, code, signal);
});

t.test("signals end the client, and leave none of its temporary files", async (t) => {
  for (const [signal, code] of Object.entries({ TERM: 9, HUP: 7 })) {
    const bin = t.testdir({
      gemini: `#!/bin/sh
echo "$GEMINI_CLI_SYSTEM_SETTINGS_PATH" > "$0.told"
sleep 30 &
trap 'kill $!; exit 9' TERM
trap 'kill $!; exit 7' HUP
kill -s ${signal} $PPID
wait
`,
    });
    chmodSync(join(bin, "gemini"), 0o755);
    const env = { PATH: `${bin}:${process.env["PATH"]}`, GATEWAY_KEY: "gw_env" };
    t.equal((await connect(["gemini", "--"], env)).code, code, signal);
    const settings = readFileSync(join(bin, "gemini.told"), "utf8").trim();
    t.match(settings, /gateway-connect-/);
    t.notOk(existsSync(dirname(settings)), signal);
  }
});

t.test("clients on this machine are found by program or settings", async (t) => {
  const folder = t.testdir({ bin: { claude: "" }, home: { ".codex": {} } });
  const here = installedClients(loadClients(), { env: { PATH: join(folder, "bin") } }, join(folder, "home"));
  t.same(
    here.map(({ id }) => id),
    ["claude", "codex"],
  );
  const { text } = await connect([], { PATH: join(folder, "bin"), HOME: join(folder, "home") });
  t.match(text, /^claude +Claude Code +agent +anthropic-messages +yes$/m);
  t.match(text, /^gemini .* -$/m);
  t.match(JSON.parse((await connect(["--json"])).text), [{ id: String, here: false }]);
});

t.test("texts are quoted as one shell word", async (t) => {
  t.equal(quoteKey("a b'c"), "'a b'\\''c'");
  t.equal(quoteKey("http://h:1/v1"), "http://h:1/v1");
  t.match(USAGE, /connect CLIENT/);
  t.match(help, /^connect /);
});
