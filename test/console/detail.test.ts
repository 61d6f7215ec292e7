import t from "tap";

interface Line {
  what: string;
  from?: string;
  to?: string;
}

// Written for browsers, and without types.
const { linesOf }: { linesOf: (detail: object) => Line[] } = await import(
  new URL("../../pages/console/detail.js", import.meta.url).href
);
const told = (detail: object) => linesOf(detail).map(({ what, from, to }) => [what, from, to]);

t.test("each change has a line, with the previous value if known", async (t) => {
  const budget = { nano: 5e9, per: "day", soft: false };
  const was = { owner: null, models: ["echo"], limits: { rpm: 2, tpm: 100, budgets: [budget] } };
  const detail = { owner: "alice", models: null, limits: { rpm: 5, tpm: 100, budgets: [{ ...budget, soft: true }] } };
  t.same(told({ ...detail, was }), [
    ["owner", undefined, "alice"],
    ["models", "echo", undefined],
    ["limits rpm", "2", "5"],
    ["limits budgets", "$5.00 a day", "$5.00 a day, only warns"],
  ]);
  t.same(told({ limits: null, was: { limits: { rpm: 2 } } }), [["limits rpm", "2", undefined]]);
  t.same(told({ limits: { rpm: 2 }, was: { limits: null } }), [["limits rpm", undefined, "2"]]);
});

t.test("created objects and actions show their details, and entries of older gateways what they contain", async (t) => {
  t.same(told({}), []);
  t.same(told({ group: "acme", tags: { team: "ads" }, models: ["a", "b"] }), [
    ["group", undefined, "acme"],
    ["tags team", undefined, "ads"],
    ["models", undefined, "a, b"],
  ]);
  t.same(told({ generation: 4, changes: ["drain"], restart: [] }), [
    ["generation", undefined, "4"],
    ["changes", undefined, "drain"],
    ["restart", undefined, "none"],
  ]);
  t.same(told({ expires: Date.UTC(2027, 5, 15, 9) }), [["expires", undefined, "2027-06-15 09:00 UTC"]]);
});

t.test("each setting that a reload has changed has a line, with its old and new value", async (t) => {
  const changes = [
    { path: "drain", before: "600s", after: "8s" },
    { path: "models.a", before: "x" },
  ];
  t.same(told({ generation: 4, changes }), [
    ["generation", undefined, "4"],
    ["drain", "600s", "8s"],
    ["models.a", "x", undefined],
  ]);
});
