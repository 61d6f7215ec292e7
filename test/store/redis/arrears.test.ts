import t from "tap";
import { Arrears } from "../../../src/store/redis/arrears.ts";

const owed = (id: string, granted: string | undefined) => ({
  ...{ id, time: 1, at: 2, json: "{}", used: { tokens: 3, cost: 4 }, unused: "", once: "" },
  granted,
});

t.test("what is owed is told in steps, each under a name, and kept until it has arrived", async (t) => {
  const arrears = new Arrears();
  for (let i = 0; i < 60; i++) arrears.settle(owed(String(i), "now"));
  for (let i = 0; i < 5; i++) arrears.pay("day:0:all", 10, 1000 * i);
  const told: string[][] = [];
  const failing = arrears.tell("now", async (script, args) => {
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
  await Promise.all(arrears.tell("now", async (script, args) => again.push([script, ...args])));
  t.same(again, told, "under the same names: whoever has heard it knows");
  t.ok(arrears.empty);
});

t.test("what the server has granted in this life counts only if it has it still", async (t) => {
  const arrears = new Arrears();
  for (const granted of ["now", "before", undefined]) arrears.settle(owed("a", granted));
  const words: string[] = [];
  await Promise.all(arrears.tell("now", async (_, args) => words.push(...args.slice(1))));
  t.same(
    [8, 17, 26].map((at) => words[at]),
    ["", "1", "1"],
  );
});

t.test("what was spent is summed up by the second", async (t) => {
  const arrears = new Arrears();
  for (const at of [1000, 1500, 2000]) arrears.pay("s", 7, at);
  const words: string[] = [];
  await Promise.all(arrears.tell("now", async (_, args) => words.push(...args.slice(1))));
  t.same(words, ["s", "14", "1500", "s", "7", "2000"]);
});
