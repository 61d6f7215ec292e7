import t from "tap";
import { loadProtocols } from "../../../src/loader/discover.ts";
import { isTranslatable, type TranslatedProtocol } from "../../../src/translation/codec.ts";
import { FEATURES, type Feature, supportOf } from "../../../src/translation/features.ts";
import { fidelity, readmes, withSection } from "../../support/fidelity.ts";
import { other, tiny } from "../../support/tiny.ts";

t.test("the README of each protocol shows how its fields are translated into the others", async (t) => {
  for (const { name, is, section } of await readmes())
    t.ok(
      is.includes(`\n${section}\n<!-- /fidelity -->`),
      `${name}: write it with node --import ./src/loader/register.js test/support/fidelity.ts`,
    );
});

t.test("every protocol decides for every feature, and lists each of its own fields once", async (t) => {
  const all = (await loadProtocols()).filter(isTranslatable);
  t.ok(all.length >= 4);
  for (const { name, translation } of all) {
    const { support, fields } = translation.request;
    for (const feature of Object.keys(FEATURES) as Feature[])
      t.match(supportOf(support, feature).support, /^(?:mapped|dropped|refused|ignored)$/, `${name} ${feature}`);
    const names = fields.map(([field, feature]) => `${field} ${feature}`);
    t.equal(new Set(names).size, names.length, `${name} lists a field twice`);
  }
});

t.test(
  "a table has a row for each field and a column for each other protocol that requests are written in",
  async (t) => {
    const { support } = tiny.translation.request;
    const refusing = Object.fromEntries(Object.keys(support).map((feature) => [feature, "refused"])) as typeof support;
    const reader = {
      ...other,
      name: "reader",
      translation: { ...tiny.translation, request: { ...tiny.translation.request, support: refusing } },
    } as TranslatedProtocol;
    const table = fidelity(tiny, [tiny, other, reader]).split("\n").slice(-3);
    t.same(table, ["| field | other |", "| --- | --- |", "| seed | dropped |"]);
  },
);

t.test("notes are in their cells, on one line", async (t) => {
  const noted = {
    ...other,
    translation: {
      ...tiny.translation,
      request: {
        ...tiny.translation.request,
        support: { ...tiny.translation.request.support, seed: ["dropped", "it | has\nnone"] as const },
      },
    },
  } as TranslatedProtocol;
  t.match(fidelity(tiny, [tiny, noted]), /\| seed \| dropped: it \\\| has none \|$/);
});

t.test("only what is between the markers is generated", async (t) => {
  const readme = "# A\n\n<!-- fidelity -->\nold\n<!-- /fidelity -->\n\nend\n";
  t.equal(withSection(readme, "new"), "# A\n\n<!-- fidelity -->\nnew\n<!-- /fidelity -->\n\nend\n");
  t.throws(() => withSection("# A\n", "new"), /has no lines/);
});
