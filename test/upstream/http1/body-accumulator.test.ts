import t from "tap";
import { BodyAccumulator } from "../../../src/upstream/http1/body-accumulator.ts";

t.test("chunks are joined, however many there are and of any length", async (t) => {
  const gathered = new BodyAccumulator();
  t.equal(gathered.take(), undefined);
  for (const lengths of [[1], [0, 5], [3, 4000, 1, 9000], Array<number>(5000).fill(7), [70_000, 1]]) {
    const parts = lengths.map((length, i) => Buffer.alloc(length, 97 + (i % 26)));
    const all = Buffer.concat(parts);
    for (const part of parts) gathered.add(part);
    t.ok(gathered.take()?.equals(all), `${lengths.length} parts`);
    t.equal(gathered.take(), undefined, "once");
  }
});

t.test("the body keeps its bytes when the read buffer changes, and when more arrives", async (t) => {
  const read = Buffer.from("abcdef");
  const gathered = new BodyAccumulator();
  gathered.add(read.subarray(0, 3));
  const one = gathered.take();
  gathered.add(read.subarray(0, 3));
  gathered.add(read.subarray(3));
  const two = gathered.take();
  read.fill("x");
  gathered.add(read);
  gathered.take();
  t.equal(String(one), "abc");
  t.equal(String(two), "abcdef");
});
