import { hostname, userInfo } from "node:os";
import { join } from "node:path";
import t, { type Test } from "tap";
import { help, USAGE } from "../../src/cli/help/keys.ts";
import { type KeyConfig, parseKeyCommand, runKeys } from "../../src/cli/keys.ts";
import type { Limits } from "../../src/core/limit-kinds.ts";
import { isValidKey } from "../../src/store/key-format.ts";
import { openStores } from "../../src/store/open.ts";
import { folderFor } from "../support/folder.ts";
import { plainEntry } from "../support/plain-entry.ts";
import { captured } from "../support/terminal.ts";

const CI = "a-key-of-the-operators-own-choice";

const WORLD: KeyConfig = {
  models: ["fast", "smart"],
  limits: { default: { rpm: 300 }, keys: new Map([["ci", { tpm: 5 }]]) },
  timezone: "UTC",
  unenforceableReason: async () => undefined,
};

/** A command line over stores in a new file. */
function terminal(t: Test, world = WORLD) {
  const stores = openStores(join(folderFor(t), "gateway.db"), [{ name: "ci", key: CI, models: ["fast"] }], () => {});
  t.teardown(() => stores.close());
  const keys = (...args: string[]) => captured((io) => runKeys(args, io, stores, () => world), {}, USAGE, args);
  return { keys, stores };
}

t.test("keys show prints what is spent of the key's budgets and of its groups'", async (t) => {
  const budget = (nano: number) => ({ budgets: [{ nano, per: "day", soft: false }] }) as const;
  const groups = new Map<string, Limits>([
    ["acme", budget(100e9)],
    ["acme/x", { rpm: 5 }],
  ]);
  const { keys, stores } = terminal(t, { ...WORLD, limits: { groups } });
  await keys("create", "one", "--group", "acme/x", "--budget", "$10/day", "--budget", "$2/month soft");
  const { id = "" } = (await stores.keys.show("one")) ?? {};
  stores.ledger.append(plainEntry(Date.now(), { key: id, group: "acme/x", cost: 1.5e9 }));
  stores.ledger.append(plainEntry(Date.now(), { key: "other", group: "acme/y", cost: 2e9 }));
  const { out } = await keys("show", "one");
  t.match(out, /^budget +\$10\/day, \$2\/month soft\nspent +\$1\.5000 of \$10\/day, \$1\.5000 of \$2\/month soft$/m);
  t.match(out, /^spent by acme +\$3\.5000 of \$100\/day$/m);
  t.notMatch(out, "spent by acme/x");
  t.same(JSON.parse((await keys("show", "one", "--json")).out).budgets, [
    { kind: "key", name: id, limit: 10e9, per: "day", soft: false, spent: 1.5e9 },
    { kind: "key", name: id, limit: 2e9, per: "month", soft: true, spent: 1.5e9 },
    { kind: "group", name: "acme", limit: 100e9, per: "day", soft: false, spent: 3.5e9 },
  ]);
});

t.test("keys create and keys list tell limits and budgets in JSON, as keys show does", async (t) => {
  const groups = new Map<string, Limits>([["acme", { budgets: [{ nano: 100e9, per: "day", soft: false }] }]]);
  const { keys, stores } = terminal(t, { ...WORLD, limits: { ...WORLD.limits, groups } });
  const made = JSON.parse((await keys("create", "one", "--group", "acme", "--budget", "$10/day", "--json")).out);
  const budgets = (spent: number) => [
    { kind: "key", name: made.id, limit: 10e9, per: "day", soft: false, spent },
    { kind: "group", name: "acme", limit: 100e9, per: "day", soft: false, spent },
  ];
  const limits = { rpm: 300, budget: ["$10/day"] };
  t.match(made, { name: "one", limits, budgets: budgets(0) });
  t.ok(isValidKey(made.key));
  stores.ledger.append(plainEntry(Date.now(), { key: made.id, group: "acme", cost: 1.5e9 }));
  await keys("create", "two", "--group", "acme");
  const listed = JSON.parse((await keys("list", "--json")).out) as {
    name: string;
    limits: object;
    budgets: object[];
  }[];
  const byName = Object.fromEntries(listed.map(({ name, limits, budgets }) => [name, { limits, budgets }]));
  t.same(byName, {
    ci: { limits: { rpm: 300, tpm: 5 }, budgets: [] },
    one: { limits, budgets: budgets(1.5e9) },
    two: { limits: { rpm: 300 }, budgets: [budgets(1.5e9)[1]] },
  });
  const shown = JSON.parse((await keys("show", "one", "--json")).out);
  t.same({ limits: shown.limits, budgets: shown.budgets }, byName["one"]);
});

