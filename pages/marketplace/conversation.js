/** The conversation in the playground: rounds of a question with the answer in each column. */

/** Creates a round: a question, sent in some columns. @param models ids of models by their columns */
export const roundOf = (id, text, images, models) => ({
  id,
  text,
  images,
  answers: Object.fromEntries(Object.entries(models).map(([column, model]) => [column, { model, state: "streaming" }])),
});

/** Returns the rounds with a column's answer merged into one of them. */
export const answered = (rounds, id, column, answer) =>
  rounds.map((round) =>
    round.id === id
      ? { ...round, answers: { ...round.answers, [column]: { ...round.answers[column], ...answer } } }
      : round,
  );

/**
 * Reports whether an answer is sent with the next question: a failed one is not, nor one of tool calls alone, which have no
 * results.
 */
export const isKept = ({ state, text = "" }) => (state === "whole" || state === "stopped") && text !== "";

/**
 * Returns the turns of one column: its questions, and its own answers. Questions without an answer in between are joined, as
 * several protocols require alternating roles.
 */
export function turnsOf(rounds, column) {
  const turns = [];
  for (const { text, images, answers } of rounds) {
    const answer = answers[column];
    if (answer === undefined) continue;
    const before = turns.at(-1);
    if (before?.role === "user")
      turns.splice(-1, 1, {
        role: "user",
        text: `${before.text}\n\n${text}`,
        images: [...before.images, ...images],
      });
    else turns.push({ role: "user", text, images });
    if (isKept(answer)) turns.push({ role: "assistant", text: answer.text });
  }
  return turns;
}
