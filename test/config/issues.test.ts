import t from "tap";
import { z } from "zod";
import { explainIssues } from "../../src/config/issues.ts";
import type { ConfigPath } from "../../src/config/problems.ts";

const Part = z.strictObject({
  url: z.string(),
  speaks: z.array(z.string()).default([]),
  weight: z.number().optional(),
});
const Schema = z
  .strictObject({
    parts: z.record(z.string().regex(/^[a-z]+$/, { error: "not a name" }), Part).optional(),
    kind: z.enum(["info", "error"]).optional(),
    each: z.array(z.union([z.string(), Part])).optional(),
    on: z.boolean().optional(),
    credential: z.string().optional(),
  })
  .prefault({});

/** What is said, as `path message`; `!` marks a place at the name. */
function said(values: unknown, base: ConfigPath = []): string[] {
  const read = Schema.safeParse(values);
  return explainIssues(read.error?.issues ?? [], Schema, values, base).map(
    ({ path, key, message }) => `${path.join(".")}${key ? "!" : ""} ${message}`,
  );
}

t.test("an unknown key is reported with a similar one, or with those that exist", async (t) => {
  t.same(said({ kinds: "info" }), ['kinds! unknown key "kinds", did you mean "kind"?']);
  t.same(said({ zzz: 1 }), ['zzz! unknown key "zzz"; known: parts, kind, each, on, credential']);
  t.same(said({ constructor: 1 }), [
    'constructor! unknown key "constructor"; known: parts, kind, each, on, credential',
  ]);
  t.same(said({ parts: { a: { url: "x", wieght: 1 } } }), [
    'parts.a.wieght! unknown key "wieght", did you mean "weight"?',
  ]);
});

t.test("a missing key and its misspelt form are one finding", async (t) => {
  t.same(said({ parts: { a: { ulr: "x" } } }), ['parts.a.ulr! unknown key "ulr", did you mean "url"?']);
  t.same(said({ parts: { a: { base_address: "x" } } }), [
    'parts.a.base_address! unknown key "base_address", did you mean "url"?',
  ]);
  t.same(said({ parts: { a: {} } }), ['parts.a! "url" is missing']);
  t.same(said({ parts: { a: { speks: [] } } }), [
    'parts.a.speks! unknown key "speks", did you mean "speaks"?',
    'parts.a! "url" is missing',
  ]);
});

t.test("a key that exists already is not suggested", async (t) => {
  t.same(said({ parts: { a: { url: "x", urls: "y" } } }), [
    'parts.a.urls! unknown key "urls"; known: url, speaks, weight',
  ]);
});

t.test("a name from other gateways is reported with ours", async (t) => {
  const told = (name: string) => said({ parts: { a: { url: "x", [name]: "y" } } }).join();
  const schema = z.strictObject({ url: z.string().optional(), credential: z.string().optional() });
  for (const [name, ours] of [
    ["api_key", "credential"],
    ["apiKey", "credential"],
    ["key", "credential"],
    ["base_url", "url"],
    ["baseURL", "url"],
    ["api_base", "url"],
    ["endpoint", "url"],
  ] as const) {
    const values = { [name]: "x" };
    const [found] = explainIssues(schema.safeParse(values).error?.issues ?? [], schema, values);
    t.equal(found?.message, `unknown key "${name}", did you mean "${ours}"?`);
  }
  t.match(told("base_url"), /; known: /, "where that is a valid key it is not suggested");
});

t.test("a missing space after a colon is detected", async (t) => {
  t.same(said({ parts: { a: { "url:x": null } } }), ['parts.a.url:x! a space is missing after "url:"']);
});

t.test("a value of the wrong type is reported with the right one and a remedy", async (t) => {
  t.same(said({ parts: { a: { url: 5 } } }), ['parts.a.url expected text, found the number 5; put it in quotes: "5"']);
  t.same(said({ parts: { a: { url: "x", speaks: "y" } } }), [
    'parts.a.speaks expected a list, found the text "y"; write [y]',
  ]);
  t.same(said({ parts: { a: { url: "x", weight: "5" } } }), [
    'parts.a.weight expected a number, found the text "5"; write it without quotes',
  ]);
  t.same(said({ on: "yes" }), ['on expected true or false, found the text "yes"; write true']);
  t.same(said({ parts: [] }), ["parts expected a map, found a list; write { NAME: … }"]);
  t.same(said({ parts: { a: null } }), ["parts.a expected a map, found nothing; write { url: … }"]);
  t.match(said([]), [/^ expected a map, found a list; write \{ parts: … }, or with kind, each/]);
  for (const [weight, remedy] of [
    ["90%", "90"],
    ["$2", "2"],
    ["2 USD", "2"],
    ["many", "digits, like 2"],
    ["$WEIGHT", "digits, like 2"],
  ] as const)
    t.match(said({ parts: { a: { url: "x", weight } } }), [new RegExp(`found the text .*; write ${remedy}$`)]);
});

t.test("an unknown value is reported with the nearest possible one", async (t) => {
  t.same(said({ kind: "inof" }), ['kind unknown value "inof", did you mean "info"?']);
  t.same(said({ kind: 5 }), ["kind expected one of info, error, found the number 5"]);
});

t.test("for a union the intended branch is explained", async (t) => {
  t.same(said({ each: [{ url: "x", wieght: 2 }] }), ['each.0.wieght! unknown key "wieght", did you mean "weight"?']);
  t.same(said({ each: [{}] }), ['each.0! "url" is missing']);
  t.same(said({ each: [5] }), ["each.0 expected something else, found the number 5"]);
});

t.test("a wrong name in a map is reported at the name", async (t) => {
  t.same(said({ parts: { "A b": { url: "x" } } }), ["parts.A b! not a name"]);
});

t.test("a secret is never repeated", async (t) => {
  t.same(said({ credential: [] }), ["credential expected text, found a list"]);
  t.same(said({ credential: 1234 }), ['credential expected text, found a number; put it in quotes: "…"']);
});

t.test("positions are those of the values in the file", async (t) => {
  t.same(said({ on: 5 }, ["plugins", "mine"]), ["plugins.mine.on expected true or false, found the number 5"]);
});

t.test("a bound is explained in words, and a schema's own message is kept", async (t) => {
  const schema = z.strictObject({
    ping: z.number().min(1).max(9).optional(),
    whole: z.int().max(9).optional(),
    above: z.number().positive().optional(),
    text: z.string().min(2).max(3).optional(),
    list: z.array(z.string()).min(1).optional(),
    own: z.number().min(1, { error: "one at least" }).optional(),
  });
  for (const [values, message] of [
    [{ ping: 0 }, "must be 1 or more"],
    [{ ping: 10 }, "must be at most 9"],
    [{ whole: 10 }, "must be at most 9"],
    [{ above: 0 }, "must be more than 0"],
    [{ text: "a" }, "must have 2 or more characters"],
    [{ text: "abcd" }, "must have at most 3 characters"],
    [{ list: [] }, "must have 1 or more entries"],
    [{ own: 0 }, "one at least"],
  ] as const) {
    const found = explainIssues(schema.safeParse(values).error?.issues ?? [], schema, values);
    t.same(
      found.map(({ message }) => message),
      [message],
    );
  }
});
