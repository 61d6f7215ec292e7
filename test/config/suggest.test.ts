import t from "tap";
import { nearest, suggestion, unknownNameMessage } from "../../src/config/suggest.ts";

t.test("the nearest word is suggested, in any case", async (t) => {
  const words = ["anthropic", "openai", "gemini"];
  t.equal(nearest("antropic", words), "anthropic");
  t.equal(nearest("OpenAI", words), "openai");
  t.equal(nearest("gmeini", words), "gemini");
  t.equal(nearest("gemini", ["gemina", "Gemini", "gemini"]), "Gemini", "the first without an edit");
  t.equal(nearest("geminixx", words), "gemini", "two letters longer");
  t.equal(nearest("geminixxx", words), undefined);
});

t.test("a word with little in common is never suggested", async (t) => {
  t.equal(nearest("mistral", ["openai", "gemini"]), undefined);
  t.equal(nearest("ab", ["cd"]), undefined);
  t.equal(nearest("x", []), undefined);
});

t.test("the message has the suggestion, or else the existing words", async (t) => {
  t.equal(unknownNameMessage("plugin", "auht", ["auth"]), 'unknown plugin "auht", did you mean "auth"?');
  t.equal(unknownNameMessage("plugin", "zzz", ["auth", "sse"]), 'unknown plugin "zzz"; known: auth, sse');
  t.equal(unknownNameMessage("plugin", "zzz", []), 'unknown plugin "zzz"; none is known');
  const many = Array.from({ length: 30 }, (_, i) => `name-${i}`);
  t.match(unknownNameMessage("plugin", "zzz", many), /name-10, name-11 and 18 more$/);
});

t.test("a message ends with what was probably meant, or else as its author wants", async (t) => {
  t.equal(suggestion("chek", ["check", "run"]), ', did you mean "check"?');
  t.equal(suggestion("models", ["check", "run"]), ".");
  t.equal(suggestion("models", ["check"], "; it has check."), "; it has check.");
});
