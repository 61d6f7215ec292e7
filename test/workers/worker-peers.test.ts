import t from "tap";
import { question, topic } from "../../src/core/peers.ts";
import type { ToPrimary } from "../../src/workers/messages.ts";
import { WorkerPeers } from "../../src/workers/worker-peers.ts";

const WEATHER = topic<{ rain: boolean }>("weather");
const SUM = question<number[], number>("sum");

t.test("a worker sends messages to its primary, and receives those of others", async (t) => {
  const sent: ToPrimary[] = [];
  const peers = new WorkerPeers((message) => void sent.push(message));
  const heard: unknown[] = [];
  peers.subscribe(WEATHER, (key, fact) => heard.push([key, fact.rain]));
  peers.subscribe(WEATHER, (key) => heard.push(key));
  peers.publish(WEATHER, "here", { rain: true });
  t.same(sent, [{ type: "fact", topic: "weather", key: "here", fact: { rain: true } }]);
  peers.receive({ topic: "weather", key: "there", fact: { rain: false } });
  peers.receive({ topic: "other", key: "there", fact: 1 });
  t.same(heard, [["there", false], "there"]);
});

t.test("each question gets its own answer, in any order; one without an answer fails", async (t) => {
  const sent: ToPrimary[] = [];
  const peers = new WorkerPeers((message) => void sent.push(message));
  const [first, second, third] = [peers.ask(SUM, [1]), peers.ask(SUM, [2]), peers.ask(SUM, [3])];
  t.same(
    sent.map((message) => message.type === "question" && [message.id, message.question]),
    [
      [1, [1]],
      [2, [2]],
      [3, [3]],
    ],
  );
  peers.receiveAnswer({ id: 2, answer: 20 });
  peers.receiveAnswer({ id: 1, answer: 10 });
  peers.receiveAnswer({ id: 3, failure: "no" });
  t.same([await first, await second], [10, 20]);
  await t.rejects(third, /no/);
});

t.test("without a primary nothing is waited for: pending and future questions fail at once", async (t) => {
  const peers = new WorkerPeers(() => {});
  const asked = peers.ask(SUM, [1]);
  peers.orphan();
  await t.rejects(asked, /the primary is gone/);
  await t.rejects(peers.ask(SUM, [2]), /the primary is gone/);
});
