import t from "tap";
import { Peers, QuestionHandlers, question, topic } from "../../src/core/peers.ts";

const WEATHER = topic<{ rain: boolean }>("weather");
const SUM = question<number[], number>("sum");

t.test("a process without peers notifies nobody, and answers alone", async (t) => {
  const answers = new QuestionHandlers();
  answers.set(SUM, (numbers) => numbers.reduce((sum, each) => sum + each, 0));
  const peers = new Peers(answers);
  peers.subscribe(WEATHER, () => t.fail("not notified"));
  peers.publish(WEATHER, "here", { rain: true });
  t.equal(await peers.ask(SUM, [1, 2, 3]), 6);
  await t.rejects(new Peers().ask(SUM, []), /nobody answers the question sum/);
});
