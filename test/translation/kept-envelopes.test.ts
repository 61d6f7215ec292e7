import t from "tap";
import { KeptEnvelopes } from "../../src/translation/kept-envelopes.ts";

const LARGE = "x".repeat(800_000);

t.test("what is kept is found by caller and call, for an hour, and replaced by a later one", async (t) => {
  let now = 0;
  const kept = new KeptEnvelopes(() => now);
  t.equal(kept.get("a", "call"), undefined);
  kept.set("a", "b call", "1");
  t.equal(kept.get("a", "b call"), "1");
  t.equal(kept.get("a b", "call"), undefined, "another caller with the same words");
  kept.set("a", "b call", "2");
  t.equal(kept.get("a", "b call"), "2");
  now = 3_600_000;
  t.equal(kept.get("a", "b call"), undefined);
  kept.set("a", "other", "3");
  t.equal(kept.get("a", "other"), "3");
});

t.test("one that is too large is not kept, and its predecessor is gone", async (t) => {
  const kept = new KeptEnvelopes(Date.now);
  kept.set("a", "call", "1");
  kept.set("a", "call", "x".repeat(1024 * 1024 + 1));
  t.equal(kept.get("a", "call"), undefined);
});

t.test("above the size limit the oldest of a single caller is forgotten first", async (t) => {
  const kept = new KeptEnvelopes(Date.now);
  for (let i = 0; i < 150; i++) kept.set("a", `call_${i}`, LARGE);
  const left = Array.from({ length: 150 }, (_, i) => kept.get("a", `call_${i}`) !== undefined);
  t.equal(left.filter(Boolean).length, 83);
  t.same(
    left,
    left.toSorted((a, b) => Number(a) - Number(b)),
  );
});

t.test("above the maximum number the oldest of a single caller is forgotten first", async (t) => {
  const kept = new KeptEnvelopes(Date.now);
  for (let i = 0; i <= 20_000; i++) kept.set("a", `call_${i}`, "x");
  t.equal(kept.get("a", "call_0"), undefined);
  for (const i of [1, 20_000]) t.equal(kept.get("a", `call_${i}`), "x");
});

t.test("a caller with many calls displaces its own, not those of others", async (t) => {
  for (const [count, envelope] of [
    [30_000, "x"],
    [150, LARGE],
  ] as const) {
    const kept = new KeptEnvelopes(Date.now);
    for (let i = 0; i < 10; i++) kept.set("quiet", `call_${i}`, envelope);
    for (let i = 0; i < count; i++) kept.set("busy", `call_${i}`, envelope);
    for (let i = 0; i < 10; i++) t.equal(kept.get("quiet", `call_${i}`), envelope);
    t.equal(kept.get("busy", `call_${count - 1}`), envelope);
    // A newcomer finds room although all is taken.
    kept.set("new", "call", envelope);
    kept.set("new", "call_2", envelope);
    for (const call of ["call", "call_2"]) t.equal(kept.get("new", call), envelope);
  }
});
