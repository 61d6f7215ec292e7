import t from "tap";
import { Body } from "../../src/core/body.ts";
import type { Protocol, TextKind } from "../../src/core/protocol.ts";
import { findMatch, replaceMatches, type SearchedRequest } from "../../src/core/text-search.ts";
import { SPEAKS_TEXT } from "../support/speaks-text.ts";

/** Characters that are searched in one turn. */
const STEP = 32 * 1024;
const HOME = { pattern: /\w{1,8}@home(?!\w)/, maxLength: 14 };

const requestOf = (...texts: object[]): Body => new Body([Buffer.from(JSON.stringify({ t: texts, n: 1 }))], "json");

const searched = (body: Body, protocol = SPEAKS_TEXT): SearchedRequest => ({ body, protocol, hasEnded: () => false });

async function replaced(asked: Body, kinds?: TextKind[]): Promise<string> {
  const match = kinds ? { ...HOME, kinds } : HOME;
  const edits = await replaceMatches(searched(asked), match, (found) => `"${found.length}"`);
  return asked.edited(edits).bytes().toString();
}

t.test("matches in texts of some kinds are replaced, also in JSON texts, and all other bytes are kept", async (t) => {
  const json =
    '{ "t": [ {"k":"system","d":"\\u0062ut me@home"} ,{"k":"user","d":"us@home, me@homes"}, {"k":"tool_call","j":true,"d":"{\\"me@home\\": \\"me@home\\",\\"n\\":1.0}"}], "n":1.0}';
  const asked = () => new Body([Buffer.from(json)], "json");
  t.equal(await replaced(asked(), ["user"]), json.replace("us@home,", '\\"7\\",'));
  t.equal(await replaced(asked(), ["assistant"]), json);
  t.equal(
    await replaced(asked(), ["tool_call"]),
    json.replace(': \\"me@home', ': \\"\\\\\\"7\\\\\\"'),
    "names of members are no texts",
  );
});

t.test("the result is that of the whole text, wherever a turn ends", async (t) => {
  const around = ["me@home", "me@homes", "longname@home", "xlongname@home", "me@home.", "a@home b@home", "𝒳@home"];
  for (const text of around)
    for (let offset = -text.length - 1; offset <= 1; offset++) {
      const long = `${" .".repeat(STEP).slice(0, STEP + offset)}${text}${" .".repeat(100)}`;
      const whole = long.replaceAll(new RegExp(HOME.pattern, "g"), (found) => `"${found.length}"`);
      const { t: texts } = JSON.parse(await replaced(requestOf({ k: "user", d: long })));
      if (texts[0].d !== whole) t.fail(`${text} at ${offset}`);
    }
  t.pass("in each place");
});

t.test("the first match is found, with the kind of its text", async (t) => {
  const asked = requestOf(
    { k: "system", d: "Be brief." },
    { k: "user", d: "me@home us@home" },
    { k: "user", d: "a@home" },
  );
  t.same(await findMatch(searched(asked), HOME), { kind: "user", text: "me@home" });
  t.equal(await findMatch(searched(asked), { ...HOME, kinds: ["system"] }), undefined);
  t.equal(await findMatch(searched(asked, {} as Protocol), HOME), undefined);
  const large = requestOf({ k: "user", d: `${" .".repeat(STEP)}me@home` });
  t.same(await findMatch(searched(large), HOME), { kind: "user", text: "me@home" });
});

t.test("a pattern that matches nothing, a kind that there is not, and a promise are errors", async (t) => {
  const asked = requestOf({ k: "user", d: "me@home" });
  await t.rejects(findMatch(searched(asked), { pattern: /x*/, maxLength: 9 }), { name: "SyntaxError" });
  await t.rejects(findMatch(searched(asked), { ...HOME, kinds: ["usr"] as never }), /no texts of the kind "usr"/);
  await t.rejects(
    replaceMatches(searched(asked), HOME, (async () => "") as never),
    /must return a string, and not a promise/,
  );
});

t.test("a search ends once nobody waits for its result", async (t) => {
  let found = 0;
  const body = requestOf({ k: "user", d: "me@home ".repeat(STEP) });
  const request = { ...searched(body), hasEnded: () => found > 0 };
  const count = (text: string) => {
    found++;
    return text;
  };
  await t.rejects(replaceMatches(request, HOME, count), { code: "client_gone" });
  t.ok(found < STEP / 4, `${found} of ${STEP}`);
  await t.rejects(findMatch(request, { ...HOME, pattern: /none/ }), { code: "client_gone" });
});
