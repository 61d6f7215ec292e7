import { join } from "node:path";
import t, { type Test } from "tap";
import { help, run, USAGE } from "../../src/cli/keys.ts";
import { validKey } from "../../src/store/key-format.ts";
import { openStores } from "../../src/store/open.ts";

const CI = "a-key-of-the-operators-own-choice";

/** A command line over stores in a new file. */
function terminal(t: Test) {
  const stores = openStores(join(t.testdir(), "gateway.db"), [{ name: "ci", key: CI, models: ["fast"] }], () => {});
  t.teardown(() => stores.close());
  const keys = async (...args: string[]) => {
    const out: string[] = [];
    const err: string[] = [];
    const io = { out: (line: string) => out.push(line), err: (line: string) => err.push(line), env: {}, folder: "." };
    const code = await run(args, io, stores, ["fast", "smart"]);
    return { code, out: out.join("\n"), err: err.join("\n") };
  };
  return { keys, stores };
}

t.test("keys create prints the key, this once", async (t) => {
  const { keys, stores } = terminal(t);
  const before = Date.now();
  const made = await keys("create", "reports", "--models", "fast, smart", "--expires", "90d");
  t.equal(made.code, 0);
  t.ok(validKey(made.out), "alone on standard output");
  t.match(made.err, "only its hash is stored", "with a hint beside it");
  const record = stores.keys.find(made.out);
  t.match(record, { name: "reports", models: ["fast", "smart"] });
  const days = ((record?.expires ?? 0) - before) / 86_400_000;
  t.ok(days >= 90 && days < 90.1, "and it expires when it was said to");

  const listed = await keys("list");
  t.notMatch(listed.out + listed.err, made.out.slice(14, 57));
  const json = JSON.parse((await keys("create", "as json", "--json")).out);
  t.ok(validKey(json.key));
  t.match(json, { name: "as json", models: null, source: "store", expires: null, revoked: null });
  t.notOk("hash" in json);
});

t.test("keys list shows all keys, but never a key or its hash", async (t) => {
  const { keys, stores } = terminal(t);
  const { key, record } = await stores.keys.create({ name: "reports", expires: Date.UTC(2099, 0, 1) });
  await stores.keys.create({ name: "gone" });
  await keys("revoke", "gone");
  const { code, out } = await keys("list");
  t.equal(code, 0);
  const [titles, file, made, gone] = out.split("\n");
  t.match(titles, /^ID +NAME +MODELS +SOURCE +CREATED +EXPIRES +REVOKED$/);
  t.match(file, /^ci +ci +fast +gateway\.yaml +- +never +-$/);
  t.match(made, new RegExp(`^${record.id} +reports +all +store +20\\d\\d-.* +2099-01-01 00:00:00Z +-$`));
  t.match(gone, /gone .* never +20\d\d-/);
  const json = (await keys("list", "--json")).out;
  t.match(JSON.parse(json), [
    { id: "ci", source: "file", models: ["fast"], created: null },
    { id: record.id, expires: "2099-01-01T00:00:00.000Z", revoked: null },
    { name: "gone", revoked: /^20/ },
  ]);
  for (const secret of [CI, key, record.hash]) t.notOk((out + json).includes(secret));
});

t.test("keys revoke ends a key, by id or name", async (t) => {
  const { keys, stores } = terminal(t);
  const one = await stores.keys.create({ name: "one" });
  const two = await stores.keys.create({ name: "two" });
  t.same(await keys("revoke", "one"), { code: 0, out: "Revoked one.", err: "" });
  t.equal((await keys("revoke", two.record.id, "--json")).out, JSON.stringify({ revoked: two.record.id }));
  t.ok(stores.keys.find(one.key)?.revoked);
  t.ok(stores.keys.find(two.key)?.revoked);
  t.match(await keys("revoke", "nobody"), { code: 1, out: "", err: /no key nobody .*keys list/ });
  t.match(await keys("revoke", "ci"), { code: 1, err: "The key ci stands in gateway.yaml: remove it there." });
});

t.test("a key is limited to models that there are", async (t) => {
  const { keys, stores } = terminal(t);
  t.match(await keys("create", "x", "--models", "smart,fats"), {
    code: 1,
    out: "",
    err: '--models: unknown model "fats", did you mean "fast"?',
  });
  t.match(await keys("create", "x", "--models", "gpt"), { code: 1, err: /"gpt"; known: fast, smart$/ });
  t.equal((await stores.keys.list()).length, 1, "and nothing is made");
});

t.test("a key that cannot be made is told why", async (t) => {
  const { keys } = terminal(t);
  await keys("create", "one");
  t.match(await keys("create", "one"), { code: 1, out: "", err: /named one already/ });
  t.match(await keys("create", " "), { code: 1, err: /no name for a key.*1 to 100/ });
});

t.test("a command line that is not understood exits with 2 and tells what is accepted", async (t) => {
  const { keys, stores } = terminal(t);
  const cases: [string[], RegExp][] = [
    [[], /create, list or revoke/],
    [["delete", "x"], /no word "delete"/],
    [["create"], /takes one name/],
    [["create", "two", "words"], /takes one name/],
    [["revoke"], /one id or name/],
    [["list", "x"], /takes no names/],
    [["list", "--models", "a"], /belong to keys create/],
    [["create", "x", "--model", "a"], /Unknown option '--model'/],
    [["create", "x", "--models"], /argument missing/],
    [["create", "x", "--models", "a,,b"], /commas between/],
    [["create", "x", "--expires", "soon"], /--expires: "soon" is no moment/],
    [["create", "x", "--expires", "2020-01-01"], /2020-01-01 00:00:00Z has passed/],
  ];
  for (const [args, why] of cases) {
    const { code, out, err } = await keys(...args);
    t.same([code, out], [2, ""], args.join(" "));
    t.match(err, why);
    t.match(err, "usage: npm start -- keys create NAME [--models a,b]");
  }
  t.equal((await stores.keys.list()).length, 1, "and makes nothing");
});

t.test("the overall help has its lines, and its own help begins with how it is called", async (t) => {
  t.match(help, /^keys create NAME/);
  t.match(USAGE, /^usage: npm start -- keys create/);
});
