/** What has been said in the playground: rounds of a question with what came of it in each column. */

/** A question, asked in some columns. @param models ids of models by their columns */
export const roundOf = (id, text, images, models) => ({
  id,
  text,
  images,
  answers: Object.fromEntries(Object.entries(models).map(([column, model]) => [column, { model, state: "streaming" }])),
});

/** The rounds with what a column came to in one of them. */
export const answered = (rounds, id, column, answer) =>
  rounds.map((round) =>
    round.id === id
      ? { ...round, answers: { ...round.answers, [column]: { ...round.answers[column], ...answer } } }
      : round,
  );

/** Whether an answer is part of what is asked next: one that failed is not, nor one of tool calls alone, which nobody has answered. */
export const isKept = ({ state, text = "" }) => (state === "whole" || state === "stopped") && text !== "";

/**
 * The turns of one column: what it was asked, and its own answers. Questions without an answer between them are one, as several
 * protocols want the roles to take turns.
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
