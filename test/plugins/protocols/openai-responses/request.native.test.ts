import t from "tap";
import { CLIENT_BODIES } from "../../../support/client-bodies.ts";
import { dice } from "../../../support/random-answers.ts";
import { wronged } from "../../../support/wrong-values.ts";
import { exactly, withUnheardOf } from "../unheard-of.ts";
import { INPUT, read, recordedRequests, written } from "./request.asking.ts";
import { ODD_REQUESTS } from "./request.odd.ts";

/** How often each request is spoilt. */
const TRIES = 10;

const recorded = recordedRequests();
const bodies: [name: string, text: string][] = [
  ...recorded.map(([name, body]): [string, string] => [name, JSON.stringify({ ...body, model: "any" })]),
  ["a coding agent's", CLIENT_BODIES["openai-responses"].body.replace('"model":"asked"', '"model":"any"')],
  ...ODD_REQUESTS.map((odd, i): [string, string] => [`odd ${i}`, JSON.stringify({ ...INPUT, ...odd })]),
];

const again = (text: string): string => written(read(text, { native: true })).text;

t.test("a request that is read and written again is the very same", async (t) => {
  for (const [name, text] of bodies) t.equal(exactly(again(text)), exactly(text), name);
});

t.test("items that add tools keep their place when one before them goes", async (t) => {
  const input = [
    { type: "reasoning", summary: [], encrypted_content: "gAAA" },
    { role: "user", content: "one" },
    { type: "additional_tools", tools: [{ type: "custom", name: "c" }] },
    { role: "user", content: "two" },
  ];
  const conversation = read(JSON.stringify({ ...INPUT, input }), { native: true });
  conversation.turns.shift();
  t.same(written(conversation).body["input"], input.slice(1));
});

t.test("so is one with members that nobody knows, of any kind, at every object", async (t) => {
  bodies.forEach(([name, text], seed) => {
    const cast = dice(seed);
    for (let n = 0; n < 3; n++) {
      const grown = withUnheardOf(text, cast);
      t.equal(exactly(again(grown)), exactly(grown), name);
    }
  });
});

t.test("so is one with wrong values, as far as it can be read at all: its vendor judges them", async (t) => {
  let same = 0;
  bodies.forEach(([name, text], n) => {
    const before = same;
    for (let seed = n; seed < n + TRIES; seed++) {
      const wrong = JSON.stringify({ ...(wronged(JSON.parse(text), dice(seed)) as object), model: "any" });
      try {
        t.equal(exactly(again(wrong)), exactly(wrong), name);
        same++;
      } catch (error) {
        t.match(error, { code: "invalid_field", param: /./ }, name);
      }
    }
    t.ok(same > before, `${name} could be read with some`);
  });
  // The odd ones are made of what is easily spoilt.
  if (recorded.length > 0) t.ok(same > (TRIES * bodies.length) / 2, `${same} could be read`);
});
