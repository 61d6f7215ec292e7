import t from "tap";
import { UnreportedSpending } from "../../../src/store/redis/unreported-spending.ts";

const owed = (id: string, granted: string | undefined) => ({
  ...{ id, time: 1, used: { tokens: 3, cost: 4 }, unused: "", once: "" },
  json: '{"levels":[["all",0,0,0,0,[["day:0:all","9"],["day:0:all",""]]],["key:a",0,0,0,0,[]]]}',
  position: 70,
  granted,
});

/** Whether it has nothing to send; what it has stays. */
const isEmpty = (arrears: UnreportedSpending): boolean => arrears.report(() => new Promise(() => {})).length === 0;

t.test("unreported spending is sent in steps, each with a name, and kept until it has arrived", async (t) => {
  const arrears = new UnreportedSpending("own");
  for (let i = 0; i < 60; i++) arrears.addSettlement(owed(String(i), "now"));
  for (let i = 0; i < 5; i++) {
    arrears.addPayment({ sum: "day:0:all", cost: 10, position: i });
  }
  const told: string[][] = [];
  const failing = arrears.report(async (script, args) => {
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
  t.notOk(isEmpty(arrears));
  const again: string[][] = [];
  await Promise.all(arrears.report(async (script, args) => again.push([script, ...args])));
  t.same(again, told, "under the same names: a server that has them ignores repeats");
  t.ok(isEmpty(arrears));
});

t.test("what the server granted since its start counts only if it still has it", async (t) => {
  const arrears = new UnreportedSpending("own");
  arrears.changeServer("now");
  for (const granted of ["now", "before", undefined]) arrears.addSettlement(owed("a", granted));
  const words: string[] = [];
  await Promise.all(arrears.report(async (_, args) => words.push(...args.slice(1))));
  t.same(
    [8, 17, 26].map((at) => words[at]),
    ["", "1", "1"],
  );
});

t.test("spending is added up by the row that tells of it, and what the ledger's store has by sum", async (t) => {
  const arrears = new UnreportedSpending("own");
  const add = (position: number, cost: number, sum = "s") => arrears.addPayment({ sum, cost, position });
  for (const position of [1, 2]) add(position, 7);
  arrears.mergeStored(2);
  add(3, 8);
  add(3, 8);
  add(4, 9);
  arrears.mergeStored(3);
  const words: string[] = [];
  const failing = arrears.report(async () => {
    throw new Error("away");
  });
  await Promise.allSettled(failing);
  add(5, 0);
  add(5, 1, "t");
  t.notOk(isEmpty(arrears));
  await Promise.all(arrears.report(async (_, args) => words.push(...args.slice(1))));
  t.same(words, ["s", "14", "own 2", "s", "16", "own 3", "s", "9", "own 4", "t", "1", "own 5"]);
  t.ok(isEmpty(arrears));
});

t.test("what was reported is repeated to another server, unless the ledger's store has it", async (t) => {
  const arrears = new UnreportedSpending("own");
  arrears.addPayment({ sum: "s", cost: 7, position: 60 });
  arrears.addSettlement(owed("a", undefined));
  await Promise.all(arrears.report(async () => {}));
  for (const position of [80, 90]) arrears.addSent({ sum: "t", cost: 1, position }, "");
  t.ok(arrears.hasSent);
  arrears.forgetSent(60);
  arrears.forgetSent(80);
  t.ok(arrears.hasSent);
  arrears.addSent({ sum: "u", cost: 2, position: 70 }, "");
  arrears.changeServer("next");
  t.notOk(arrears.hasSent);
  const words: string[] = [];
  await Promise.all(arrears.report(async (_, args) => words.push(...args.slice(1))));
  t.same(words, ["t", "1", "own 90", "u", "2", "own 70"]);
});

t.test("what a settlement has added to each sum is repeated", async (t) => {
  const arrears = new UnreportedSpending("own");
  arrears.addSettlement(owed("a", undefined));
  await Promise.all(arrears.report(async () => {}));
  arrears.changeServer("next");
  const words: string[] = [];
  await Promise.all(arrears.report(async (_, args) => words.push(...args.slice(1))));
  t.same(words, ["day:0:all", "4", "own 70"]);
});

t.test("a reply of a former server, or a second one, changes nothing", async (t) => {
  const arrears = new UnreportedSpending("own");
  arrears.addPayment({ sum: "s", cost: 7, position: 60 });
  arrears.addSettlement(owed("a", undefined));
  const late = Promise.withResolvers<void>();
  const first = arrears.report(() => late.promise);
  arrears.changeServer("next");
  late.resolve();
  await Promise.all(first);
  t.notOk(isEmpty(arrears));
  t.notOk(arrears.hasSent);
  arrears.addSent({ sum: "t", cost: 2, position: 70 }, "");
  await Promise.all([...arrears.report(async () => {}), ...arrears.report(async () => {})]);
  t.ok(isEmpty(arrears));
  arrears.changeServer("last");
  const words: string[] = [];
  await Promise.all(arrears.report(async (_, args) => words.push(...args.slice(1))));
  t.same(words.sort(), ["2", "4", "7", "day:0:all", "own 60", "own 70", "own 70", "s", "t"]);
});

t.test("payments that the server may have counted are sent under their name, apart from others", async (t) => {
  const arrears = new UnreportedSpending("own");
  arrears.addPayment({ sum: "s", cost: 7, position: 5 });
  arrears.addNamedPayments("known", [{ sum: "s", cost: 8, position: 6 }]);
  t.notOk(isEmpty(arrears));
  const told: (readonly string[])[] = [];
  await Promise.all(arrears.report(async (_, args) => told.push(args)));
  t.same(told.find(([name]) => name === "known")?.slice(1), ["s", "8", "own 6"]);
  t.same(told.find(([name]) => name !== "known")?.slice(1), ["s", "7", "own 5"]);
  t.ok(isEmpty(arrears));
});

t.test(
  "however much was reported that the ledger's store lacks, all of it is repeated to another server",
  async (t) => {
    const arrears = new UnreportedSpending("own");
    const count = 50_001;
    for (let position = 1; position <= count; position++)
      arrears.addSent({ sum: `s${position % 3}`, cost: 1, position }, "");
    arrears.forgetSent(100);
    arrears.changeServer("next");
    let [sum, items] = [0, 0];
    const paid = arrears.report(async (_, args) => {
      for (let at = 2; at < args.length; at += 3, items++) sum += Number(args[at]);
    });
    await Promise.all(paid);
    t.equal(sum, count, "what is merged stays until all of it is there");
    t.ok(items < 20_100, `${items} items`);
    arrears.forgetSent(count);
    t.notOk(arrears.hasSent);
  },
);
