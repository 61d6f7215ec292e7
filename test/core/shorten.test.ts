import t from "tap";
import { shorten, shortPath } from "../../src/core/shorten.ts";

t.test("a text that fits stays as it is", async (t) => {
  for (const text of ["", "x", "x".repeat(20), "é".repeat(20)]) t.equal(shorten(text, 20), text);
});

t.test("of a longer one the beginning is left, without the word that is cut", async (t) => {
  t.equal(shorten("the quick brown fox jumps", 20), "the quick brown …");
  t.equal(shorten('a key: "sk-0123456789"', 20), 'a key: "…');
  t.equal(shorten("messages.0.content.abcdefgh", 20), "messages.0.content.…");
  for (const secret of ["sk-aB3_dE+5gH/7=", "%73k%2D0123", "\\u0073k-01", "a:b@c~d!e#f&g|h"]) {
    const text = `key ${secret.repeat(4)}`;
    t.equal(shorten(text, text.length - 1), "key …", secret);
  }
  t.equal(shorten("x".repeat(21), 20), "…");
});

t.test("scripts without spaces are cut anywhere, but no character in two", async (t) => {
  t.equal(shorten("漢".repeat(30), 20), `${"漢".repeat(19)}…`);
  t.ok(shorten(`a ${"😀".repeat(30)}`, 20).isWellFormed());
  t.ok(shorten(`a x${"😀".repeat(30)}`, 20).isWellFormed());
});

t.test("of a long path the beginning is left, however long its names are", async (t) => {
  t.equal(shortPath([]), "");
  t.equal(shortPath(["input", 1, "", "id"]), "input.1..id");
  t.equal(shortPath(["a", ..."x".repeat(99)]), `a${".x".repeat(99)}`);
  t.equal(shortPath(["a", ..."x".repeat(100)]), `a${".x".repeat(98)}.…`);
  for (const path of [
    ["input", "x".repeat(1000)],
    ["input", "x".repeat(201), "id"],
  ])
    t.equal(shortPath(path), "input.…");
});
