import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import t, { type Test } from "tap";
import { help, USAGE } from "../../src/cli/help/init.ts";
import { runInit } from "../../src/cli/init.ts";
import { UsageError } from "../../src/text/format-error.ts";
import { captured } from "../support/terminal.ts";
import { json, startVendor } from "../support/vendor.ts";

const MODELS = { data: [{ id: "gpt-5.6" }, { id: "gpt-5.4-mini" }, { id: "whisper-9" }] };

async function folderOf(t: Test) {
  const vendor = await startVendor(t, json(MODELS));
  const folder = t.testdir({});
  const env = { OPENAI_API_KEY: "sk-0123456789abcdef", OPENAI_BASE_URL: `${vendor.url}/v1`, PATH: "", HOME: folder };
  const init = (args: string[], ask?: (question: string) => Promise<string>, own: Record<string, string> = env) =>
    captured((io) => runInit(args, io, ask ? { ask } : {}), { env: own, folder });
  const text = () => readFileSync(join(folder, "gateway.yaml"), "utf8");
  return { vendor, folder, init, text };
}

t.test(
  "asks the vendor whose key is set for its models, writes a short file, prints a key and a curl command",
  async (t) => {
    const { init, text, vendor } = await folderOf(t);
    const { code, out } = await init([]);
    t.equal(code, 0, out);
    t.match(out, /^OpenAI \(OPENAI_API_KEY\): 3 models$/m);
    t.match(out, /^\* +\d +gpt-5\.6 +/m);
    t.match(vendor.requests, [{ url: "/v1/models", headers: { authorization: "Bearer sk-0123456789abcdef" } }]);
    t.match(text(), /^ {2}gpt-5\.6: \{ facts: .*targets: \[openai:gpt-5\.6\] \}/m);
    t.notMatch(text(), /whisper|sk-0123/);
    t.ok(text().split("\n").length < 20);
    const key = /^key, shown once: (gw_\S+)/m.exec(out)?.[1] ?? "";
    t.match(out, `  curl -N http://127.0.0.1:8080/v1/chat/completions -H "authorization: Bearer ${key}" \\`);
    t.match(out, /-d '\{"model":"gpt-5\.6","stream":true,/);
  },
);

t.test("each model gets the facts of its generation, also one that was not suggested", async (t) => {
  const ids = ["claude-opus-4-6", "claude-sonnet-4-5-20250929", "claude-opus-5", "claude-3-7-sonnet-20250219"];
  const claude = await startVendor(t, json({ data: ids.map((id) => ({ id })) }));
  const names = ["models/gemini-2.5-flash", "models/gemini-3.1-pro-preview"];
  const gemini = await startVendor(t, json({ models: names.map((name) => ({ name })) }));
  const { init, text, folder } = await folderOf(t);
  await init(["--models", "*"], undefined, {
    ...{ PATH: "", HOME: folder },
    ...{ ANTHROPIC_API_KEY: "sk-0123456789abcdef", ANTHROPIC_BASE_URL: claude.url },
    ...{ GEMINI_API_KEY: "sk-0123456789abcdef", GOOGLE_GEMINI_BASE_URL: gemini.url },
  });
  const factsOf = (id: string) => new RegExp(`^  ${id}: .*?facts: (\\{.*?\\})`, "m").exec(text())?.[1];
  t.equal(factsOf("claude-opus-5"), "{ sampling: false, thinking: adaptive, prefill: false }");
  t.equal(factsOf("claude-opus-4-6"), "{ thinking: adaptive, prefill: false }");
  t.equal(factsOf("claude-sonnet-4-5-20250929"), "{ thinking: budget, system_in_place: false }");
  t.equal(factsOf("claude-3-7-sonnet-20250219"), undefined);
  t.equal(factsOf("gemini-3.1-pro-preview"), "{ thinking: level }");
  t.equal(factsOf("gemini-2.5-flash"), undefined, "its thinking has a budget, as the gateway knows by its name");
});

t.test("clients found on this machine get their settings, with the key filled in", async (t) => {
  const { init, folder } = await folderOf(t);
  const programs = join(folder, "programs");
  mkdirSync(programs);
  writeFileSync(join(programs, "claude"), "");
  const { out } = await init([], undefined, { PATH: programs, HOME: folder });
  const key = /^key, shown once: (gw_\S+)/m.exec(out)?.[1] ?? "none";
  t.match(out, /clients on this machine/);
  t.match(
    out,
    new RegExp(`^export ANTHROPIC_BASE_URL=http://127\\.0\\.0\\.1:8080\nexport ANTHROPIC_AUTH_TOKEN=${key}$`, "m"),
  );
});

t.test("clients get no model while none can be used", async (t) => {
  const { init, folder } = await folderOf(t);
  const programs = join(folder, "programs");
  mkdirSync(programs);
  writeFileSync(join(programs, "claude"), "");
  writeFileSync(join(folder, "theirs.yaml"), "model_list: [{ model_name: a, litellm_params: { model: openai/x } }]\n");
  const { out } = await init(["--from", "litellm", "theirs.yaml"], undefined, { PATH: programs, HOME: folder });
  t.match(out, /^no model can be used yet: see .* check;/m);
  t.notMatch(out, /ANTHROPIC_MODEL|"?MODEL"?$/m);
});

t.test("the user chooses by number and name, and is asked again after a mistake", async (t) => {
  const { init, text } = await folderOf(t);
  const answers = ["whispr-9", "whisper-9, gpt-5.4*"];
  const asked: string[] = [];
  const ask = async (question: string) => {
    asked.push(question);
    return answers.shift() ?? "";
  };
  t.equal((await init([], ask)).code, 0);
  t.equal(asked.length, 2);
  t.match(asked[1], /^no vendor found here lists a model "whispr-9", did you mean "whisper-9"\?\nWhich models/);
  t.match(text(), /whisper-9: /);
  t.match(text(), /gpt-5\.4-mini: /);
  t.notMatch(text(), /gpt-5\.6/);
});

t.test("an existing file is not overwritten, unless requested", async (t) => {
  const { init, text } = await folderOf(t);
  await init(["--models", "whisper*"]);
  t.match(await init([]), { code: 1, err: /gateway\.yaml exists: --force/ });
  t.match(text(), /whisper-9/);
  t.equal((await init(["--force", "--yes"])).code, 0);
  t.notMatch(text(), /whisper-9/);
});

t.test("a file that cannot be written is reported in a sentence, and wrong options before anything else", async (t) => {
  const { init } = await folderOf(t);
  t.match(await init(["--out", "gone/gateway.yaml", "--yes"]), {
    code: 1,
    err: /gone\/gateway\.yaml cannot be written: there is no such folder\.$/,
  });
  await init(["--yes"]);
  for (const [args, message] of [
    [["--from", "litelm", "x"], /did you mean litellm\?/],
    [["--from", "litellm", "gone.yaml", "--force"], /^gone\.yaml: there is no such file$/],
    [["--from", "litellm", ".", "--force"], /^\.: it is a folder$/],
    [["--out", ""], /^--out is empty: /],
    [["--models", "", "--out", "-"], /^--models is empty: /],
  ] as const)
    await t.rejects(init([...args]), { constructor: UsageError, message });
});

t.test("nor is one that somebody writes while init asks", async (t) => {
  const { init, text, folder } = await folderOf(t);
  const ask = async () => {
    writeFileSync(join(folder, "gateway.yaml"), "# mine\n");
    return "whisper-9";
  };
  t.match(await init([], ask), { code: 1, err: /gateway\.yaml exists: --force/ });
  t.equal(text(), "# mine\n");
});

t.test("without any vendor's key only the built-in provider responds", async (t) => {
  const { init, text } = await folderOf(t);
  const { code, out } = await init([], undefined, { PATH: "", HOME: "/nowhere" });
  t.equal(code, 0);
  t.match(out, /The environment has no vendor's key \(OPENAI_API_KEY, /);
  t.match(text(), /demo: \{ url: "demo:" \}/);
});

t.test("--out - prints the file and creates nothing; --json prints what was found", async (t) => {
  const { init, folder } = await folderOf(t);
  const printed = await init(["--out", "-"]);
  t.match(printed.out, /^# Made by init/);
  t.notOk(existsSync(join(folder, "gateway.yaml")));
  const { out } = await init(["--json"]);
  t.match(JSON.parse(out), {
    found: [{ vendor: "openai", variable: "OPENAI_API_KEY", taken: ["gpt-5.6", "gpt-5.4-mini"] }],
    lost: { length: 0 },
    problems: { length: 0 },
    key: /^gw_/,
  });
});

t.test("--json prints JSON with --out - too, which has the file's text", async (t) => {
  const { init, folder } = await folderOf(t);
  const { code, out } = await init(["--json", "--out", "-"]);
  t.equal(code, 0);
  t.match(JSON.parse(out), { file: null, text: /^# Made by init/, found: [{ vendor: "openai" }], lost: { length: 0 } });
  t.notOk(existsSync(join(folder, "gateway.yaml")));
});

t.test("another gateway's file is converted, and settings without a counterpart are listed", async (t) => {
  const { init, text, folder } = await folderOf(t);
  const file = new URL("../support/foreign/litellm.yaml", import.meta.url).pathname;
  const { code, out } = await init(["--from", "litellm", file]);
  t.equal(code, 0);
  t.match(out, /no counterpart {2}litellm_settings\.cache: /);
  writeFileSync(
    join(folder, "limits.yaml"),
    `model_list:${["a", "b"].map((name) => `\n  - { model_name: ${name}, litellm_params: { model: openai/${name}, rpm: 1 } }`).join("")}`,
  );
  const many = await init(["--from", "litellm", "limits.yaml", "--out", "-"]);
  t.match(
    many.err,
    /no counterpart: model_list\.\{0,1\}\.litellm_params\.rpm: /,
    "a setting of many entries is reported once",
  );
  writeFileSync(
    join(folder, "usual.yaml"),
    `model_list:${["a", "b", "c", "ds"].map((name) => `\n  - { model_name: ${name}, litellm_params: { model: openai/${name} } }`).join("")}
router_settings: { fallbacks: [{ "*": [ds, gone] }, { a: [b] }] }
litellm_settings: { fallbacks: [{ c: [a] }] }
`,
  );
  const usual = await init(["--from", "litellm", "usual.yaml", "--out", "-"]);
  const fallbackOf = (name: string) => new RegExp(`^ +"?${name}"?:.*?fallback: (\\[.*?\\])`, "m").exec(usual.out)?.[1];
  t.same(["a", "b", "c", "ds"].map(fallbackOf), ["[b]", "[ds]", "[a]", undefined], usual.out);
  t.match(`${usual.out}${usual.err}`, /router_settings\.fallbacks \(\* → gone\): there is no such model/);
  t.match(text(), /^# Made by init --from litellm litellm\.yaml/);
  for (const [args, why] of [
    [["--from", "litelm", file], /did you mean litellm/],
    [["--from", "litelm", "none.yaml"], /did you mean litellm/],
    [["--from", "litellm"], /needs a file/],
    [["--from", "litellm", "none.yaml"], /none\.yaml/],
    [["some.yaml"], /one word too many/],
    [["--models", "nothing", "--force"], /no vendor/],
  ] as const)
    await t.rejects(init([...args, "--out", "other.yaml"]), { message: why });
});

t.test("its help lists its options", async (t) => {
  t.match(USAGE, /--from KIND FILE/);
  t.match(help, /^init /);
});

t.test("a file that is written with mistakes is there, ends with 1, and the help says so", async (t) => {
  const { init, text, folder } = await folderOf(t);
  writeFileSync(
    join(folder, "odd.yaml"),
    "model_list: [{ model_name: a, litellm_params: { model: openai/a, api_base: 'http://user:secret@host/v1' } }]\n",
  );
  const { code, err } = await init(["--from", "litellm", "odd.yaml"]);
  t.match({ code, err, text: text() }, { code: 1, err: /gateway\.yaml:\d+/, text: /^# Made by init/ });
  t.match(USAGE, /1 not written, or written with mistakes/);
  writeFileSync(
    join(folder, "budget.yaml"),
    `model_list: [{ model_name: a, litellm_params: { model: hosted_vllm/own, api_base: 'http://127.0.0.1:8000/v1' } }]
litellm_settings: { max_budget: 5, budget_duration: 30d }
`,
  );
  const unpriced = await init(["--from", "litellm", "budget.yaml", "--force"]);
  t.match(unpriced, { code: 1, err: /gateway\.yaml:\d+.* a budget needs prices/ }, "what plugins refuse, too");
  t.notMatch(unpriced.out, /start it/);
});
