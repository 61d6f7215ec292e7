import t from "tap";
import { BufferMemory, UNCOUNTED_BYTES as FREE, MAX_UNCOUNTED_BODY } from "../../src/core/buffer-memory.ts";

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
  one.retainWhileAnswered();
  t.equal(memory.size, 16 * MIB - FREE);
  t.equal(two.set(16 * MIB), undefined, "the share is free again");
  t.equal(one.set(15 * MIB), undefined);
  t.equal(two.set(16 * MIB + FREE + 1), "perCaller", "and counts once");
  for (const account of [one, two]) account.close();
  one.retainWhileAnswered();
  t.equal(memory.size, 0);
  t.equal(memory.account("a", LIMITS).set(16 * MIB + FREE), undefined);
});

/** Returns the account of a request with a body of this many MiB beyond the one that is not counted; undefined: it is refused. */
function retainedBody(memory: BufferMemory, caller: string, mib: number, limits = LIMITS) {
  const account = memory.account(caller, limits);
  account.set(mib * MIB + MAX_UNCOUNTED_BODY);
  try {
    account.retainWhileAnswered();
    account.releaseAllButRetained();
    return account;
  } catch (error) {
    t.match(error, { code: "overloaded", status: 503, retryAfter: Number });
    account.close();
    return undefined;
  }
}

t.test("what large bodies take while they are answered is counted until their accounts are closed", async (t) => {
  const memory = new BufferMemory();
  const retained = retainedBody(memory, "a", 15);
  t.equal(memory.size, 15 * MIB);
  t.equal(retainedBody(memory, "a", 0) && memory.size, 15 * MIB, "a body up to 1 MiB takes nothing");
  t.equal(memory.account("a", LIMITS).set(16 * MIB), undefined, "the share for bodies that arrive is free again");
  retained?.close();
  retained?.close();
  t.equal(memory.size, 16 * MIB - FREE);
});

t.test("a caller may retain what stays free of half of the total, and at first all that is free", async (t) => {
  const memory = new BufferMemory();
  const retained = [8, 8].map((mib) => retainedBody(memory, "a", mib));
  t.ok(retained.every(Boolean));
  t.notOk(retainedBody(memory, "a", 1), "as much as is free");
  t.ok(retainedBody(memory, "b", 8));
  t.notOk(retainedBody(memory, "b", 1));
  t.ok(retainedBody(memory, "c", 8));
  t.notOk(retainedBody(memory, "d", 1), "half of the total is retained");
  t.ok(retainedBody(memory, "d", 0));
  retained[0]?.close();
  t.notOk(retainedBody(memory, "a", 1));
  t.ok(retainedBody(memory, "d", 8));
});

t.test("a caller may retain no more than may arrive for it at the same time; one body always fits", async (t) => {
  const limits = { perCaller: 6 * MIB, total: 64 * MIB };
  const memory = new BufferMemory();
  t.ok(retainedBody(memory, "a", 4, limits));
  t.notOk(retainedBody(memory, "a", 4, limits));
  t.ok(retainedBody(memory, "a", 2, limits));
  t.ok(retainedBody(new BufferMemory(), "a", 15, { perCaller: 16 * MIB, total: 16 * MIB }));
});

/** A memory with a clock, and what its accounts were told. */
function preemptible() {
  const clock = { now: 0 };
  const memory = new BufferMemory(() => clock.now);
  const preempted: string[] = [];
  const open = (caller: string, mib: number, name = caller) => {
    const account = memory.account(caller, LIMITS, () => preempted.push(name));
    const exceeded = account.set(mib * MIB + FREE);
    return { account, exceeded };
  };
  return { clock, memory, preempted, open };
}

