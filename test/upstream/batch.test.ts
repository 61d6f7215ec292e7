import { setImmediate as turn } from "node:timers/promises";
import t from "tap";
import { Batch } from "../../src/upstream/batch.ts";

t.test("items of one turn are done when all are there, in order, once", async (t) => {
  const done: number[] = [];
  const batch = new Batch<number>((item) => done.push(item));
  for (let item = 0; item < 5; item++) batch.add(item);
  await Promise.resolve();
  t.same(done, [], "not before");
  await turn();
  t.same(done, [0, 1, 2, 3, 4]);
  await turn();
  batch.add(5);
  await turn();
  t.same(done, [0, 1, 2, 3, 4, 5]);
});

t.test("all take a step before any takes the next, as many as a group holds", async (t) => {
  const steps: string[] = [];
  const batch = new Batch<number>(async (item) => {
    steps.push(`${item} first`);
    await undefined;
    steps.push(`${item} second`);
    process.nextTick(() => steps.push(`${item} last`));
  });
  const items = Array.from({ length: 100 }, (_, i) => i);
  for (const item of items) batch.add(item);
  await turn();
  const all = (group: number[]) =>
    ["first", "second", "last"].flatMap((step) => group.map((item) => `${item} ${step}`));
  const groups = [0, 32, 64, 96].map((from) => items.slice(from, from + 32));
  t.same(steps, groups.flatMap(all));
});

t.test("items added meanwhile are done too", async (t) => {
  const done: number[] = [];
  const batch = new Batch<number>((item) => {
    done.push(item);
    if (item < 40) batch.add(item + 40);
  });
  for (let item = 0; item < 40; item++) batch.add(item);
  await turn();
  await turn();
  t.same(
    done,
    Array.from({ length: 80 }, (_, i) => i),
  );
});

t.test("an exception affects only its own item", async (t) => {
  const done: number[] = [];
  const batch = new Batch<number>((item) => {
    if (item % 10 === 3) throw new Error(`no ${item}`);
    done.push(item);
  });
  const thrown: string[] = [];
  const hear = (error: Error) => thrown.push(error.message);
  const others = process.rawListeners("uncaughtException") as NodeJS.UncaughtExceptionListener[];
  process.removeAllListeners("uncaughtException").on("uncaughtException", hear);
  for (let item = 0; item < 20; item++) batch.add(item);
  await turn();
  batch.add(20);
  await turn();
  process.removeListener("uncaughtException", hear);
  for (const other of others) process.on("uncaughtException", other);
  t.same(thrown, ["no 3", "no 13"]);
  t.equal(done.length, 19);
});