t.test("keys list leaves limits out where gateway.yaml is invalid", async (t) => {
  const { stores } = terminal(t);
  const invalid = () => {
    throw new Error("gateway.yaml has a mistake");
  };
  const { code, out } = await captured((io) => runKeys(["list", "--json"], io, stores, invalid));
  t.equal(code, 0);
  t.notOk("limits" in JSON.parse(out)[0]);
});

t.test("keys create prints the key once", async (t) => {
  const { keys, stores } = terminal(t);
  const before = Date.now();
  const made = await keys("create", "reports", "--models", "fast, smart", "--expires", "90d");
  t.equal(made.code, 0);
  t.ok(isValidKey(made.out), "alone on standard output");
  t.match(made.err, "only its hash is stored", "with a hint beside it");
  const record = stores.keys.find(made.out);
  t.match(record, { name: "reports", models: ["fast", "smart"] });
  const days = ((record?.expires ?? 0) - before) / 86_400_000;
  t.ok(days >= 90 && days < 90.1, "and it expires at the given time");

  const listed = await keys("list");
  t.notMatch(listed.out + listed.err, made.out.slice(14, 57));
  const json = JSON.parse((await keys("create", "as json", "--json")).out);
  t.ok(isValidKey(json.key));
  t.match(json, { name: "as json", models: null, source: "store", expires: null, revoked: null });
  t.notOk("hash" in json);
});

t.test("every change is in the audit trail once, with its author, and never with a key", async (t) => {
  const { keys, stores } = terminal(t);
  const { out: first } = await keys("create", "reports", "--group", "acme");
  await keys("set", "reports", "--name", "figures", "--rpm", "5");
  const { out: second } = await keys("rotate", "figures", "--overlap", "1h");
  const { id = "" } = (await stores.keys.show("figures")) ?? {};
  for (const word of ["disable", "enable", "revoke"]) t.equal((await keys(word, id)).code, 0);
  for (const word of ["list", "show figures", "disable figures", "revoke nobody", "set ci --rpm 1"])
    await keys(...word.split(" "));
  const entries = (await stores.audit.list(100)).toReversed();
  t.match(
    entries.map(({ action, subject, detail }) => [action, subject, detail]),
    [
      ["keys.create", "reports", { group: "acme" }],
      ["keys.edit", "reports", { name: "figures", limits: { rpm: 5 }, was: { name: "reports", limits: null } }],
      ["keys.rotate", "figures", { overlap: "1h" }],
      ["keys.disable", "figures", {}],
      ["keys.enable", "figures", {}],
      ["keys.revoke", "figures", {}],
    ],
  );
  t.equal(entries.length, 6, "commands that only show, or fail, change nothing");
  for (const { who, address } of entries) t.same([who, address], [`cli:${userInfo().username}`, hostname()]);
  for (const key of [first, second]) t.notMatch(JSON.stringify(entries), key.slice(14));
});

t.test("a key is shown even if the audit trail cannot be written, with a notice", async (t) => {
  const { keys, stores } = terminal(t);
  stores.audit.add = () => Promise.reject(new Error("the disk is full"));
  const made = await keys("create", "reports");
  t.equal(made.code, 1);
  t.ok(isValidKey(made.out));
  t.match(made.err, /missing in the audit trail: the disk is full/);
});

