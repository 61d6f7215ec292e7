import t from "tap";
import { vendorObjects as gemini } from "../../plugins/protocols/gemini/objects.ts";
import { vendorObjects as openai } from "../../plugins/protocols/openai/objects.ts";
import type { VendorObjects } from "../../src/core/object-members.ts";
import { bodyReferenceFinder } from "../../src/objects/body-reference-finder.ts";
import { ReferenceFinder } from "../../src/objects/reference-finder.ts";
import { runLinear } from "../support/linear-work.ts";

/** What a body of JSON names, in pieces of some bytes. */
function named({ bodyMembers }: VendorObjects, json: string, step: number) {
  const body = bodyReferenceFinder("application/json", [new ReferenceFinder(bodyMembers)], 100_000);
  const bytes = Buffer.from(json);
  const pieces = Array.from({ length: Math.ceil(bytes.length / step) }, (_, i) =>
    bytes.subarray(i * step, (i + 1) * step),
  );
  return [...pieces.flatMap((piece) => body.push(piece)), ...body.end()];
}

t.test("a name is found however it is written, and however its body is cut", async (t) => {
  for (const text of [
    "files/a",
    "files\\/a",
    "files\\u002Fa",
    "\\u0066iles/a",
    "f\\u0069les/a",
    "https://generativelanguage.googleapis.com/v1/files/a",
    "hTTps:\\/\\/generativelanguage.googleapis.com\\/v1\\/files\\/a",
    " https://generativelanguage.googleapis.com/v1/files/a",
    "\\n\\t Https://generativelanguage.googleapis.com/v1/files/a",
    "\\/\\/generativelanguage.googleapis.com/v1/files/a",
  ])
    for (const step of [1, 2, 3, 7, 1000])
      t.match(
        named(gemini, `{"x":[{"y":"${text}"}]}`, step),
        [{ id: "a", param: "x.0.y" }],
        `${text} in pieces of ${step}`,
      );
});

t.test("a body without such a string is not parsed", async (t) => {
  const body = `{"x":[${'{"text":"Some words, \\u003cb> and files/a.","y":[]},'.repeat(60_000)}{}]}`;
  const finder = bodyReferenceFinder("application/json", [new ReferenceFinder(gemini.bodyMembers)], 10_000_000);
  // It has more names than a body that is parsed may have.
  t.same(finder.push(Buffer.from(body)), []);
});

t.test(
  "an id in a member that is not listed is refused where another key made it, as it may be the client's own",
  async (t) => {
    const found = named(openai, '{"x":[{"new_thing_id":"file-1","other_ids":["vs_1"]}]}', 1000);
    t.match(found, [
      { id: "file-1", param: "x.0.new_thing_id", mayBeInvented: true },
      { id: "vs_1", param: "x.0.other_ids.0", mayBeInvented: true },
    ]);
    for (const body of ['{"x":[{"call_id":"call_1"}]}', '{"x":[{"note":"file-1"}]}', '{"metadata":{"x_id":"file-1"}}'])
      t.same(named(openai, body, 1000), [], body);
    t.match(named(openai, '{"e":{"environment_template_id":"x_1"}}', 1000), [{ id: "x_1" }]);
  },
);

t.test("the time for many strings below a long name grows no faster than their number", async (t) => {
  const strings = Array.from({ length: 400_000 }, () => "a");
  for (const { bodyMembers } of [gemini, openai]) {
    const finder = new ReferenceFinder(bodyMembers);
    t.doesNotThrow(() => runLinear(() => finder.findInJson({ ["N".repeat(1_000_000)]: strings })));
  }
  t.match(new ReferenceFinder(openai.bodyMembers).findInJson({ [`${"x".repeat(100)}_id`]: ["file-1"] }), [
    { id: "file-1" },
  ]);
});
