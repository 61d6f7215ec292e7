import t from "tap";
import { Admission, type AdmissionLimits, type AdmissionRequest } from "../../src/core/admission.ts";
import type { GatewayError } from "../../src/core/errors.ts";
import { dice } from "../support/dice.ts";
import { until } from "../support/until.ts";

const LIMITS: AdmissionLimits = { concurrency: 2, perKey: 0, queue: 100, wait: 60_000 };

interface Guest extends AdmissionRequest {
  /** What waiting for it came to. */
  state: "waiting" | "in" | string;
  go(): void;
}

/** Someone of a caller at the door. */
function knock(admission: Admission, id: string): Guest {
  const leaving: (() => void)[] = [];
  const guest: Guest = {
    caller: { id },
    address: "",
    state: "waiting",
    onAbort: (leave) => {
      leaving.push(leave);
      return () => {};
    },
    go: () => {
      for (const leave of leaving) leave();
    },
  };
  try {
    const entered = admission.acquire(guest);
    if (!entered) guest.state = "in";
    entered?.then(
      () => (guest.state = "in"),
      (error: GatewayError) => (guest.state = error.code),
    );
  } catch (thrown) {
    guest.state = (thrown as GatewayError).code;
  }
  return guest;
}

/** What is settled has told so, and no timer has run meanwhile. */
const settled = () => new Promise<void>((resolve) => process.nextTick(resolve));
const states = async (guests: readonly Guest[]) => {
  await settled();
  return guests.map(({ state }) => state);
};

t.test("the number of admitted requests is limited, and the next one is admitted when one leaves", async (t) => {
  const admission = new Admission(LIMITS, "It");
  const guests = ["a", "a", "a", "b"].map((id) => knock(admission, id));
  t.same(await states(guests), ["in", "in", "waiting", "waiting"]);
  admission.release(guests[0] as Guest);
  t.same(await states(guests), ["in", "in", "waiting", "in"], "a caller without running requests comes first");
  admission.release(guests[1] as Guest);
  t.same(await states(guests), ["in", "in", "in", "in"]);
});

t.test("a request whose caller a plugin replaces leaves the place of the caller for whom it came", async (t) => {
  const admission = new Admission({ ...LIMITS, perKey: 1 }, "It");
  const guest = knock(admission, "a");
  Object.assign(guest, { caller: { id: "b" } });
  admission.release(guest);
  t.same(await states(["a", "b", "b"].map((id) => knock(admission, id))), ["in", "in", "waiting"]);
});

t.test("a request that leaves twice, or was never admitted, frees no slot", async (t) => {
  const admission = new Admission(LIMITS, "It");
  const guests = ["a", "b", "c", "d"].map((id) => knock(admission, id));
  admission.release(guests[3] as Guest);
  t.same(await states(guests), ["in", "in", "waiting", "waiting"]);
  admission.release(guests[0] as Guest);
  admission.release(guests[0] as Guest);
  t.same(await states(guests), ["in", "in", "in", "waiting"]);
});

t.test("waiting callers take turns, however many requests one of them sends", async (t) => {
  const admission = new Admission({ ...LIMITS, concurrency: 1 }, "It");
  const first = knock(admission, "noisy");
  const noisy = Array.from({ length: 50 }, () => knock(admission, "noisy"));
  const quiet = ["x", "y", "z"].map((id) => knock(admission, id));
  const order: string[] = [];
  for (let inside: Guest | undefined = first; inside; ) {
    admission.release(inside);
    inside.state = "gone";
    await settled();
    inside = [...noisy, ...quiet].find(({ state }) => state === "in");
    if (inside) order.push(inside.caller?.id ?? "");
  }
  t.equal(order.length, 53);
  t.same(
    order.slice(0, 4).sort(),
    ["noisy", "x", "y", "z"],
    "each is admitted once before the noisy one is admitted again",
  );
});

