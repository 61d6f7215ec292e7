import t from "tap";
import { describeDifferingSums } from "../../src/store/differing-sums.ts";

t.test("sums that are wrong are reported, of many hours the first ones", async (t) => {
  const hours = Array.from({ length: 21 }, () => ({ hour: "3600000", key: "", model: "m", target: "t" }));
  const asked: number[][] = [];
  const answers = [hours, [{ day: 0 }], [{ week: "604800000" }]];
  const found = await describeDifferingSums((_, ...values) => answers[asked.push(values) - 1] ?? [], 3_600_001);
  t.same(found, [
    ...Array(20).fill("the sums of 1970-01-01 01h UTC, key -, model m, target t are not those of their rows"),
    "and more of the same kind",
    "the sums of the day 1970-01-01 UTC are not those of its hours",
    "the sums of the week from 1970-01-08 UTC are not those of its days",
  ]);
  t.same(asked, [[7_200_000, Number.MAX_SAFE_INTEGER, 7_200_000, 21], [20], [20]], "hours without deleted rows");
});
