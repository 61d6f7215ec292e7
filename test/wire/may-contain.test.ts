import t from "tap";
import { mayContain } from "../../src/wire/json.ts";

const sees = (text: string, key = "usage"): boolean => mayContain(Buffer.from(text), key);

t.test("sees a key whose value is an object", async (t) => {
  t.ok(sees('data: {"usage":{"a":1}}'));
  t.ok(sees('{"usage" \n:\t {'));
  t.ok(sees('"usage":{'));
  t.ok(sees('{"usage":null,"x":{"usage":{}}}'), "also behind a first one that is none");
  t.ok(sees('""usage":{'));
  t.ok(sees('"usagusage""usage":{'));
});

t.test("sees it at every place", async (t) => {
  for (let before = 0; before < 40; before++) t.ok(sees(`${'usage"'.repeat(7).slice(0, before)}"usage":{`));
});

t.test("does not see what is not there", async (t) => {
  for (const text of [
    "",
    '"usage"',
    '"usage":',
    '"usage":null',
    '"usage":[{',
    '"usages":{',
    "usage:{",
    '\\"usage\\":{',
    '"Usage":{',
  ])
    t.notOk(sees(text), text);
  t.notOk(sees('"usage":{', "us"));
  t.ok(sees('"usageMetadata" : {', "usageMetadata"));
});
