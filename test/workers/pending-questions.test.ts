import t from "tap";
import { question } from "../../src/core/peers.ts";
import type { QuestionMessage } from "../../src/workers/messages.ts";
import { PendingQuestions } from "../../src/workers/pending-questions.ts";

const SUM = question<number[], number>("sum");

t.test("each question gets its own answer, in any order; one without an answer fails", async (t) => {
  const sent: QuestionMessage[] = [];
  const questions = new PendingQuestions((message) => void sent.push(message));
  const [first, second, third] = [questions.ask(SUM, [1]), questions.ask(SUM, [2]), questions.ask(SUM, [3])];
  t.same(
    sent.map(({ id, question }) => [id, question]),
    [
      [1, [1]],
      [2, [2]],
      [3, [3]],
    ],
  );
  questions.receive({ type: "answer", id: 2, answer: 20 });
  questions.receive({ type: "answer", id: 1, answer: 10 });
  questions.receive({ type: "answer", id: 3, failure: "no" });
  t.same([await first, await second], [10, 20]);
  await t.rejects(third, { name: "FormattedError", message: "no" });
});

t.test(
  "when the other process is gone, pending and later questions fail at once, and a late answer changes nothing",
  async (t) => {
    const questions = new PendingQuestions(() => {});
    const asked = questions.ask(SUM, [1]);
    questions.end("the worker has ended");
    questions.receive({ type: "answer", id: 1, answer: 10 });
    await t.rejects(asked, /the worker has ended/);
    await t.rejects(questions.ask(SUM, [2]), /the worker has ended/);
  },
);
