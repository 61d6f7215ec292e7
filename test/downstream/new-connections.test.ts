import { Socket } from "node:net";
import t from "tap";
import { NewConnections } from "../../src/downstream/new-connections.ts";

function made() {
  const taken: Socket[] = [];
  const connections = new NewConnections((socket) => taken.push(socket));
  /** A turn that accepts so many connections and ends at a time. */
  const turn = (count: number, now = 0): boolean => {
    for (let i = 0; i < count; i++) connections.add(new Socket(), now);
    return connections.endTurn(now);
  };
  return { connections, taken, turn };
}

t.test("a connection that comes alone is taken at once", async (t) => {
  const { connections, taken, turn } = made();
  connections.add(new Socket(), 0);
  t.equal(taken.length, 1);
  t.equal(connections.endTurn(0), false);
  turn(0);
  connections.add(new Socket(), 0);
  t.equal(taken.length, 2, "the next one too, after a turn without any");
});

t.test("those that arrive turn after turn are taken together, in the first turn without another one", async (t) => {
  const { connections, taken, turn } = made();
  turn(1);
  t.same([turn(1), turn(1), turn(1)], [true, true, true], "nothing else is done meanwhile");
  t.same([taken.length, connections.size, connections.areArriving], [1, 3, true]);
  t.equal(turn(0), false);
  t.same([taken.length, connections.size, connections.areArriving], [4, 0, false]);
  t.equal(new Set(taken).size, 4);
});

t.test("so many, or after so much time, that no other request waits for long", async (t) => {
  const { connections, taken, turn } = made();
  turn(1);
  for (let i = 0; i < 31; i++) t.equal(turn(1), true);
  t.equal(turn(1), false);
  t.same([taken.length, connections.size], [33, 0]);
  t.equal(turn(1, 10), true, "more are collected");
  t.equal(turn(1, 13), true);
  t.equal(turn(1, 15), false);
  t.same([taken.length, connections.size], [36, 0]);
});
