import { readdirSync, readlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import t, { type Test } from "tap";
import { runExplain } from "../../src/cli/explain.ts";
import { help, USAGE } from "../../src/cli/help/explain.ts";
import type { Explanation } from "../../src/explain.ts";
import { loadWithExtensions } from "../../src/loaded-config.ts";
import { openStores } from "../../src/store/open.ts";
import { UsageError } from "../../src/text/format-error.ts";
import { captured } from "../support/terminal.ts";
import { json, startVendor } from "../support/vendor.ts";

function openFile(fd: string): string | undefined {
  try {
    return readlinkSync(`/proc/self/fd/${fd}`);
  } catch {
    // The one with which the folder was read.
    return undefined;
  }
}

/** A request from which a translation drops a field. */
const LOSSY = '{"model":"fast","max_tokens":10,"top_k":5,"messages":[{"role":"user","content":"hi"}]}';

async function folderOf(t: Test) {
  const vendor = await startVendor(t, json({}, 500));
  const folder = t.testdir({
    "gateway.yaml": `listen: 127.0.0.1:0
providers:
  one: { url: ${vendor.url}/v1, credential: $ONE, protocol: openai-chat }
  two: { url: ${vendor.url}/v1, credential: $TWO, protocol: openai-chat }
  demo: { url: "demo:" }
models:
  fast: { price: { input: 1, output: 10 }, output: 1k, targets: [{ to: one:small, weight: 3 }, two:small], fallback: [echo] }
  echo: { targets: [demo:echo] }
keys: { ci: { key: $CI, models: [echo], paths: [/v1/chat/*] } }
paths: { /open/v1/*: { pass: one } }
store: { ledger: 'sqlite:./gateway.db' }
`,
    "body.json": '{"model":"echo","messages":[]}',
  });
  const env = { ONE: "secret-one-1234", CI: "ci-key-0123456789abcdef" };
  const loaded = await loadWithExtensions({ file: join(folder, "gateway.yaml"), env });
  const explained = (...args: string[]) => captured((io) => runExplain(args, io, loaded), { env, folder });
  return { explained, vendor, folder };
}

t.test(
  "prints the chain, the order and the reasons, the upstream request without its secret, and its maximum cost",
  async (t) => {
    const { explained, vendor } = await folderOf(t);
    const { code, text } = await explained("--model", "fast");
    t.equal(code, 0);
    t.match(text, /^request +POST \/v1\/chat\/completions +openai-chat, chat$/m);
    t.match(text, /^chain +llm: sse → auth → scrub → models → limits → rewrite → usage$/m);
    t.match(text, /^key +any key$/m);
    t.match(text, /^ {2}1 {2}one:small .*speaks openai-chat as the client does$/m);
    t.match(text, new RegExp(`POST ${vendor.url}/v1/chat/completions .*credential ONE`));
    t.match(text, /authorization: Bearer …/);
    t.notMatch(text, "secret-one-1234");
    t.match(text, /^ {2}2 {2}demo:echo .*fallback/m);
    t.match(text, /^ {2}- {2}two:small +off: TWO is not set$/m);
    t.match(text, /^at most +[\d,]+ tokens, \$0\.0\d+$/m);
    t.equal(vendor.requests.length, 0);
  },
);

t.test("the request of each provider is shown, translated where it uses another protocol", async (t) => {
  const { explained } = await folderOf(t);
  const body = '{"model":"fast","max_tokens":5,"messages":[{"role":"user","content":"hi"}]}';
  const { text } = await explained("/v1/messages", "--sent", "--body", body);
  t.match(text, /^ +\{"model":"small",.*"content":"hi".*$/m);
  t.match(text, /^ +leaves out|translates anthropic-messages to openai-chat/m);
  t.notMatch((await explained("/v1/messages", "--body", body)).text, '"model":"small"');
  const [first] = (JSON.parse((await explained("/v1/messages", "--json", "--body", body)).text) as Explanation).targets;
  t.match(JSON.parse(first?.request?.body ?? ""), { model: "small", messages: [{ role: "user" }] });
});

t.test("a key can be named, and what it may not do is reported with exit code 1", async (t) => {
  const { explained } = await folderOf(t);
  t.match(await explained("--key", "ci", "--model", "echo"), { code: 0, text: /^key +ci$/m });
  t.match(await explained("--key", "ci", "--model", "fast"), {
    code: 1,
    text: /refused +403 key_not_allowed by models/,
  });
  t.match(await explained("/v1/messages", "--key", "ci"), { code: 1, text: /refused +403 key_not_allowed by auth/ });
  t.match(await explained("--key", "ci-key-0123456789abcdef", "--model", "echo"), { code: 0, text: /^key +ci$/m });
  await t.rejects(explained("--key", "nobody"), /there is no key "nobody"/);
});

t.test("a key whose group is disabled is refused with the group's name", async (t) => {
  const { explained, folder } = await folderOf(t);
  const stores = openStores(join(folder, "gateway.db"), [], () => {});
  await stores.keys.create({ name: "one", group: "acme/research" });
  await stores.keys.disableGroup("acme");
  await stores.close();
  t.match(await explained("--key", "one"), {
    code: 1,
    text: /refused +401 disabled_api_key by auth\.access: The group "acme"/,
  });
});

t.test("credentials of the request count where no key is named", async (t) => {
  const { explained } = await folderOf(t);
  const bearer = (token: string) => ["--header", `authorization: Bearer ${token}`, "--model", "fast"];
  t.match(await explained(...bearer("ci-key-0123456789abcdef")), {
    code: 1,
    text: /refused +403 key_not_allowed by models/,
  });
  t.match(await explained(...bearer("a.company.token")), { code: 1, text: /refused +401 invalid_api_key by auth/ });
  t.match(await explained(...bearer("a.company.token"), "--key", "ci"), { code: 1, text: /key_not_allowed by models/ });
});

t.test("the header gateway-strict counts as in a request, and an unknown value of it is refused", async (t) => {
  const { explained } = await folderOf(t);
  const strict = (value: string) => explained("/v1/messages", "--body", LOSSY, "--header", `gateway-strict: ${value}`);
  t.notMatch((await strict("0")).text, /not_translatable/);
  t.match((await strict("1")).text, /not_translatable/);
  t.match(await strict("yes"), { code: 1, text: /400 invalid_field.*gateway-strict has the value "yes"/ });
});

t.test("an unknown key leaves no store open, which would keep the command from ending", async (t) => {
  const { explained, folder } = await folderOf(t);
  const file = join(folder, "gateway.db");
  await openStores(file, [], () => {}).close();
  await t.rejects(explained("--key", "nobody"), /there is no key "nobody"/);
  const opened = readdirSync("/proc/self/fd").flatMap((fd) => openFile(fd) ?? []);
  t.notOk(opened.includes(file));
});

t.test("a body comes from the command line, from a file, or is a short default of the path's protocol", async (t) => {
  const { explained, folder } = await folderOf(t);
  t.match((await explained("--body", "@body.json")).text, /^model +echo$/m);
  for (const path of ["/v1/messages", "/v1/responses", "/v1beta/models/echo:generateContent"])
    t.match(await explained(path, "--model", "echo"), { code: 0, text: /demo:echo/ }, path);
  t.match(await explained("--body", "{"), { code: 1, text: /refused +400 invalid_json/ });
  t.match(await explained("GET:/v1/models"), { code: 0, text: /answer +comes from models/ });
  t.match(await explained("/v1/chat/completionz"), { code: 1, text: /404 path_not_found/ });
  writeFileSync(join(folder, "wrong.json"), "[]");
  t.match(await explained("--body", "@wrong.json"), { code: 1 });
  for (const [args, why] of [
    [["--body", "@none.json"], /none\.json: there is no such file$/],
    [["--body", "@."], /--body @\.: it is a folder$/],
    [["--header", "wrong"], /--header "wrong"/],
    [["nothing"], /"nothing" is not a path/],
    [["--address", "10.0.0"], /--address 10\.0\.0: write an IP address like /],
    [["--address", "10.0.0.0/8"], /--address 10\.0\.0\.0\/8: /],
    [["/open/v1/x"], /pass unread/],
    [["/v1/embeddings"], /needs a body/],
  ] as const)
    await t.rejects(explained(...args), { constructor: UsageError, message: why }, args.join(" "));
});

t.test("JSON has the complete result, including what is disabled", async (t) => {
  const { explained } = await folderOf(t);
  const { text } = await explained("--json");
  const told = JSON.parse(text) as Explanation;
  t.match(told, {
    model: { id: "fast", balance: "weighted" },
    targets: [{ target: "one:small", request: { method: "POST", credential: "ONE" } }, { target: "demo:echo" }],
    off: [{ target: "two:small", off: "TWO is not set" }],
  });
  t.match(USAGE, /gateway-explain/);
  t.match(help, /^explain /);
});
