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

t.test("without a primary nothing is waited for: pending and future questions fail at once", async (t) => {
  const peers = new WorkerPeers(() => {});
  const asked = peers.ask(SUM, [1]);
  peers.orphan();
  await t.rejects(asked, /the primary is gone/);
  await t.rejects(peers.ask(SUM, [2]), /the primary is gone/);
});