t.test("one caller has at most its share of the slots, and the rest is for others", async (t) => {
  const admission = new Admission({ ...LIMITS, concurrency: 4, perKey: 2 }, "It");
  const guests = ["a", "a", "a", "b", "c"].map((id) => knock(admission, id));
  t.same(await states(guests), ["in", "in", "waiting", "in", "in"]);
  admission.release(guests[3] as Guest);
  t.same(await states(guests), ["in", "in", "waiting", "in", "in"]);
  admission.release(guests[0] as Guest);
  t.same(await states(guests), ["in", "in", "in", "in", "in"]);
});

t.test("callers without a key are distinguished by their address", async (t) => {
  const admission = new Admission({ ...LIMITS, perKey: 1 }, "It");
  const anonymous = (address: string): AdmissionRequest => ({ address, onAbort: () => () => {} });
  t.equal(admission.acquire(anonymous("192.0.2.1")), undefined);
  t.equal(admission.acquire(anonymous("192.0.2.2")), undefined);
});

t.test("the queue's length and waiting time are limited, and requests that left do not wait", async (t) => {
  const admission = new Admission({ concurrency: 1, perKey: 0, queue: 2, wait: 20 }, "It");
  const guests = ["a", "b", "c", "d"].map((id) => knock(admission, id));
  t.same(await states(guests), ["in", "waiting", "waiting", "overloaded"]);
  guests[1]?.go();
  t.same(await states(guests), ["in", "client_gone", "waiting", "overloaded"]);
  await until(() => guests[2]?.state !== "waiting");
  t.same(await states(guests), ["in", "client_gone", "overloaded", "overloaded"]);
  admission.release(guests[0] as Guest);
  t.equal(knock(admission, "e").state, "in", "the room of aborted requests is not lost");
});

t.test("refused requests get different retry times", async (t) => {
  const admission = new Admission({ concurrency: 1, perKey: 0, queue: 0, wait: 0 }, "The provider p");
  knock(admission, "a");
  const waits = Array.from({ length: 20 }, () => {
    try {
      admission.acquire({ address: "192.0.2.1", onAbort: () => () => {} });
    } catch (thrown) {
      const { message, status, retryAfter = 0 } = thrown as GatewayError;
      t.match(message, /^The provider p has as many requests/);
      t.equal(status, 503);
      return retryAfter;
    }
    return 0;
  });
  t.ok(waits.every((wait) => wait >= 1 && wait <= 3));
  t.ok(new Set(waits).size > 1);
});

t.test("for any sequence of arrivals and departures the limits hold and no waiting request is forgotten", async (t) => {
  const random = dice(7);
  const admission = new Admission({ concurrency: 5, perKey: 2, queue: 1000, wait: 60_000 }, "It");
  const guests: Guest[] = [];
  const wrong: string[] = [];
  for (let i = 0; i < 3000; i++) {
    const inside = guests.filter(({ state }) => state === "in");
    if (random(3) > 0 || inside.length === 0) guests.push(knock(admission, `k${random(6)}`));
    else {
      const one = inside[random(inside.length)] as Guest;
      admission.release(one);
      one.state = "gone";
    }
    await settled();
    const now = guests.filter(({ state }) => state === "in");
    const of = (id?: string) => now.filter(({ caller }) => caller?.id === id).length;
    if (now.length > 5) wrong.push(`${now.length} inside`);
    if (now.some(({ caller }) => of(caller?.id) > 2)) wrong.push("more than its share");
    const waits = guests.filter(({ state }) => state === "waiting");
    if (now.length < 5 && waits.some(({ caller }) => of(caller?.id) < 2)) wrong.push("somebody waits at an open door");
    if (waits.length > 300) for (const one of waits) one.go();
  }
  t.same(wrong, []);
});

t.test(
  "if the queue is full, the caller with most waiting requests loses one to a caller with fewer, never to itself",
  async (t) => {
    const admission = new Admission({ ...LIMITS, queue: 3 }, "It");
    const noisy = ["a", "a", "a", "a", "a"].map((id) => knock(admission, id));
    const quiet = knock(admission, "b");
    t.same(await states([...noisy, quiet]), ["in", "in", "waiting", "waiting", "overloaded", "waiting"]);
    t.same(await states([knock(admission, "a"), knock(admission, "b")]), ["overloaded", "overloaded"]);
    admission.release(noisy[0] as Guest);
    t.same(await states([quiet]), ["in"]);
  },
);
