import { join } from "node:path";
import t, { type Test } from "tap";
import { runGroups } from "../../src/cli/groups.ts";
import { help, USAGE } from "../../src/cli/help/groups.ts";
import type { Limits } from "../../src/core/limit-kinds.ts";
import type { LimitTable } from "../../src/core/limits.ts";
import { openStores } from "../../src/store/open.ts";
import { folderFor } from "../support/folder.ts";
import { plainEntry } from "../support/plain-entry.ts";
import { captured } from "../support/terminal.ts";

/** A command line over stores in a new file. */
function terminal(t: Test, limits: LimitTable["groups"] = undefined) {
  const stores = openStores(join(folderFor(t), "gateway.db"), [], () => {});
  t.teardown(() => stores.close());
  const zone = () => "UTC";
  const groups = (...args: string[]) =>
    captured((io) => runGroups(args, io, stores, zone, () => limits), {}, USAGE, args);
  const spend = (group: string | undefined, cost: number, time = Date.now()) =>
    stores.ledger.append(plainEntry(time, { cost, ...(group === undefined ? {} : { group }) }));
  return { groups, spend, stores };
}

t.test("groups sum up their keys and spending, including groups below them", async (t) => {
  const { groups, spend, stores } = terminal(t);
  t.match(await groups(), { code: 0, out: /No groups yet.*keys set/ });
  await stores.keys.create({ name: "a", group: "acme/research" });
  await stores.keys.create({ name: "b", group: "acme" });
  await stores.keys.create({ name: "gone", group: "acme" });
  await stores.keys.revoke("gone");
  await stores.keys.create({ name: "none" });
  spend("acme/research", 1_000_000_000);
  spend("acme/ads/x", 500_000_000);
  spend("other", 250_000_000, Date.UTC(2026, 0, 1));
  spend("acme-2", 0);
  spend(undefined, 9);
  const { out } = await groups();
  t.same(
    out.split("\n").map((line) => line.split(/ {2,}/)),
    [
      ["GROUP", "KEYS", "REQUESTS", "COST"],
      ["acme", "2", "2", "$1.5000"],
      ["acme/ads", "0", "1", "$0.5000"],
      ["acme/ads/x", "0", "1", "$0.5000"],
      ["acme/research", "1", "1", "$1.0000"],
      ["acme-2", "0", "1", "$0.0000"],
      ["other", "0", "1", "$0.2500"],
    ],
  );
  t.same(JSON.parse((await groups("--since", "24h", "--json")).out)[0], {
    group: "acme",
    keys: ["a", "b"],
    requests: 2,
    cost: 1_500_000_000,
  });
  t.notMatch((await groups("--since", "24h")).out, /other/);
});

t.test("groups with a budget show what is spent of it, also without members", async (t) => {
  const budgets = [{ nano: 10e9, per: "month", soft: false }] as const;
  const limits = new Map<string, Limits>([
    ["acme", { budgets }],
    ["empty", { budgets }],
    ["slow", { rpm: 1 }],
  ]);
  const { groups, spend } = terminal(t, limits);
  spend("acme/research", 1_000_000_000);
  t.match(
    (await groups()).out,
    /^GROUP .* SPENT\nacme .* \$1\.0000 of \$10\/month\nacme\/research .* -\nempty .* \$0\.0000 of \$10\/month$/,
  );
  t.match(JSON.parse((await groups("--json")).out)[0], {
    group: "acme",
    budgets: [{ kind: "group", name: "acme", limit: 10e9, per: "month", soft: false, spent: 1e9 }],
  });
});

t.test("an invalid command line exits with 2 and prints what is accepted", async (t) => {
  const { groups } = terminal(t);
  for (const args of [["acme"], ["--by", "key"], ["--since", "soon"]])
    t.match(await groups(...args), { code: 2, out: "", err: /usage: npm start -- groups/ });
  t.match(help, /^groups/);
  t.match(USAGE, /^usage: npm start -- groups/);
});

t.test("a group is disabled and enabled again, which its state and the audit trail show", async (t) => {
  const { groups, stores } = terminal(t, new Map<string, Limits>([["limited", { rpm: 1 }]]));
  await stores.keys.create({ name: "a", group: "acme/research" });
  t.hasStrict(await groups("disable", "acme"), { code: 0, out: "Disabled acme.", err: "" });
  t.hasStrict(await groups("disable", "limited"), { code: 0, out: "Disabled limited." });
  t.match(
    (await groups()).out,
    /^GROUP .* STATE\nacme .* disabled \d.*Z\nacme\/research .* disabled by acme\nlimited .* disabled /,
  );
  const [acme, research] = JSON.parse((await groups("--json")).out);
  t.match(
    [acme, research],
    [
      { group: "acme", disabled: /^\d{4}-/ },
      { group: "acme/research", disabled: undefined },
    ],
  );
  await groups("disable", "acme/research");
  t.match(await groups("enable", "acme/research"), {
    code: 0,
    out: "Enabled acme/research; acme is still disabled, and its keys with it.",
  });
  t.hasStrict(await groups("enable", "acme", "--json"), { code: 0, out: '{"group":"acme","disabled_by":null}' });
  await groups("enable", "limited");
  t.notMatch((await groups()).out, "STATE");
  const entries = await stores.audit.list(10);
  t.match(entries.at(-1), { who: /^cli:/, action: "groups.disable", subject: "acme" });
  t.same(entries.map(({ action, subject }) => `${action} ${subject}`).slice(0, 2), [
    "groups.enable limited",
    "groups.enable acme",
  ]);
});

t.test("a misspelt group, command or option disables nothing", async (t) => {
  const { groups, stores } = terminal(t);
  await stores.keys.create({ name: "a", group: "acme" });
  t.hasStrict(await groups("disable", "acne"), { code: 1, out: "", err: "There is no group acne; did you mean acme?" });
  t.match(await groups("disable", "other"), { code: 1, out: "", err: /There is no group other; see: .* groups$/ });
  for (const args of [["disable"], ["disabel", "acme"], ["disable", "acme", "--since", "24h"], ["disable", "a", "b"]])
    t.match(await groups(...args), { code: 2, out: "" }, args.join(" "));
  t.equal((await stores.keys.listDisabledGroups()).size, 0);
});
