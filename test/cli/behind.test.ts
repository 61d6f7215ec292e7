import { rmSync } from "node:fs";
import { join } from "node:path";
import t from "tap";
import { runGroups as groups } from "../../src/cli/groups.ts";
import { runKeys as keys } from "../../src/cli/keys.ts";
import { runUsage as usage } from "../../src/cli/usage.ts";
import { keptLedger } from "../support/kept-ledger.ts";
import { leaveWaitingRows } from "../support/waiting-rows.ts";

t.test("queries for sums report the rows of a gateway that wait for the store", async (t) => {
  const { folder, stores } = keptLedger(t);
  const config = () => ({ models: [], limits: {}, timezone: "UTC", unenforceableReason: async () => undefined });
  const verb = async (run: (io: Parameters<typeof usage>[1]) => Promise<number>) => {
    const [out, err]: [string[], string[]] = [[], []];
    const io = { out: (line: string) => out.push(line), err: (line: string) => err.push(line), env: {}, folder };
    t.equal(await run(io), 0);
    return { out: out.join("\n"), err: err.join("\n") };
  };
  const verbs = {
    usage: () => verb((io) => usage([], io, stores)),
    "usage --json": () => verb((io) => usage(["--json"], io, stores)),
    "usage --last": () => verb((io) => usage(["--last", "1", "--json"], io, stores)),
    groups: () => verb((io) => groups(["--json"], io, stores)),
    "keys show": () => verb((io) => keys(["show", "k", "--json"], io, stores, config)),
  };
  await stores.keys.create({ name: "k", limits: { budgets: [{ nano: 1e9, per: "day", soft: false }] } });
  const file = leaveWaitingRows(join(folder, "gateway.db"));
  for (const [name, ask] of Object.entries(verbs)) t.match((await ask()).err, /^These figures lag: [^\n]*$/, name);
  for (const name of ["usage --json", "usage --last", "groups"] as const)
    t.ok(Array.isArray(JSON.parse((await verbs[name]()).out)), `${name} stays an array`);
  t.equal(JSON.parse((await verbs["keys show"]()).out).behind, true);
  const rows = () => verb((io) => usage(["--rows", "--json"], io, stores));
  t.match(await rows(), { out: "", err: /^Requests wait [^\n]* Those in the journal are included; [^\n]*$/ });
  rmSync(file);
  t.equal((await rows()).err, "");
  for (const [name, ask] of Object.entries(verbs)) t.equal((await ask()).err, "", name);
  t.notHas(JSON.parse((await verbs["keys show"]()).out), { behind: true });
});