t.test("a key that cannot be printed is not left behind, and none is replaced by it", async (t) => {
  const { keys, stores } = terminal(t);
  const unprinted = (...args: string[]) => {
    const outNow = () => {
      throw Object.assign(new Error("EPIPE: broken pipe, write"), { code: "EPIPE" });
    };
    return captured((io) => runKeys(args, { ...io, outNow }, stores, () => WORLD));
  };
  for (const json of [[], ["--json"]])
    t.hasStrict(await unprinted("create", "ci-2", ...json), {
      code: 1,
      out: "",
      err: "The new key cannot be printed, so it was revoked at once: EPIPE: broken pipe, write.",
    });
  t.match((await stores.keys.list()).slice(1), [{ revoked: Number }, { revoked: Number }]);
  const { out: key } = await keys("create", "one");
  t.hasStrict(await unprinted("rotate", "one", "--overlap", "0s"), {
    code: 1,
    out: "",
    err: "The new key cannot be printed, so the old one stays: EPIPE: broken pipe, write.",
  });
  t.match(await stores.keys.find(key), { name: "one", expires: undefined });
  const actions = (await stores.audit.list(10)).map(({ action, subject }) => `${action} ${subject}`);
  t.same(actions.toReversed(), [
    ...["keys.create ci-2", "keys.revoke ci-2", "keys.create ci-2", "keys.revoke ci-2", "keys.create one"],
  ]);
});

t.test("keys create makes no key of an empty option", async (t) => {
  const { keys, stores } = terminal(t);
  const { code, err } = await keys("create", "one", "--models", "");
  t.equal(code, 2);
  t.match(err, /--models is empty: give it a value, or leave it out/);
  t.equal(await stores.keys.show("one"), undefined);
});

t.test("keys list shows all keys, but never a key or its hash", async (t) => {
  const { keys, stores } = terminal(t);
  const { key, record } = await stores.keys.create({ name: "reports", expires: Date.UTC(2099, 0, 1) });
  await stores.keys.create({ name: "gone" });
  await keys("revoke", "gone");
  const { code, out } = await keys("list");
  t.equal(code, 0);
  const [titles, file, made, gone] = out.split("\n");
  t.match(titles, /^ID +NAME +GROUP +OWNER +MODELS +SOURCE +CREATED +EXPIRES +STATE$/);
  t.match(file, /^ci +ci +- +- +fast +gateway\.yaml +- +never +on$/);
  t.match(made, new RegExp(`^${record.id} +reports +- +- +all +store +20\\d\\d-.* +2099-01-01 00:00:00Z +on$`));
  t.match(gone, /gone .* never +revoked 20\d\d-/);
  const json = (await keys("list", "--json")).out;
  t.match(JSON.parse(json), [
    { id: "ci", source: "file", models: ["fast"], created: null },
    { id: record.id, expires: "2099-01-01T00:00:00.000Z", revoked: null },
    { name: "gone", revoked: /^20/ },
  ]);
  for (const secret of [CI, key, record.hash]) t.notOk((out + json).includes(secret));
});

t.test("keys revoke revokes a key by id or name", async (t) => {
  const { keys, stores } = terminal(t);
  const one = await stores.keys.create({ name: "one" });
  const two = await stores.keys.create({ name: "two" });
  t.hasStrict(await keys("revoke", "one"), { code: 0, out: "Revoked one.", err: "" });
  t.equal((await keys("revoke", two.record.id, "--json")).out, JSON.stringify({ revoked: two.record.id }));
  t.ok(stores.keys.find(one.key)?.revoked);
  t.ok(stores.keys.find(two.key)?.revoked);
  t.match((await keys("show", "one")).out, /^name +one\nstate +revoked 20\d\d-/m, "it is still found by its name");
  t.match(await keys("set", "one", "--rpm", "5"), {
    code: 1,
    err: new RegExp(
      `one is revoked, so it cannot be changed; only its name, owner, group and tags can, by its id ${one.record.id}`,
    ),
  });
  t.match(await keys("set", two.record.id, "--name", "left", "--owner", ""), { code: 0, out: /^state +revoked/m });
  const again = await stores.keys.create({ name: "one" });
  t.match(
    (await keys("show", "one")).out,
    new RegExp(`^id +${again.record.id}\n.*\nstate +on$`, "m"),
    "until it has another one",
  );
  t.match(await keys("show", "nobody"), { code: 1, err: /no key nobody/ });
  t.match(await keys("revoke", "nobody"), { code: 1, out: "", err: /no key nobody .*keys list/ });
  t.match(await keys("revoke", "ci"), { code: 1, err: "The key ci is defined in gateway.yaml: remove it there." });
});

