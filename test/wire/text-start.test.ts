import t from "tap";
import { Scanner } from "../../src/wire/json.ts";
import { StringStartSearch } from "../../src/wire/text-start.ts";
import { gathered } from "../support/gathered.ts";

const start = new StringStartSearch("gs");
const among = (text: string, cut = text.length): boolean => {
  const bytes = Buffer.from(text);
  return start.mayOccurIn([bytes.subarray(0, cut), bytes.subarray(cut)]);
};

const passed = (text: string, length: number): boolean => {
  const scanner = new Scanner();
  const bytes = Buffer.from(text);
  for (let at = 0; at < bytes.length; at += length) scanner.push(bytes.subarray(at, at + length));
  return start.mayMatch(scanner.end());
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
    for (const text of [`{"url":"${spelled}//b/o"}`, `["x", "${spelled}"]`, `["${spelled}${"x".repeat(300)}"]`]) {
      t.match((JSON.parse(`"${spelled}"`) as string).toLowerCase(), "gs:");
      for (let cut = 0; cut <= text.length; cut++) t.equal(among(text, cut), true, `${text} split at ${cut}`);
      for (let length = 1; length <= text.length + 10; length++)
        t.equal(passed(`{"a":[1, ${text}]}`, length), true, `${text} scanned in pieces of ${length}`);
    }
});

t.test("text in the middle of a string, and other texts, are not searched", async (t) => {
  for (const text of [
    '{"url":"settings: on"}',
    '"its gs:"',
    '"caf\\u00e9 gs"',
    '"g"',
    "",
    '""',
    '"go"',
    '"g"s',
    '{"a":"https://gs:80"}',
    `{"a":"${"gs ".repeat(20).slice(1)}"}`,
  ])
    t.equal(among(text), false, text);
});

gathered(t, "a scan knows that no value begins with the word, wherever pieces cut it", async (t) => {
  for (const text of ['{"gs":"go"}', '["g","","s","x gs:","sG"]', `["data:image/png;base64,${"gs".repeat(200)}"]`])
    for (let length = 1; length <= text.length; length++)
      t.equal(passed(`{"gs":"gs://", "a":[1, ${text}]}`, length), false, `${text} scanned in pieces of ${length}`);
});
