import t from "tap";
import { UnreportedSpending } from "../../../src/store/redis/unreported-spending.ts";

const owed = (id: string, granted: string | undefined) => ({
  ...{ id, time: 1, json: "{}", used: { tokens: 3, cost: 4 }, unused: "", once: "" },
  granted,
});

t.test("unreported spending is sent in steps, each with a name, and kept until it has arrived", async (t) => {
  const arrears = new UnreportedSpending();
  for (let i = 0; i < 60; i++) arrears.addSettlement(owed(String(i), "now"));
  for (let i = 0; i < 5; i++) {
    arrears.addPayment("day:0:all", 10);
    arrears.beginLedgerWrite();
  }
  const told: string[][] = [];
  const failing = arrears.report("now", 5000, async (script, args) => {
    told.push([script, ...args]);
    throw new Error("away");
  });
  t.ok((await Promise.allSettled(failing)).every(({ status }) => status === "rejected"));
  t.same(
    told.map(([script, , ...rest]) => [script, rest.length]),
    [
      ["repay", 450],
      ["repay", 90],
      ["pay", 15],
    ],
  );
  t.notOk(arrears.empty);
  const again: string[][] = [];
  await Promise.all(arrears.report("now", 5000, async (script, args) => again.push([script, ...args])));
  t.same(again, told, "under the same names: a server that has them ignores repeats");
  t.ok(arrears.empty);
});

t.test("what the server granted since its start counts only if it still has it", async (t) => {
  const arrears = new UnreportedSpending();
  for (const granted of ["now", "before", undefined]) arrears.addSettlement(owed("a", granted));
  const words: string[] = [];
  await Promise.all(arrears.report("now", 5000, async (_, args) => words.push(...args.slice(1))));
  t.same(
    [8, 17, 26].map((at) => words[at]),
    ["", "1", "1"],
  );
});

t.test(
  "spending is added up by the time of its ledger row, and what may not be there is reported with the current time",
  async (t) => {
    const arrears = new UnreportedSpending();
    arrears.addPayment("s", 7);
    arrears.addSettlement(owed("a", undefined));
    arrears.beginLedgerWrite();
    arrears.addPayment("s", 8);
    const done = arrears.beginLedgerWrite();
    arrears.addPayment("s", 9);
    arrears.addPayment("s", 10);
    done(2000);
    const [words, settled]: string[][] = [[], []];
    const failing = arrears.report("now", 3000, async () => {
      throw new Error("away");
    });
    await Promise.allSettled(failing);
    const told = (now: number) =>
      arrears.report("now", now, async (script, args) => (script === "pay" ? words : settled)?.push(...args.slice(1)));
    await Promise.all(told(4000));
    t.same(
      words,
      ["s", "7", "2000", "s", "8", "2000", "s", "19", "4000"],
      "a failed write is repeated with the next one",
    );
    t.equal(settled?.[6], "2000");
    t.ok(arrears.empty);
  },
);

t.test("payments that the server may have counted are sent under their name, apart from others", async (t) => {
  const arrears = new UnreportedSpending();
  arrears.addPayment("s", 7);
  arrears.addNamedPayments("known", [{ sum: "s", cost: 8 }]);
  t.notOk(arrears.empty);
  const told: (readonly string[])[] = [];
  await Promise.all(arrears.report("now", 5000, async (_, args) => told.push(args)));
  t.same(told.find(([name]) => name === "known")?.slice(1), ["s", "8", "5000"]);
  t.same(told.find(([name]) => name !== "known")?.slice(1), ["s", "7", "5000"]);
  t.ok(arrears.empty);
});
