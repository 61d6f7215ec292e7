import { join } from "node:path";
import t from "tap";
import { COMMAND, Misuse } from "../../src/cli/verb.ts";
import { VERBS } from "../../src/cli/verbs.ts";

const folder = t.testdir({
  "gateway.yaml":
    'providers: { demo: { url: "demo:" } }\nmodels: { echo: { targets: [demo:echo] } }\nstore: { ledger: "sqlite::memory:" }\n',
});
const place = { file: join(folder, "gateway.yaml"), folder };

/** Its exit code, and what is told: what main.ts tells of a misuse stands there as well. */
async function act(name: string, args: string[]) {
  const lines: string[] = [];
  const line = (text: string) => void lines.push(text);
  const verb = await (VERBS[name] as (typeof VERBS)[string])();
  const code = await verb.act(args, { out: line, err: line, env: {}, folder }, place).catch((thrown) => {
    if (!(thrown instanceof Misuse)) throw thrown;
    lines.push(thrown.message, verb.USAGE);
    return 2;
  });
  return { code, text: lines.join("\n") };
}

t.test("every verb has a help of its own, and what it does not understand is exit code 2 with that help", async (t) => {
  t.ok(Object.keys(VERBS).length > 10);
  for (const [name, load] of Object.entries(VERBS)) {
    const { help, USAGE } = await load();
    t.match(help, new RegExp(`^${name}\\b`), name);
    t.ok(USAGE.startsWith(`usage: ${COMMAND} ${name}`), name);
    t.match(await act(name, ["--no-such-option"]), { code: 2, text: new RegExp(`usage: .*${name}`, "s") }, name);
  }
});

t.test("a verb is given what its gateway.yaml says", async (t) => {
  t.match(await act("check", []), { code: 0, text: /ok, 1 provider/ });
  t.match(await act("routes", []), { code: 0, text: /\/v1\/messages/ });
  t.match(await act("keys", ["create", "ci"]), { code: 0, text: /^gw_/ });
  t.match(await act("explain", ["--model", "echo"]), { code: 0, text: /demo:echo/ });
});
