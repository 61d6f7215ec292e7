import t from "tap";
import { containsError, containsWord, mayContain } from "../../src/wire/may-contain.ts";
import { gathered } from "../support/gathered.ts";

const sees = (text: string, key = "usage"): boolean => mayContain(Buffer.from(text), key);

t.test("a key whose value is an object is found", async (t) => {
  t.ok(sees('data: {"usage":{"a":1}}'));
  t.ok(sees('{"usage" \n:\t {'));
  t.ok(sees('"usage":{'));
  t.ok(sees('{"usage":null,"x":{"usage":{}}}'), "also after a first one that does not match");
  t.ok(sees('""usage":{'));
  t.ok(sees('"usagusage""usage":{'));
});

t.test("it is found at every position", async (t) => {
  for (let before = 0; before < 40; before++) t.ok(sees(`${'usage"'.repeat(7).slice(0, before)}"usage":{`));
});

t.test("an absent key is not found", async (t) => {
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

t.test("any of several members is found at every position, as each alone", async (t) => {
  const members = ["usage", "url_citation", "us"];
  const names = ['"usage"', '"url_citation"', '"us"'];
  const parts = [...names, ...names.map((name) => `${name}:`), ":{", '"', "usage", "tation", ":", " ", "{", "null,"];
  let seed = 1;
  const next = (count: number) => {
    seed = (seed * 48_271) % 2_147_483_647;
    return seed % count;
  };
  const found = [0, 0];
  for (let n = 0; n < 5000; n++) {
    const text = Array.from({ length: 1 + next(12) }, () => parts[next(parts.length)]).join("");
    const alone = /"(?:usage|url_citation|us)"\s*:\s*\{/.test(text);
    if (mayContain(Buffer.from(text), members) !== alone) t.fail(text);
    found[Number(alone)] = (found[Number(alone)] ?? 0) + 1;
  }
  t.ok(found.every((count) => count > 100));
  t.ok(mayContain(Buffer.from('"usage":"'), members, '"'.charCodeAt(0)));
  t.notOk(mayContain(Buffer.from('"usage":{'), []));
});

gathered(t, "an error in any case is found at every position, and in long bytes in the usual cases", async (t) => {
  const holds = (text: string) => containsError(Buffer.from(text));
  for (const filler of ["x", "Erro", "RRORE"])
    for (let before = 0; before < 40; before++)
      for (const end of ["", "E", "eRRo", "eRRoR", "ERROR", "Error", "error", "ERR\x0fR"])
        for (const rest of ["", "e".repeat(5000)]) {
          const text = filler.repeat(40).slice(0, before) + end;
          if (rest !== "" && end === "eRRoR") continue;
          t.equal(holds(text + rest), /error/i.test(text), text);
        }
});

gathered(t, "a word is found at every position, in short and long bytes, and not where it is absent", async (t) => {
  const holds = (text: string) => containsWord(Buffer.from(text), "error");
  for (const filler of ["x", "erro", "rrore"])
    for (let before = 0; before < 40; before++)
      for (const end of ["", "e", "erro", "error", `error${"e".repeat(5000)}`, "e".repeat(5000)]) {
        const text = filler.repeat(40).slice(0, before) + end;
        t.equal(holds(text), text.includes("error"), text.slice(0, 60));
      }
});