t.test("keys create accepts every property of a key, show prints it, and set changes it", async (t) => {
  const { keys, stores } = terminal(t);
  const fields = ["--group", "acme/research", "--models", "fa*", "--paths", "/v1/*", "--addresses", "10.0.0.0/8,::1"];
  const made = await keys("create", "one", ...fields, "--owner", "Ada", "--tag", "team=search", "--tag", "env=test");
  t.equal(made.code, 0, made.err);
  const scope = { models: ["fa*"], paths: ["/v1/*"], addresses: ["10.0.0.0/8", "::1"] };
  const tags = { team: "search", env: "test" };
  t.match(stores.keys.find(made.out), { ...scope, group: "acme/research", owner: "Ada", tags });
  const { code, out } = await keys("show", "one");
  t.equal(code, 0);
  t.same(
    out
      .split("\n")
      .map((line) => line.split(/ {2,}/))
      .filter(([field]) => !/^(?:id|created)$/.test(field ?? "")),
    [
      ...[
        ["name", "one"],
        ["state", "on"],
        ["source", "store"],
        ["group", "acme/research"],
        ["owner", "Ada"],
      ],
      ...[
        ["tags", "team=search, env=test"],
        ["models", "fa*"],
        ["paths", "/v1/*"],
      ],
      ...[
        ["addresses", "10.0.0.0/8, ::1"],
        ["rpm", "300"],
        ["tpm", "off"],
        ["concurrency", "off"],
        ["budget", "off"],
        ["expires", "never"],
      ],
    ],
  );
  t.equal((await keys("set", "one", "--models", "", "--tag", "env=", "--tag", "cost=7", "--name", "two")).code, 0);
  const changed = JSON.parse((await keys("show", "two", "--json")).out);
  t.match(changed, {
    name: "two",
    models: null,
    tags: { team: "search", cost: "7" },
    paths: ["/v1/*"],
    group: "acme/research",
  });
  t.notOk("env" in changed.tags);
  t.match(await keys("set", "two", "--expires", "never", "--json"), { code: 0, out: /"expires": null/ });
  t.match(await keys("show", "nobody"), { code: 1, out: "", err: /no key nobody/ });
  t.match(await keys("set", "nobody", "--owner", "x"), { code: 1, err: /no key nobody that can be changed/ });
  t.match(await keys("set", "ci", "--owner", "x"), {
    code: 1,
    err: "The key ci is defined in gateway.yaml: change it there.",
  });
  t.match(await keys("show", "ci"), { code: 0, out: /gateway\.yaml/ });
});

t.test("limits of a key are shown, changed and removed", async (t) => {
  const { keys, stores } = terminal(t);
  const limits = [
    "--rpm",
    "20",
    "--tpm",
    "100k",
    "--concurrency",
    "2",
    "--budget",
    "$10/month",
    "--budget",
    "$0.5/day soft",
  ];
  const { out } = await keys("create", "one", ...limits);
  const budgets = [
    { nano: 10e9, per: "month", soft: false },
    { nano: 5e8, per: "day", soft: true },
  ];
  t.same(stores.keys.find(out)?.limits, { rpm: 20, tpm: 100_000, concurrency: 2, budgets });
  const shown = (await keys("show", "one")).out;
  for (const line of [
    /^rpm +20$/m,
    /^tpm +100,000$/m,
    /^concurrency +2$/m,
    /^budget +\$10\/month, \$0\.50\/day soft$/m,
  ])
    t.match(shown, line);
  const told = async (...args: string[]) => JSON.parse((await keys("set", "one", ...args, "--json")).out).limits;
  t.same(await told("--rpm", "off", "--budget", "$100"), { tpm: 100_000, concurrency: 2, budget: ["$100"] });
  t.same(
    await told("--rpm", "", "--tpm", "", "--concurrency", "", "--budget", ""),
    { rpm: 300 },
    "the defaults of all keys",
  );
  t.equal((await stores.keys.show("one"))?.limits, undefined);
  t.match(JSON.parse((await keys("show", "ci", "--json")).out).limits, { rpm: 300, tpm: 5 });
  t.match(await keys("set", "one", "--budget", "much"), {
    code: 2,
    err: /^--budget: "much" is not a sum of money; write it like \$50\/month/,
  });
});

