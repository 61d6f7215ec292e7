import t from "tap";
import { QuotedNameSearch } from "../../src/wire/quoted-name-search.ts";

const NAMES = ["model", "mode", "task_id", "voice"];
const search = new QuotedNameSearch(NAMES);
const occurs = (text: string) => search.mayOccurIn(Buffer.from(text));

t.test(
  "a name in quotes is found in any case and after anything, also with letters that readers fold to ASCII",
  async (t) => {
    for (const name of [...NAMES, "MODEL", "mOdE", "ta\u017fk_id", "TA\u017f\u212a_ID", "tas\u212a_id"])
      for (const before of ["", '"', '"mod', '"model', '"model_', '"ta\u017f', "\\u0", '\\"', '""', "x".repeat(5000)])
        t.ok(occurs(`${before}"${name}"`), `${before.slice(-9)}"${name}"`);
  },
);

t.test("an escape that may stand for a letter is found, and no other one", async (t) => {
  for (const text of ['"mo\\u0064el"', "\\u00", "\\\\u0041", "\\u0\\u00", '"ta\\u017fk_id"', '"tas\\u212A_id"'])
    t.ok(occurs(text), text);
  for (const text of ["\\u0", "\\u20ac", "u0041", '\\n"', "\\u0 0"]) t.notOk(occurs(text), text);
});

t.test("nothing else is found", async (t) => {
  for (const text of [
    "",
    "model",
    '"model',
    'model"',
    '"models"',
    '"mod"el"',
    '"task\u017f_id"',
    '"voic\u0065',
    '"\xc5"',
  ])
    t.notOk(occurs(text), text);
  t.notOk(new QuotedNameSearch([]).mayOccurIn(Buffer.from('"model"')));
});

t.test("the result is that of a pattern, for random texts", async (t) => {
  const names = new QuotedNameSearch(["ab", "aab", "ba"]);
  for (let round = 0; round < 20_000; round++) {
    const text = Array.from({ length: 12 }, () => 'abAB"'[Math.floor(Math.random() * 5)]).join("");
    const expected = /"(?:ab|aab|ba)"/i.test(text);
    if (names.mayOccurIn(Buffer.from(text)) !== expected) t.equal(!expected, expected, text);
  }
});

t.test("a name is found behind a text full of beginnings of names", async (t) => {
  const many = new QuotedNameSearch(["model", "prompt", "file_id", "tunnel_id", "voice"]);
  for (const part of ['"pro', '"mod', '"tunnel_i', '"voic', '"', "\\u0"]) {
    const text = part.repeat(10_000);
    t.notOk(many.mayOccurIn(Buffer.from(text)), part);
    t.ok(many.mayOccurIn(Buffer.from(`${text}"voice"`)), part);
  }
});
