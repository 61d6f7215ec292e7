import t from "tap";
import { type ConversationNews, ConversationTargets } from "../../src/upstream/conversation-targets.ts";

t.test("others are notified of a conversation's target when it is new or another one", async (t) => {
  const published: ConversationNews[] = [];
  const targets = new ConversationTargets((news) => published.push(news));
  for (const target of ["a:m", "a:m", "b:m", "b:m"]) targets.record("one", target);
  t.same(published, [
    { conversation: "one", target: "a:m" },
    { conversation: "one", target: "b:m" },
  ]);
  t.equal(targets.get("one"), "b:m");
});

t.test("what another process has chosen is remembered, and not sent back", async (t) => {
  const published: ConversationNews[] = [];
  const targets = new ConversationTargets((news) => published.push(news));
  targets.applyRemote({ conversation: "one", target: "a:m" });
  targets.record("one", "a:m");
  t.equal(targets.get("one"), "a:m");
  t.same(published, []);
});

t.test("the conversation that has been idle for longest is forgotten first", async (t) => {
  const targets = new ConversationTargets();
  for (let i = 0; i < 50_000; i++) targets.record(`${i}`, "a:m");
  targets.record("0", "a:m");
  targets.record("further", "a:m");
  t.same([targets.get("0"), targets.get("1"), targets.get("2")], ["a:m", undefined, "a:m"]);
});