t.test("limits that could not be enforced are refused", async (t) => {
  const asked: unknown[] = [];
  const unenforceableReason = async (...given: unknown[]) => {
    asked.push(given);
    return "a budget needs prices";
  };
  const { keys, stores } = terminal(t, { ...WORLD, unenforceableReason });
  const message = "The key's limits could not be enforced: a budget needs prices.";
  t.match(await keys("create", "one", "--rpm", "1", "--models", "fast"), { code: 1, out: "", err: message });
  t.equal(await stores.keys.show("one"), undefined);
  t.match(await keys("create", "one"), { code: 0 });
  t.match(await keys("set", "one", "--tpm", "5"), { code: 1, err: message });
  t.same(asked, [
    [{ rpm: 1 }, ["fast"]],
    [{ tpm: 5 }, undefined],
  ]);
});

t.test("keys set does not undo what another operator changes meanwhile", async (t) => {
  const { keys, stores } = terminal(t, {
    ...WORLD,
    async unenforceableReason() {
      await stores.keys.edit("one", { limits: { rpm: 7 } });
      return undefined;
    },
  });
  await stores.keys.create({ name: "one", limits: { rpm: 1, tpm: 2 }, tags: { a: "1" } });
  const message = /^The key one was changed by somebody else meanwhile\./m;
  t.match(await keys("set", "one", "--tpm", "5"), { code: 1, out: "", err: message });
  t.match(await stores.keys.show("one"), { limits: { rpm: 7, tpm: undefined } });
  await stores.keys.edit("one", { limits: { rpm: 1 } });
  t.match(await keys("set", "one", "--tag", "b=2"), { code: 1, err: message });
  await stores.keys.edit("one", { limits: { rpm: 1 } });
  t.match(await keys("set", "one", "--owner", "x"), { code: 0 }, "a field of its own undoes nothing");
});

t.test("keys rotate prints another key; the old one works for a while, or not at all", async (t) => {
  const { keys, stores } = terminal(t);
  const first = (await keys("create", "one")).out;
  const second = await keys("rotate", "one");
  t.match(second, { code: 0, err: /The old one works until 20/ });
  t.ok(isValidKey(second.out));
  t.ok((stores.keys.find(first)?.expires ?? 0) > Date.now() + 86_000_000, "for a day by default");
  t.match((await keys("show", "one")).out, /old key +works until 20/);
  await keys("create", "leaked");
  await keys("rotate", "leaked");
  await keys("revoke", "leaked");
  t.notMatch((await keys("show", "leaked")).out, /works/, "neither works once the key is revoked");
  const third = await keys("rotate", "one", "--overlap", "0s", "--json");
  t.match(JSON.parse(third.out), { name: "one", old_key_until: null });
  t.equal(stores.keys.find(second.out), undefined);
  t.match(await keys("rotate", "ci"), { code: 1, err: /change it there/ });
  await keys("revoke", "one");
  t.match(await keys("rotate", stores.keys.find(JSON.parse(third.out).key)?.id ?? ""), {
    code: 1,
    err: /is revoked, so it/,
  });
});

t.test("keys disable disables a key, and enable enables it again", async (t) => {
  const { keys, stores } = terminal(t);
  const key = (await keys("create", "one")).out;
  t.hasStrict(await keys("disable", "one"), { code: 0, out: "Disabled one.", err: "" });
  t.ok(stores.keys.find(key)?.disabled);
  t.match((await keys("list")).out, /one .*disabled 20/);
  t.match(JSON.parse((await keys("enable", "one", "--json")).out), { name: "one", disabled: null });
  t.equal(stores.keys.find(key)?.disabled, undefined);
  t.match(await keys("disable", "nobody"), { code: 1, err: /no key nobody that can be disabled/ });
});

t.test("keys list and show name the group by which a key is disabled", async (t) => {
  const { keys, stores } = terminal(t);
  await keys("create", "one", "--group", "acme/x");
  await stores.keys.disableGroup("acme");
  t.match((await keys("list")).out, /^\S+ +one .* disabled by group acme$/m);
  t.match((await keys("show", "one")).out, /^state +disabled by group acme$/m);
});

