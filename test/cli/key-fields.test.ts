import t from "tap";
import { checkOptionsNotEmpty, parseKeyFields } from "../../src/cli/key-fields.ts";

const MODELS = ["fast", "smart"];

t.test("an omitted option is absent, and an empty text is null", async (t) => {
  t.same(parseKeyFields({}, MODELS), {});
  t.same(parseKeyFields({ group: "", models: "", paths: "", addresses: "", owner: "", expires: "" }, MODELS), {
    group: null,
    models: null,
    paths: null,
    addresses: null,
    owner: null,
    expires: null,
  });
  t.same(parseKeyFields({ expires: "never" }, MODELS), { expires: null });
});

t.test("lists are separated by commas, and tags are added to existing ones", async (t) => {
  t.same(parseKeyFields({ models: "fast, s*", paths: "/v1/*,/x", addresses: "10.0.0.0/8 , ::1" }, MODELS), {
    models: ["fast", "s*"],
    paths: ["/v1/*", "/x"],
    addresses: ["10.0.0.0/8", "::1"],
  });
  t.same(parseKeyFields({ tag: ["a=1", "b=x=y", "c="] }, [], { tags: { c: "3", d: "4" } }), {
    tags: { d: "4", a: "1", b: "x=y" },
  });
  t.same(parseKeyFields({ tag: ["c="] }, [], { tags: { c: "3" } }), { tags: null });
});

t.test("an impossible value is refused with the possible ones", async (t) => {
  const cases: [object, RegExp][] = [
    [{ group: "a//b" }, /--group takes a path like acme\/research/],
    [{ owner: "a\nb" }, /--owner takes 1 to 100/],
    [{ paths: "/a b" }, /--paths: \/a b is not a path/],
    [{ addresses: "x" }, /--addresses: "x" is no address/],
    [{ tag: ["a=1", "b=2", "a=3"] }, /--tag a is given twice/],
    [{ tag: ["=x"] }, /--tag takes NAME=VALUE/],
    [{ tag: ["a=\u0007"] }, /--tag takes NAME=VALUE/],
    [{ models: ",fast" }, /--models takes a list separated by commas/],
    [{ expires: "2001-01-01" }, /has passed/],
  ];
  for (const [options, why] of cases) t.throws(() => parseKeyFields(options, MODELS), why, JSON.stringify(options));
  t.throws(() => parseKeyFields({ models: "fsat" }, MODELS), /did you mean "fast"/);
  t.throws(() => parseKeyFields({ models: "x*" }, MODELS), /no model matches x\*/);
});

t.test("no option of a new key may be empty: the key would not be limited by it", async (t) => {
  for (const name of ["models", "paths", "addresses", "group", "owner", "expires"])
    t.throws(() => checkOptionsNotEmpty({ [name]: "" }), new RegExp(`--${name} is empty`));
  t.doesNotThrow(() => checkOptionsNotEmpty({ models: "fast", tag: ["a=1"] }));
});

t.test("limits are added to existing ones, and accept only what is enforced", async (t) => {
  const month = { nano: 10e9, per: "month", soft: false };
  t.same(parseKeyFields({ rpm: "300", tpm: "400k", concurrency: "off", budget: ["$10/month", "$8/month soft"] }, []), {
    limits: { rpm: 300, tpm: 400_000, concurrency: 0, budgets: [month, { ...month, nano: 8e9, soft: true }] },
  });
  t.same(parseKeyFields({ rpm: "5" }, [], { limits: { rpm: 1, tpm: 7 } }), { limits: { rpm: 5, tpm: 7 } });
  t.throws(() => parseKeyFields({ rpm: "0" }, []), {
    name: "Error",
    message: "--rpm: 0 would refuse every request; write 1 or more, or off.",
  });
});
