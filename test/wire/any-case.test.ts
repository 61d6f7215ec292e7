import t from "tap";
import { anyCasePattern, ESCAPED_LETTER, FOLDABLE, foldCase, letterVariants } from "../../src/wire/any-case.ts";

t.test("names are equal that differ in case, or in letters that Unicode maps to s or k", async (t) => {
  for (const name of ["SKILL_ID", "s\u212aill_id", "\u017fkill_id", "Skill_Id"]) {
    t.equal(foldCase(name), "skill_id");
    t.match(name, FOLDABLE);
    t.match(Buffer.from(`"${name}"`).toString("latin1"), new RegExp(`"${anyCasePattern("skill_id")}"`));
  }
  t.not(foldCase("skills_id"), "skill_id");
  t.notMatch('"skilled_id"', new RegExp(`"${anyCasePattern("skill_id")}"`));
  t.same(letterVariants("k"), ["k", "K", "\u212a"]);
  t.same(letterVariants("_"), ["_"]);
});

t.test("those are all letters that map to one of ASCII", async (t) => {
  const others: string[] = [];
  for (let code = 0x80; code < 0x1_0000; code++) {
    const letter = String.fromCharCode(code);
    if (/^[a-z]$/i.test(letter.toLowerCase()) || /^[s]$/i.test(letter.toUpperCase())) others.push(letter);
  }
  t.same(others, ["\u017f", "\u212a"]);
});

t.test("an escape of any of them, or of a letter of ASCII, is distinguished from others", async (t) => {
  const escaped = new RegExp(`^${ESCAPED_LETTER.source}$`, "i");
  const of = (code: number) => `\\u${code.toString(16).padStart(4, "0")}`;
  for (let code = 0; code < 0x1_0000; code++) {
    const letter = String.fromCharCode(code);
    if (escaped.test(of(code)) !== /^[A-Za-z_\u017f\u212a]$/.test(letter)) t.fail(of(code));
  }
});