t.test("where all is taken, the caller with most gives up its largest, oldest account, not the newcomer", async (t) => {
  const { clock, memory, preempted, open } = preemptible();
  for (const [caller, share] of [
    ["a", 15],
    ["b", 16],
    ["c", 16],
    ["d", 16],
  ] as const)
    for (const part of ["one", "two", "three"]) {
      open(caller, share / 4, `${caller} ${part}`);
      clock.now++;
    }
  for (const caller of ["a", "b", "c", "d"]) open(caller, caller === "b" ? 4 : 3.5, `${caller} four`);
  t.same(preempted, []);
  t.equal(open("e", 4).exceeded, undefined);
  t.same(preempted, ["b one"]);
  t.ok(memory.size <= LIMITS.total);
  t.equal(open("e", 4).exceeded, undefined, "and again, up to the average");
  t.same(preempted, ["b one", "c one"]);
});

t.test("a caller that would have more than the average is refused itself", async (t) => {
  const { preempted, open } = preemptible();
  for (const caller of ["a", "b", "c", "d"]) for (const half of [0, 1]) open(caller, 8, `${caller} ${half}`);
  t.equal(open("b", 1).exceeded, "perCaller");
  t.equal(open("e", 12).exceeded, undefined);
  t.same(preempted, ["a 0", "b 0"]);
  t.equal(open("a", 6).exceeded, "total", "14 of 66 MiB for five callers");
  t.equal(open("a", 4).exceeded, undefined);
  t.equal(preempted.length, 2);
});

t.test("the only account of a caller is spared until it is as old as patience allows", async (t) => {
  const { clock, preempted, open } = preemptible();
  for (const caller of ["a", "b", "c", "d"]) open(caller, 16);
  t.equal(open("e", 1).exceeded, "total");
  clock.now = 10_000;
  t.equal(open("e", 1).exceeded, undefined);
  t.equal(preempted.length, 1);
});

t.test("what has arrived, and what has left its caller's share, is not given up", async (t) => {
  const { clock, memory, preempted, open } = preemptible();
  const [one, two] = ["a", "b"].map((caller) => [0, 1].map(() => open(caller, 8).account));
  for (const account of one ?? []) account.protect();
  for (const account of two ?? []) account.retainWhileAnswered();
  const plain = ["c", "d"].map((caller) => memory.account(caller, LIMITS));
  for (const account of plain) account.set(16 * MIB + FREE);
  clock.now = 60_000;
  t.equal(open("e", 1).exceeded, "total");
  t.same(preempted, []);
});

t.test("where what others could give up would not suffice, they give up nothing", async (t) => {
  const { memory, preempted, open } = preemptible();
  for (const half of ["one", "two"]) open("a", 8, `a ${half}`);
  for (const caller of ["b", "c", "d"]) open(caller, 16);
  const { size } = memory;
  t.equal(open("e", 12).exceeded, "total", "the only accounts of the others are spared, and one of a's is too little");
  t.same(preempted, []);
  t.equal(memory.size, size);
  t.equal(open("e", 8).exceeded, undefined);
  t.same(preempted, ["a one"]);
});

t.test("what is retained of an account that has become smaller is what it has", async (t) => {
  const memory = new BufferMemory();
  const one = memory.account("a", LIMITS);
  one.set(16 * MIB);
  one.retainWhileAnswered();
  one.set(2 * FREE);
  const others = ["b", "c", "d", "e"].map((caller) => memory.account(caller, LIMITS));
  for (const other of others) other.set(16 * MIB);
  one.releaseAllButRetained();
  t.equal(memory.size, 4 * (16 * MIB - FREE) + FREE);
  for (const account of [one, ...others]) account.close();
  t.equal(memory.size, 0);
});

t.test("the clock is read only where bytes begin to count", async (t) => {
  let reads = 0;
  const account = new BufferMemory(() => ++reads).account("a", LIMITS);
  for (const bytes of [1, FREE]) account.set(bytes);
  t.equal(reads, 0);
  for (const bytes of [FREE + 1, FREE + 2, 0]) account.set(bytes);
  t.equal(reads, 1);
});
