import t from "tap";
import { BufferMemory, UNCOUNTED_BYTES as FREE } from "../../src/core/buffer-memory.ts";

const MIB = 1024 * 1024;
const LIMITS = { perCaller: 16 * MIB, total: 64 * MIB };

t.test("the accounts of a caller share its limit", async (t) => {
  const memory = new BufferMemory();
  const [one, two] = [memory.account("a", LIMITS), memory.account("a", LIMITS)];
  t.equal(one.set(16 * MIB), undefined);
  t.equal(two.set(3 * FREE), "perCaller");
  t.equal(memory.size, 16 * MIB - FREE, "what was refused is not counted");
  t.equal(memory.account("b", LIMITS).set(3 * FREE), undefined, "another caller has its own share");
  t.equal(one.set(0), undefined);
  t.equal(two.set(3 * FREE), undefined);
});

t.test("all callers together have a limit; what is usual in size is always accepted", async (t) => {
  const memory = new BufferMemory();
  const accounts = ["a", "b", "c", "d"].map((caller) => memory.account(caller, LIMITS));
  for (const account of accounts) t.equal(account.set(16 * MIB + FREE), undefined);
  const fifth = memory.account("e", LIMITS);
  t.equal(fifth.set(FREE), undefined);
  t.equal(fifth.set(FREE + 1), "total");
  for (const account of accounts) account.close();
  t.equal(memory.size, 0);
  t.equal(fifth.set(FREE + 1), undefined);
});

t.test("a closed account counts nothing more", async (t) => {
  const memory = new BufferMemory();
  const account = memory.account("a", LIMITS);
  t.equal(account.set(MIB), undefined);
  account.close();
  t.equal(account.set(MIB), undefined);
  t.equal(memory.size, 0);
});

t.test("an account that has left its caller's share counts for all, until it is closed", async (t) => {
  const memory = new BufferMemory();
  const [one, two] = [memory.account("a", LIMITS), memory.account("a", LIMITS)];
  t.equal(one.set(16 * MIB), undefined);
  one.releaseShare();
  t.equal(memory.size, 16 * MIB - FREE);
  t.equal(two.set(16 * MIB), undefined, "the share is free again");
  t.equal(one.set(15 * MIB), undefined);
  t.equal(two.set(16 * MIB + FREE + 1), "perCaller", "and counts once");
  for (const account of [one, two]) account.close();
  one.releaseShare();
  t.equal(memory.size, 0);
  t.equal(memory.account("a", LIMITS).set(16 * MIB + FREE), undefined);
});
