import t from "tap";
import { PartialMatch } from "../../src/wire/partial-match.ts";

/** The part of a text that is still open. */
const open = (pattern: RegExp, text: string): string => text.slice(new PartialMatch(pattern).partialStart(text, 0));

t.test("a partial match begins where the text could still become a match", async (t) => {
  const mask = /<address-\d+>/;
  for (const [text, rest] of [
    ["", ""],
    ["no mask", ""],
    ["a <", "<"],
    ["a <addr", "<addr"],
    ["a <adder", ""],
    ["<address-", "<address-"],
    ["<address-12", "<address-12"],
    ["<address-12>", ""],
    ["<address-12><", "<"],
    ["<<address-1", "<address-1"],
  ] as const)
    t.equal(open(mask, text), rest, text);
});

t.test("a match at the end is partial when more text could lengthen or undo it", async (t) => {
  for (const [pattern, text, rest] of [
    [/\w+@\w+/, "to me@home", "me@home"],
    [/\w+@\w+/, "to me@home ", ""],
    [/\d{3}-\d{2}/, "123-45", "45"],
    [/\d{3}-\d{2}/, "12-123-4", "123-4"],
    [/\bcat\b/, "cat", "cat"],
    [/\bcat\b/, "cat ", ""],
    [/\bcat\b/, "bobcat", ""],
    [/a(?!bcd)/, "xab", "ab"],
    [/a(?!bcd)/, "xabx", ""],
    [/a(?=b)/, "xa", "a"],
    [/(?<=b)a+c/, "xaaba", "a"],
    [/end$/, "the end", "end"],
    [/(ab)+\1c/, "xabab", "abab"],
    [/(?<q>['"]).*?\k<q>/, "say 'hi", "'hi"],
    [/[^\]>]>/, "x]y", "y"],
    [/a{2,3}?b|cd*/, "aac", "c"],
    [/a{,3}/, "a{,", "a{,"],
    [/é\u{1F600}[\p{L}--[a-z]]/v, "é😀", "é😀"],
    [/😀x/u, "a\ud83d", "\ud83d"],
    [/(?:(?:ab){2}|cd)+e/i, "ABabC", "ABabC"],
  ] as const)
    t.equal(open(pattern, text), rest, `${pattern} in ${text}`);
});

t.test("the search begins at the given position", async (t) => {
  t.equal(new PartialMatch(/<\w*>/).partialStart("<a <b", 0), 3);
  t.equal(new PartialMatch(/<[^>]*>/).partialStart("<a <b", 0), 0);
  t.equal(new PartialMatch(/<[^>]*>/).partialStart("<a <b", 1), 3);
  t.equal(new PartialMatch(/<[^>]*>/).partialStart("<a <b", 4), 5);
});

t.test("a pattern that also matches the empty text is refused", async (t) => {
  t.throws(() => new PartialMatch(/x*/), { name: "SyntaxError" });
});
