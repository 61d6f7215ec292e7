import { rmSync } from "node:fs";
import { join } from "node:path";
import t from "tap";
import { runGroups as groups } from "../../src/cli/groups.ts";
import { runKeys as keys } from "../../src/cli/keys.ts";
import { runUsage as usage } from "../../src/cli/usage.ts";
import type { Terminal } from "../../src/cli/verb.ts";
import { keptLedger } from "../support/kept-ledger.ts";
import { captured } from "../support/terminal.ts";
import { leaveWaitingRows } from "../support/waiting-rows.ts";

t.test("queries for sums report the rows of a gateway that wait for the store", async (t) => {
  const { folder, stores } = keptLedger(t);
  const config = () => ({ models: [], limits: {}, timezone: "UTC", unenforceableReason: async () => undefined });
  const verb = async (run: (io: Terminal) => Promise<number>) => {
    const { code, ...printed } = await captured(run);
    t.equal(code, 0);
    return printed;
  };
  const zone = () => "UTC";
  const verbs = {
    usage: () => verb((io) => usage([], io, stores, zone)),
    "usage --json": () => verb((io) => usage(["--json"], io, stores, zone)),
    "usage --last": () => verb((io) => usage(["--last", "1", "--json"], io, stores, zone)),
    groups: () => verb((io) => groups(["--json"], io, stores, zone, () => undefined)),
    "keys show": () => verb((io) => keys(["show", "k", "--json"], io, stores, config)),
  };
  await stores.keys.create({ name: "k", limits: { budgets: [{ nano: 1e9, per: "day", soft: false }] } });
  const file = leaveWaitingRows(join(folder, "gateway.db"));
  for (const [name, ask] of Object.entries(verbs)) t.match((await ask()).err, /^These figures lag: [^\n]*$/, name);
  for (const name of ["usage --json", "usage --last", "groups"] as const)
    t.ok(Array.isArray(JSON.parse((await verbs[name]()).out)), `${name} stays an array`);
  t.equal(JSON.parse((await verbs["keys show"]()).out).behind, true);
  const rows = () => verb((io) => usage(["--rows", "--json"], io, stores, zone));
  t.match(await rows(), { out: "", err: /^Requests wait [^\n]* Those in the journal are included; [^\n]*$/ });
  rmSync(file);
  t.equal((await rows()).err, "");
  for (const [name, ask] of Object.entries(verbs)) t.equal((await ask()).err, "", name);
  t.notHas(JSON.parse((await verbs["keys show"]()).out), { behind: true });
});
