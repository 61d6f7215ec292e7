import t from "tap";
import { FEATURES, type Support, type SupportTable } from "../../src/translation/features.ts";
import { Losses } from "../../src/translation/losses.ts";

const support = (some: Partial<SupportTable>): SupportTable => ({
  ...(Object.fromEntries(
    Object.keys(FEATURES).map((feature) => [feature, "mapped" as Support]),
  ) as unknown as SupportTable),
  ...some,
});

t.test("mapped or ignored features leave no trace, dropped ones are listed once", async (t) => {
  const losses = new Losses("target", false);
  losses.applySupport(
    [
      { feature: "tools", path: "tools" },
      { feature: "cosmetic", path: "x" },
      { feature: "seed", path: "seed" },
      { feature: "seed", path: "seed" },
      { feature: "name", path: "messages.0.name" },
    ],
    support({ cosmetic: "ignored", seed: "dropped", name: ["dropped", "it has no names"] }),
  );
  t.same(losses.dropped, ["seed", "messages.0.name"]);
  t.same(losses.notices, []);
});

t.test("a refused feature is a 400 that names the client's field and the reason", async (t) => {
  const refused = { choices: ["refused", "one answer only"] } satisfies Partial<SupportTable>;
  t.throws(() => new Losses("target", false).applySupport([{ feature: "choices", path: "n" }], support(refused)), {
    code: "not_translatable",
    status: 400,
    param: "n",
    message: /^n: several answers cannot be expressed in target \(one answer only\)\. Remove the field/,
  });
});

t.test("the refusal has advice for the client", async (t) => {
  const uses = [{ feature: "stored_state", path: "input.0", hint: "Send the item." }] as const;
  for (const strict of [false, true])
    t.throws(() => new Losses("target", strict).applySupport(uses, support({ stored_state: "refused" })), {
      param: "input.0",
      message: /Send the item\.$/,
    });
});

t.test("a loss is a refusal in strict mode", async (t) => {
  const strict = new Losses("target", true);
  t.throws(() => strict.applySupport([{ feature: "seed", path: "seed" }], support({ seed: "dropped" })), {
    code: "not_translatable",
    param: "seed",
    message: /gateway-strict/,
  });
  t.throws(() => strict.drop("a.b", "no room"), { code: "not_translatable", param: "a.b" });
  t.throws(() => strict.change("effort", "max becomes high"), {
    code: "not_translatable",
    message: /^effort: max becomes high/,
  });
  t.same([strict.dropped, strict.notices], [[], []]);
});

t.test("a change is reported with its reason, and the number of notices is limited", async (t) => {
  const losses = new Losses("target", false);
  losses.change("effort", "max becomes high");
  losses.change("effort", "max becomes high");
  t.same(losses.notices, ["effort: max becomes high"]);
  for (let i = 0; i < 100; i++) losses.note(`${i}`);
  t.equal(losses.notices.length, 9);
  for (let i = 0; i < 100; i++) losses.change(`messages.${i}`, "as text of the user");
  t.equal(losses.notices.length, 17);
  losses.change("temperature", "as 1");
  t.equal(losses.notices.at(-1), "temperature: as 1", "every other change has a notice");
});

t.test("an encoder's own refusal names the field", async (t) => {
  t.throws(() => new Losses("target", false).refuse("temperature", "at most 1"), {
    code: "not_translatable",
    message: /^temperature: at most 1\./,
  });
});

t.test("many losses are listed as quickly as few: the first once each, further ones are counted", async (t) => {
  const losses = new Losses("target", false);
  const paths = Array.from({ length: 200_000 }, (_, n) => `messages.${n}.x`);
  for (const path of [...paths.slice(0, 500), ...paths.slice(0, 500), ...paths.slice(500)]) losses.drop(path, "why");
  t.equal(losses.dropped.length, paths.length);
  t.same(losses.dropped.slice(0, 1000), paths.slice(0, 1000));
});
