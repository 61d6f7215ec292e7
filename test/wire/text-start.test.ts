import t from "tap";
import { StringStartSearch } from "../../src/wire/text-start.ts";
import { gathered } from "../support/gathered.ts";

const start = new StringStartSearch("gs");
const among = (text: string, cut = text.length): boolean => {
  const bytes = Buffer.from(text);
  return start.mayOccurIn([bytes.subarray(0, cut), bytes.subarray(cut)]);
};

gathered(t, "a text that begins with the word is found in any case, however it is escaped and cut", async (t) => {
  for (const spelled of [
    "gs:",
    "GS:",
    "gS:",
    "\\u0067s:",
    "g\\u0073:",
    "gs\\u003a",
    "\\u0047\\u0053\\u003A",
    "G\\u0053:",
  ])
    for (const text of [`{"url":"${spelled}//b/o"}`, `["x", "${spelled}`]) {
      t.match((JSON.parse(`"${spelled}"`) as string).toLowerCase(), "gs:");
      for (let cut = 0; cut <= text.length; cut++) t.equal(among(text, cut), true, `${text} split at ${cut}`);
    }
});

t.test("text in the middle of a string, and other texts, are not searched", async (t) => {
  for (const text of [
    '{"url":"settings: on"}',
    '"its gs:"',
    '"caf\\u00e9 gs"',
    '"g"',
    "",
    '"go"',
    '"g"s',
    '{"a":"https://gs:80"}',
  ])
    t.equal(among(text), false, text);
});
