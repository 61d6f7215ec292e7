import t from "tap";
import { inOwnMemory } from "../../src/wire/own-memory.ts";

t.test("a short part of a large buffer gets memory of its own, a large part is not copied", async (t) => {
  const chunk = Buffer.alloc(1000, "x");
  const short = inOwnMemory(chunk.subarray(10, 14));
  t.equal(short.toString(), "xxxx");
  t.equal(short.buffer.byteLength, 4);
  const long = chunk.subarray(0, 600);
  t.equal(inOwnMemory(long), long);
});
