import t from "tap";
import type { Caller } from "../../src/core/caller.ts";
import { RequestFileMarks } from "../../src/objects/request-file-marks.ts";
import { MemoryOwners } from "../../src/store/memory-owners.ts";

const HOUR = 3_600_000;
const DAY = 24 * HOUR;
/** The beginning of a day. */
const START = 20_000 * DAY;
const by = (id: string, time: number) => ({ caller: { id, name: id } as Caller, time });

const marking = () => {
  const owners = new MemoryOwners();
  return { owners, marks: new RequestFileMarks(owners, ({ key }, caller) => key === caller?.id) };
};

t.test("a file is marked for its key at its provider", async (t) => {
  const { marks } = marking();
  marks.add("abc", "up", START + 2 * DAY, by("mine", START));
  t.ok(await marks.has("abc", "up", by("mine", START)));
  t.notOk(await marks.has("abc", "up", by("theirs", START)));
  t.notOk(await marks.has("abc", "elsewhere", by("mine", START)));
  t.notOk(await marks.has("abcd", "up", by("mine", START)));
  t.notOk(await marks.has("abc", "up", { caller: undefined, time: START }));
  marks.add("nobodys", "up", START + 2 * DAY, { caller: undefined, time: START });
  t.notOk(await marks.has("nobodys", "up", { caller: undefined, time: START }));
});

t.test("a mark ends before the vendor deletes its file", async (t) => {
  for (const [uploaded, lifetime, until] of [
    [0, 48 * HOUR, 2 * DAY],
    [23 * HOUR, 48 * HOUR, 2 * DAY],
    [0, 30 * HOUR, DAY],
    [0, 300 * DAY, 2 * DAY],
    [12 * HOUR, -DAY, 0],
    [12 * HOUR, HOUR, 0],
  ] as const) {
    const { marks } = marking();
    marks.add("abc", "up", START + uploaded + lifetime, by("mine", START + uploaded));
    for (let time = uploaded; time < 5 * DAY; time += HOUR)
      t.equal(await marks.has("abc", "up", by("mine", START + time)), time < until, `${lifetime} at ${time / HOUR}`);
  }
});

t.test("a mark ends with the file that it is for, and no other file of the name gets one", async (t) => {
  const { marks } = marking();
  marks.add("abc", "up", START + 2 * DAY, by("mine", START));
  marks.end("abc", "twin", { caller: undefined });
  t.notOk(await marks.has("abc", "up", by("mine", START)), "two providers may lead to one account");
  marks.add("abc", "up", START + 3 * DAY, by("mine", START + DAY));
  t.notOk(await marks.has("abc", "up", by("mine", START + DAY)));
});
