import t from "tap";
import { SpelledSecrets } from "../../src/core/spelled-secrets.ts";
import { dice } from "../support/dice.ts";
import { hostileTexts, runLinear } from "../support/linear-work.ts";

const ENTITIES: Readonly<Record<string, string>> = {
  "&": "amp",
  "<": "lt",
  ">": "gt",
  '"': "quot",
  "'": "apos",
  "+": "plus",
  "/": "sol",
  "=": "equals",
  _: "lowbar",
};

/** What a spelling is, as a regular expression: right, and too slow for texts of others. */
function expressionOf(secrets: readonly string[]): RegExp {
  const spelled = (letter: string): string => {
    const hex = [...letter.charCodeAt(0).toString(16)].map((digit) => `[${digit}${digit.toUpperCase()}]`).join("");
    const plain = letter.replace(/[^A-Za-z0-9]/, "\\$&");
    const reference = `&#(?:0{0,4}${letter.charCodeAt(0)}|[xX]0{0,4}${hex});`;
    const named = ENTITIES[letter] === undefined ? "" : `|&${ENTITIES[letter]};`;
    return `(?:\\\\{0,8}${plain}|\\\\{1,8}u00${hex}|%(?:25){0,4}${hex}|${reference}${named})`;
  };
  return new RegExp(secrets.map((secret) => [...secret].map(spelled).join("")).join("|"), "g");
}

const SECRETS = [
  ["key-Aa1/2=3_&<>'\"+~"],
  ["key-one-long-9", "key-one-8", "key-one", "ey-o", "nothing"],
  ["%%%%", "%25%41x", "%2541", "25252525"],
  ["&amp;x", "&#x41;", "amp;", "&&"],
  ["\\\\a", "\\u0041b", "u0041", "\\\\\\\\"],
  ["aaaa", "aaab", "aab"],
];

t.test("finds what the expression of all spellings finds, in any text", async (t) => {
  for (const [seed, secrets] of SECRETS.entries()) {
    const cast = dice(seed);
    const fast = new SpelledSecrets(secrets);
    const letters = [...secrets.join(""), ..."\\\\\\%&#;u0x25"];
    const any = <T>(list: readonly T[]): T => list[cast(list.length)] as T;
    const spell = (letter: string): string => {
      const code = letter.charCodeAt(0);
      const hex = cast(2) ? code.toString(16) : code.toString(16).toUpperCase();
      return any([
        letter,
        letter,
        "\\".repeat(cast(11)) + letter,
        `${"\\".repeat(cast(10))}u00${hex}`,
        `%${"25".repeat(cast(6))}${hex}`,
        `&#${"0".repeat(cast(6))}${code};`,
        `&#${any(["x", "X"])}${"0".repeat(cast(6))}${hex};`,
        `&${ENTITIES[letter] ?? "amp"};`,
      ]);
    };
    let found = 0;
    for (let i = 0; i < 3000; i++) {
      let text = "";
      for (let pieces = 1 + cast(4); pieces > 0; pieces--) {
        const secret = any(secrets);
        const whole = cast(3) > 0 ? secret : secret.slice(cast(3), -1 - cast(3));
        // A text in which most characters are plain contains more secrets.
        const plain = cast(2) === 0;
        for (const letter of whole) text += plain && cast(4) > 0 ? letter : spell(letter);
        for (let other = cast(4); other > 0; other--) text += spell(any(letters));
      }
      const expected = text.replace(expressionOf(secrets), "***");
      if (expected !== text) found++;
      if (fast.replace(text, "***") !== expected)
        return t.equal(fast.replace(text, "***"), expected, `${JSON.stringify(secrets)} in ${JSON.stringify(text)}`);
    }
    t.ok(found > 500, `${found} texts with ${secrets[0]}`);
  }
});

t.test("a text that is made to be slow takes no longer than it is long, with any number of secrets", async (t) => {
  const secrets = Array.from({ length: 1000 }, (_, i) => `sk-prov-api03-0123456789abcdef-${i}`);
  const spelled = new SpelledSecrets(secrets);
  const parts = ["\\", '\\"', "%", "%25", "%73", "&", "&#", "&#115;", "\\u", "\\u0073", "sk-", "sk-prov-api03-"];
  parts.push(`${"\\".repeat(8)}s`, "sk-prov-api03-0123456789abcdef-99");
  for (const text of hostileTexts(parts)) runLinear(() => t.ok(spelled.replace(text, "").length <= text.length));
  const backslashes = new SpelledSecrets(["\\".repeat(40)]);
  const almost = `${"\\".repeat(39)}s`;
  runLinear(() => t.equal(backslashes.replace(almost, ""), almost));
  runLinear(() => t.equal(backslashes.replace("\\".repeat(400), ""), ""));
});
