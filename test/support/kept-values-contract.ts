import { setTimeout as sleep } from "node:timers/promises";
import type { Test } from "tap";
import type { KeptValues } from "../../src/store/kept-values.ts";

const HOUR = 3_600_000;

/** Tests for kept values in any store. @param made an empty store, as two processes see it */
export function keptValuesContract(t: Test, made: (t: Test) => Promise<[KeptValues, KeptValues]>): void {
  t.test("what one gateway keeps another finds, to the byte, until its time is over", async (t) => {
    const [one, other] = await made(t);
    const bytes = Buffer.from(Array.from({ length: 256 }, (_, i) => i));
    const terms = { milliseconds: HOUR, bytes: 10_000 };
    await one.set("cache", "a'; --\0ü", bytes, terms);
    await one.set("cache", "empty", Buffer.alloc(0), terms);
    t.same(await other.get("cache", "a'; --\0ü"), bytes);
    t.same(await other.get("cache", "empty"), Buffer.alloc(0));
    t.equal(await other.get("other", "empty"), undefined, "its own values are separate");
    t.equal(await other.get("cache", "nobody's"), undefined);
    await other.set("cache", "empty", Buffer.from("now"), terms);
    t.equal(String(await one.get("cache", "empty")), "now");
    await one.set("cache", "short", Buffer.from("x"), { ...terms, milliseconds: 20 });
    await sleep(30);
    t.equal(await one.get("cache", "short"), undefined);
  });

  t.test("the oldest go where there is no room, of this space only", async (t) => {
    const [one, other] = await made(t);
    const terms = { milliseconds: HOUR, bytes: 1000 };
    await one.set("others", "a", Buffer.alloc(900), terms);
    for (const name of ["a", "b", "c", "d"]) {
      await one.set("cache", name, Buffer.alloc(300), terms);
      await sleep(2);
    }
    const there = async (store: KeptValues) => {
      const found = await Promise.all(["a", "b", "c", "d"].map((name) => store.get("cache", name)));
      return found.map((value) => value?.length);
    };
    t.same(await there(one), [undefined, 300, 300, 300]);
    t.same(await there(other), [undefined, 300, 300, 300]);
    t.equal((await one.get("others", "a"))?.length, 900);
    await t.rejects(one.set("cache", "e", Buffer.alloc(1001), terms), RangeError);
    t.same(await there(one), [undefined, 300, 300, 300]);
    for (let i = 0; i < 200; i++) await one.set("cache", `small ${i}`, Buffer.alloc(10), terms);
    let sum = 0;
    for (let i = 0; i < 200; i++) sum += (await one.get("cache", `small ${i}`))?.length ?? 0;
    t.ok(sum > 900 && sum <= 1070, `${sum} bytes: about as many as it may have`);
  });

  t.test("a time and a size with fractions are kept too", async (t) => {
    const [one, other] = await made(t);
    const terms = { milliseconds: HOUR + 0.4, bytes: 999.5 };
    for (const name of ["a", "b"]) {
      await one.set("cache", name, Buffer.alloc(600), terms);
      await sleep(2);
    }
    t.equal((await other.get("cache", "b"))?.length, 600);
    t.equal(await other.get("cache", "a"), undefined, "there is no room for both");
  });
}
