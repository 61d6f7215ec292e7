import t from "tap";
import { MessageMemory } from "../../src/upstream/message-memory.ts";

const MIB = 1024 * 1024;
const FREE = 64 * 1024;

t.test("the sockets of a key share 16 MiB, or the largest message where that is more", async (t) => {
  for (const [largest, share] of [
    [1000, 16 * MIB],
    [20 * MIB, 20 * MIB],
  ] as const) {
    const memory = new MessageMemory();
    const [one, two] = [memory.account("a", largest), memory.account("a", largest)];
    t.ok(one.set(share));
    t.notOk(two.set(3 * FREE));
    t.equal(memory.size, share - FREE, "what was refused is not counted");
    t.ok(memory.account("b", largest).set(3 * FREE), "another key has its own share");
    t.ok(one.set(0));
    t.ok(two.set(3 * FREE));
  }
});

t.test("all keys together have four shares; messages of the usual size are always accepted", async (t) => {
  const memory = new MessageMemory();
  const accounts = ["a", "b", "c", "d"].map((key) => memory.account(key, MIB));
  for (const account of accounts) t.ok(account.set(16 * MIB + FREE));
  const fifth = memory.account("e", MIB);
  t.ok(fifth.set(FREE));
  t.notOk(fifth.set(FREE + 1));
  for (const account of accounts) t.ok(account.set(0));
  t.equal(memory.size, 0);
  t.ok(fifth.set(FREE + 1));
});