t.test("a key can only be limited to existing models", async (t) => {
  const { keys, stores } = terminal(t);
  t.match(await keys("create", "x", "--models", "smart,fats"), {
    code: 2,
    out: "",
    err: /^--models: unknown model "fats", did you mean "fast"\?\n/,
  });
  t.match(await keys("create", "x", "--models", "other-*"), {
    code: 2,
    err: /^--models: no model matches other-\*\.\n/,
  });
  t.match(await keys("create", "x", "--models", "gpt"), { code: 2, err: /"gpt"; known: fast, smart\n/ });
  t.equal((await stores.keys.list()).length, 1, "and nothing is created");
});

t.test("the reason why a key cannot be created is printed", async (t) => {
  const { keys } = terminal(t);
  await keys("create", "one");
  t.match(await keys("create", "one"), { code: 1, out: "", err: /named one already/ });
  t.match(await keys("create", " "), { code: 1, err: /no name for a key.*1 to 100/ });
});

t.test("an invalid command line exits with 2 and prints what is accepted", async (t) => {
  const { keys, stores } = terminal(t);
  const cases: [string[], RegExp][] = [
    [[], /keys needs a command: create, list, show, set, rotate, disable, enable, revoke/],
    [["delete", "x"], /no command "delete"; it has create, list, show, set, rotate, disable, enable, revoke\./],
    [["lsit"], /no command "lsit", did you mean "list"\?/],
    [["create"], /takes one name/],
    [["create", "two", "words"], /takes one name/],
    [["revoke"], /one id or name/],
    [["list", "x"], /takes no names/],
    [["list", "--models", "a"], /--models is not an option of keys list/],
    [["create", "x", "--model", "a"], /Unknown option '--model'/],
    [["create", "x", "--models"], /--models needs a value\.\n/],
    [["create", "x", "--rpm", "-5"], /--rpm needs a value \(one that begins with - is written --rpm=-…\)/],
    [["create", "x", "--budget", ""], /--budget is empty: give it a value/],
    [["create", "x", "--budget", "$5/day", "--budget", ""], /--budget is empty/],
    [["create", "x", "--models", "a,,b"], /separated by commas/],
    [["create", "x", "--overlap", "1h"], /--overlap is not an option of keys create/],
    [["create", "x", "--name", "y"], /--name is not an option of keys create/],
    [["create", "x", "--tag", "team"], /NAME=VALUE/],
    [["create", "x", "--group", "/acme"], /--group takes a path/],
    [["create", "x", "--addresses", "10.0.0.0/99"], /no address or range/],
    [["create", "x", "--paths", "v1"], /v1 is not a path/],
    [["create", "x", "--paths", "FETCH /v1/*"], /FETCH \/v1\/\* is not a path/],
    [["rotate", "x", "--overlap", "soon"], /--overlap takes a span/],
    [["set", "x"], /needs an option/],
    [["show"], /one id or name/],
    [["create", "x", "--expires", "soon"], /--expires: "soon" is not a time/],
    [["create", "x", "--expires", "2020-01-01"], /2020-01-01 00:00:00Z has passed/],
  ];
  for (const [args, why] of cases) {
    const { code, out, err } = await keys(...args);
    t.same([code, out], [2, ""], args.join(" "));
    t.match(err, why);
    const form =
      args[0] === "set" ? "set KEY" : args[0] === "rotate" ? "rotate KEY" : args[0] === "show" ? "show KEY" : "";
    t.match(err, form === "" ? /\nusage: npm start -- keys / : `\nusage: npm start -- keys ${form}`);
    t.match(err, /\nsee: npm start -- keys --help$/);
    t.ok(err.split("\n").length < 12, err);
  }
  t.equal((await stores.keys.list()).length, 1, "and creates nothing");
});

t.test("its own help begins with its usage, and the overall help has its lines", async (t) => {
  t.match(help, /^keys create NAME/);
  t.match(USAGE, /^usage: npm start -- keys create/);
});

t.test("a wrong overlap is an error of the arguments, for which no store is opened", (t) => {
  t.throws(() => parseKeyCommand(["rotate", "x", "--overlap", "soon"]), /--overlap takes a span like 24h/);
  t.equal(parseKeyCommand(["rotate", "x", "--overlap", "1h"]).options.overlap, "1h");
  t.end();
});
