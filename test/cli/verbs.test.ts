import { readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import t from "tap";
import { COMMAND } from "../../src/cli/verb.ts";
import { VERBS } from "../../src/cli/verbs.ts";
import { displayUrl } from "../../src/store/postgres/place.ts";
import { UsageError } from "../../src/text/format-error.ts";
import { placeOf, startPostgres } from "../support/postgres.ts";

const folder = t.testdir({
  "gateway.yaml":
    'providers: { demo: { url: "demo:" } }\nmodels: { echo: { targets: [demo:echo] } }\nstore: { ledger: "sqlite::memory:" }\n',
});
const place = { file: join(folder, "gateway.yaml"), folder };

/** Its exit code, and what is told: what main.ts tells of a misuse stands there as well. */
async function act(name: string, args: string[], { file, folder } = place) {
  const lines: string[] = [];
  const line = (text: string) => void lines.push(text);
  const verb = await (VERBS[name] as (typeof VERBS)[string])();
  const code = await verb
    .run(args, { out: line, outNow: line, err: line, env: {}, folder }, { file, folder })
    .catch((thrown) => {
      if (!(thrown instanceof UsageError)) throw thrown;
      lines.push(thrown.message, verb.USAGE);
      return 2;
    });
  return { code, text: lines.join("\n") };
}

t.test("every verb has its own help, and an unknown argument exits with 2 and prints it", async (t) => {
  t.ok(Object.keys(VERBS).length > 10);
  for (const [name, load] of Object.entries(VERBS)) {
    const { help, USAGE } = await load();
    t.match(help, new RegExp(`^${name}\\b`), name);
    t.ok(USAGE.startsWith(`usage: ${COMMAND} ${name}`), name);
    for (const line of USAGE.split("\n")) t.ok(line.length <= 150, `${name}: ${line}`);
    t.match(await act(name, ["--no-such-option"]), { code: 2, text: new RegExp(`usage: .*${name}`, "s") }, name);
  }
});

t.test("a wrong argument is the error, not the database that is away", async (t) => {
  const folder = t.testdir({
    "gateway.yaml":
      'providers: { demo: { url: "demo:" } }\nmodels: { echo: { targets: [demo:echo] } }\ninstances: 1\nstore: { ledger: "postgres://me@127.0.0.1:1/no" }\n',
  });
  const wrong: [verb: string, args: string[], text: RegExp][] = [
    ["keys", ["lst"], /did you mean "list"/],
    ["keys", ["rotate", "ci", "--overlap", "soon"], /--overlap takes a span/],
    ["groups", ["disabel"], /did you mean "disable"/],
    ["groups", ["--since", "tomorow"], /--since: /],
    ["usage", ["--by", "colour"], /choose from/],
    ["usage", ["--last", "none"], /--last takes a number/],
    ["tail", ["--status", "none"], /--status none: /],
    ["reconcile", [], /takes one file/],
    ["audit", ["--level", "none"], /--level none: /],
    ["store", ["prune"], /needs --before/],
  ];
  for (const [verb, args, text] of wrong)
    t.match(await act(verb, args, { file: join(folder, "gateway.yaml"), folder }), { code: 2, text }, verb);
});

t.test("a verb receives what its gateway.yaml says", async (t) => {
  t.match(await act("check", []), { code: 0, text: /ok, 1 provider/ });
  t.match(await act("routes", []), { code: 0, text: /\/v1\/messages/ });
  t.match(await act("keys", ["create", "ci"]), { code: 0, text: /^gw_/ });
  t.match(await act("explain", ["--model", "echo"]), { code: 0, text: /demo:echo/ });
});

t.test("a gateway.yaml with a mistake elsewhere does not prevent access to keys and the ledger", async (t) => {
  const folder = t.testdir({ "gateway.yaml": "store: { ledger: sqlite:ours.db }\n" });
  const own = { file: join(folder, "gateway.yaml"), folder };
  const write = (yaml: string) => writeFileSync(own.file, yaml);
  const right = 'providers: { demo: { url: "demo:" } }\nstore: { ledger: "sqlite:ours.db" }\n';
  write(`${right}models: { echo: { targets: [demo:echo] } }\n`);
  t.match(await act("keys", ["create", "ci"], own), { code: 0 });
  write(`${right}models: { echo: { targets: [demu:echo] } }\n`);
  t.match(await act("keys", ["list"], own), { code: 0, text: /has a mistake, see: .* check\..*\nID .*\n.* ci /s });
  t.match(await act("keys", ["revoke", "ci"], own), { code: 0, text: /Revoked ci/ });
  t.match(await act("usage", [], own), { code: 0, text: /a mistake/ });
  t.match(await act("store", ["verify"], own), { code: 0, text: /a mistake/ });
  t.match(
    await act("keys", ["create", "other"], own),
    { code: 1, text: /demu/ },
    "the permissions of a key need the complete file",
  );
  await t.rejects(act("routes", [], own), { name: "ConfigError" });
  write("store: { ledger: mysql://x }\n");
  await t.rejects(act("keys", ["list"], own), { name: "ConfigError" });
});

const MAKES = ": a gateway makes it when it starts, or keys create.";

t.test("read-only verbs create no store", async (t) => {
  const folder = t.testdir({});
  const own = { file: join(folder, "gateway.yaml"), folder };
  const ours = join(folder, "data/ours.db");
  const yaml = 'providers: { demo: { url: "demo:" } }\nmodels: { echo: { targets: [demo:echo] } }\n';
  writeFileSync(own.file, `${yaml}store: { ledger: "sqlite:data/ours.db" }\n`);
  for (const args of [["keys", "list"], ["usage"], ["groups"], ["explain", "--key", "ci"], ["keys", "revoke", "ci"]])
    t.match(await act(args[0] as string, args.slice(1), own), { text: /ours\.db is not there yet/ }, args.join(" "));
  for (const args of [["verify"], ["prune", "--before", "2w"], ["backup", "copy.db"]])
    t.same(await act("store", args, own), { code: 1, text: `${ours} is not there yet${MAKES}` }, args.join(" "));
  t.same(readdirSync(folder), ["gateway.yaml"]);
  t.match(await act("keys", ["create", "ci"], own), { code: 0, text: /^gw_/ });
  t.match(await act("keys", ["list"], own), { code: 0, text: /^ID/ });
});

const server = await startPostgres(t);

if (server)
  t.test("read-only verbs create no schema", async (t) => {
    const url = await server.database();
    const folder = t.testdir({
      "gateway.yaml": `providers: { demo: { url: "demo:" } }\nmodels: { echo: { targets: [demo:echo] } }\nstore: { ledger: "${url}" }\n`,
      "invoice.csv": "date,model,cost\n2026-11-01,echo,1\n",
    });
    const own = { file: join(folder, "gateway.yaml"), folder };
    const none = `${displayUrl(placeOf(url))} has no store yet${MAKES}`;
    const reads = [
      ["keys", "list"],
      ["usage"],
      ["groups"],
      ["tail", "--once"],
      ["explain", "--key", "ci"],
      ["reconcile", "invoice.csv"],
    ];
    for (const args of [
      ...reads,
      ["keys", "revoke", "ci"],
      ["store", "verify"],
      ["store", "backup", "copy.db"],
      ["store", "audit"],
    ]) {
      const { code, text } = await act(args[0] as string, args.slice(1), own);
      t.ok(text.startsWith(none), `${args.join(" ")}: ${text}`);
      if (args[0] === "store") t.equal(code, 1);
    }
    t.same(await server.ask(url, "select 1 from pg_namespace where nspname = 'model_gateway'"), []);
    t.same(readdirSync(folder).sort(), ["gateway.yaml", "invoice.csv"]);
    t.match(await act("store", ["migrate"], own), { code: 0, text: /The store was at version 0/ });
    t.match(await act("usage", [], own), { code: 0 });
    t.notMatch((await act("usage", [], own)).text, /no store yet/);
  });
