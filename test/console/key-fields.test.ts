import t from "tap";

// Written for browsers, and without types.
const { fieldsOf }: { fieldsOf: (texts: object, before?: object) => object } = await import(
  new URL("../../pages/console/key-fields.js", import.meta.url).href
);

const EMPTY = {
  ...{ name: "ci", group: "", owner: "", tags: "", expires: "" },
  ...{ rpm: "", tpm: "", concurrency: "", budget: "", models: "", paths: "", addresses: "" },
};

t.test("a new key has the fields that are filled in", async (t) => {
  t.same(fieldsOf({ ...EMPTY, group: " acme ", models: "fast-*, smart", budget: "$50/month, $5/day", paths: " , " }), {
    ...{ name: "ci", group: "acme", models: ["fast-*", "smart"], budget: ["$50/month", "$5/day"] },
  });
  t.same(fieldsOf({ ...EMPTY, expires: "2027-12-31" }), { name: "ci", expires: Date.UTC(2027, 11, 31) });
});

t.test("a change of one field leaves the others as they are, which the form may show in part only", async (t) => {
  const before = { ...EMPTY, expires: "2027-12-31", tags: "team=new york", owner: "Ada" };
  t.same(fieldsOf({ ...before, rpm: "300" }, before), { rpm: "300" }, "it expires at the hour that was set");
  t.same(fieldsOf(before, before), {});
  t.same(fieldsOf({ ...before, owner: "", expires: "" }, before), { owner: null, expires: null }, "they are removed");
});

t.test("the values of tags may have spaces and =", async (t) => {
  t.match(fieldsOf({ ...EMPTY, tags: "team=new york, query=a=b" }), { tags: { team: "new york", query: "a=b" } });
});
