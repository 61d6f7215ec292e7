import t from "tap";

// Written for browsers, and without types.
const {
  roundOf,
  answered,
  turnsOf,
}: {
  roundOf: (id: number, text: string, images: string[], models: object) => object;
  answered: (rounds: object[], id: number, column: string, answer: object) => object[];
  turnsOf: (rounds: object[], column: string) => object[];
} = await import(new URL("../../pages/marketplace/conversation.js", import.meta.url).href);

const both = { a: "echo", b: "down" };

t.test("each column continues with its own answers", async (t) => {
  let rounds = [roundOf(1, "one", ["data:1"], both)];
  rounds = answered(rounds, 1, "a", { state: "whole", text: "of a" });
  rounds = answered(rounds, 1, "b", { state: "stopped", text: "of b" });
  rounds.push(roundOf(2, "two", [], both));
  t.same(turnsOf(rounds, "a"), [
    { role: "user", text: "one", images: ["data:1"] },
    { role: "assistant", text: "of a" },
    { role: "user", text: "two", images: [] },
  ]);
  t.match(turnsOf(rounds, "b")[1], { role: "assistant", text: "of b" });
});

t.test("questions without an answer to continue are merged: failed ones, and those with tool calls only", async (t) => {
  let rounds = [roundOf(1, "one", ["data:1"], both)];
  rounds = answered(rounds, 1, "a", { state: "whole", text: "", calls: [{ name: "weather" }] });
  rounds = answered(rounds, 1, "b", { state: "failed", text: "half of", error: "It broke off." });
  rounds.push(roundOf(2, "two", ["data:2"], both));
  for (const column of ["a", "b"])
    t.same(turnsOf(rounds, column), [{ role: "user", text: "one\n\ntwo", images: ["data:1", "data:2"] }], column);
});

t.test("a new column begins with its first question", async (t) => {
  const rounds = [roundOf(1, "one", [], { a: "echo" }), roundOf(2, "two", [], both)];
  t.same(turnsOf(rounds, "b"), [{ role: "user", text: "two", images: [] }]);
});
