import type { Socket } from "node:net";
import { mock } from "node:test";
import t from "tap";
import { MemoryLog } from "../../src/testing/memory-log.ts";
import { WaitingConnections } from "../../src/workers/waiting-connections.ts";

/** A connection that says whether it is closed. */
function connection() {
  const state = { closed: false };
  return { state, socket: { destroy: () => (state.closed = true) } as unknown as Socket };
}

t.test("connections that arrive in a moment without a worker wait, and the next worker gets them", async (t) => {
  const log = new MemoryLog();
  const waiting = new WaitingConnections(log, 1000);
  const [one, other] = [connection(), connection()];
  waiting.add(one.socket);
  waiting.add(other.socket);
  t.same(waiting.takeAll(), [one.socket, other.socket]);
  t.same(waiting.takeAll(), [], "once");
  t.notOk(one.state.closed || other.state.closed);
  t.same(log.lines, [], "no warnings");
});

t.test("after a time without a worker all are closed, new ones at once, and it is reported once", async (t) => {
  mock.timers.enable({ apis: ["setTimeout"] });
  t.teardown(() => mock.timers.reset());
  const log = new MemoryLog();
  const waiting = new WaitingConnections(log, 50);
  const early = connection();
  waiting.startTimeout();
  mock.timers.tick(30);
  waiting.add(early.socket);
  t.notOk(early.state.closed);
  mock.timers.tick(19);
  t.notOk(early.state.closed);
  mock.timers.tick(1);
  t.ok(early.state.closed, "the time counts from the exit of the last worker");
  const late = connection();
  waiting.add(late.socket);
  t.ok(late.state.closed, "at once");
  t.match(
    log.lines.map(({ message }) => message),
    [/^no worker serves/],
  );
  t.same(waiting.takeAll(), []);
  t.match(log.lines.at(-1), { level: "info", fields: { connections: 2 }, message: /serves again/ });
  const next = connection();
  waiting.add(next.socket);
  t.same(waiting.takeAll(), [next.socket], "they wait again");
});

t.test("more than the limit of waiting ones are closed", async (t) => {
  const log = new MemoryLog();
  const waiting = new WaitingConnections(log, 1000, 2);
  const all = [connection(), connection(), connection()];
  for (const { socket } of all) waiting.add(socket);
  t.same(
    all.map(({ state }) => state.closed),
    [false, false, true],
  );
  t.equal(waiting.takeAll().length, 2);
});

t.test("at a stop all waiting ones are closed", async (t) => {
  const waiting = new WaitingConnections(new MemoryLog(), 1000);
  const [before, behind] = [connection(), connection()];
  waiting.add(before.socket);
  waiting.close();
  waiting.add(behind.socket);
  t.ok(before.state.closed && behind.state.closed);
});
