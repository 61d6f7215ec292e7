import t from "tap";
import { KeptValues } from "../../src/store/kept-values.ts";

/** Keeps nothing, and tells when it is asked to look for what is too much. */
class Counted extends KeptValues {
  written = 0;
  readonly looks: string[] = [];

  override async get(): Promise<undefined> {}

  protected override async write(): Promise<void> {
    this.written++;
  }

  protected override async prune(space: string): Promise<void> {
    this.looks.push(`${space} after ${this.written}`);
  }
}

t.test("expired values are searched for at first, and then each time that a sixteenth more was written", async (t) => {
  const values = new Counted();
  const terms = { milliseconds: 1, bytes: 160 };
  for (let i = 0; i < 20; i++) await values.set("a", "name", Buffer.alloc(2), terms);
  t.same(values.looks, ["a after 1", "a after 7", "a after 13", "a after 19"]);
  await values.set("b", "name", Buffer.alloc(2), terms);
  t.equal(values.looks.at(-1), "b after 21", "each space by itself");
});

t.test("a value above the size limit is not stored", async (t) => {
  const values = new Counted();
  await t.rejects(values.set("a", "name", Buffer.alloc(11), { milliseconds: 1, bytes: 10 }), RangeError);
  t.equal(values.written, 0);
});
