import t from "tap";
import type { Limits } from "../../src/core/limit-kinds.ts";
import { budgetPeriods, groupAndParents, Levels, limitScope } from "../../src/core/limits.ts";

const of = (entries: Record<string, Limits>) => new Map(Object.entries(entries));
const caller = (id: string, group?: string) => ({ id, name: id, ...(group === undefined ? {} : { group }) });
const scopes = (levels: readonly { scope: string }[]) => levels.map(({ scope }) => scope);

t.test("a group includes its parents", async (t) => {
  t.same(groupAndParents("acme/research/alice"), ["acme/research/alice", "acme/research", "acme"]);
  t.same(groupAndParents("acme"), ["acme"]);
  t.equal(limitScope("group", "acme"), "group:acme");
  t.equal(limitScope("all", ""), "all");
});

t.test("the levels of a caller are its key, its groups from the innermost on, all, and the model", async (t) => {
  const levels = new Levels({
    all: { rpm: 9 },
    groups: of({ acme: { rpm: 3 }, "acme/research": { tpm: 4 }, other: { rpm: 1 } }),
    models: of({ m: { rpm: 5 } }),
    providers: of({ p: { concurrency: 6 } }),
    keys: of({ ci: { rpm: 1 } }),
  });
  const own = ["key:ci", "group:acme/research", "group:acme", "all"];
  t.same(scopes(levels.forRequest(caller("ci", "acme/research"))), own);
  t.same(scopes(levels.forRequest(caller("ci", "acme/research"), "m")), [...own, "model:m"]);
  t.equal(
    levels.forRequest(caller("ci", "acme/research"), "m"),
    levels.forRequest(caller("ci", "acme/research"), "m"),
    "made once",
  );
  t.same(scopes(levels.forRequest(caller("ci", "other"), "n")), ["key:ci", "group:other", "all"], "it has moved");
  t.same(scopes(levels.forRequest(caller("x"))), ["all"]);
  t.equal(levels.model("m")?.scope, "model:m");
  t.equal(levels.provider("p")?.limits.concurrency, 6);
  t.equal(levels.provider("q"), undefined);
});

t.test("a request's cost counts for its key, groups and all, its model and provider, limited or not", async (t) => {
  const levels = new Levels({ all: { rpm: 1 } });
  t.same(levels.scopes(caller("k", "acme/research"), "m", "p"), [
    "key:k",
    "group:acme/research",
    "group:acme",
    "all",
    "model:m",
    "provider:p",
  ]);
  t.same(levels.scopes(undefined, "", "p"), ["key:", "all", "model:", "provider:p"]);
});

t.test("a key has the default limits unless it sets its own, and off removes one", async (t) => {
  const budgets = [{ nano: 1, per: "day" as const, soft: false }];
  const levels = new Levels({
    default: { rpm: 5, tpm: 6, budgets },
    keys: of({ ci: { rpm: 0, budgets: [] }, none: { rpm: 0, tpm: 0, budgets: [] } }),
  });
  t.match(levels.forRequest(caller("x")), [
    { kind: "key", name: "x", limits: { rpm: 5, tpm: 6, concurrency: 0, budgets } },
  ]);
  t.match(levels.forRequest(caller("ci")), [{ limits: { rpm: 0, tpm: 6, budgets: { length: 0 } } }]);
  t.same(levels.forRequest(caller("none")), [], "no level is left");
  t.match(
    levels.forRequest(undefined),
    [{ kind: "key", name: "", limits: { rpm: 5 } }],
    "so have all without a key, together",
  );
});

t.test("a key's own limits take precedence over gateway.yaml, and changes apply at once", async (t) => {
  const levels = new Levels({ default: { rpm: 5, tpm: 6 } });
  const given = (limits: Limits) => ({ ...caller("x"), limits });
  const first = given({ rpm: 7, concurrency: 1 });
  t.match(levels.forRequest(first), [{ kind: "key", scope: "key:x", limits: { rpm: 7, tpm: 6, concurrency: 1 } }]);
  t.equal(levels.forRequest(first), levels.forRequest(first), "cached for each request");
  t.match(levels.forRequest(given({ tpm: 0 })), [{ limits: { rpm: 5, tpm: 0, concurrency: 0 } }]);
  t.same(levels.forRequest(given({ rpm: 0, tpm: 0 })), []);
  t.match(levels.forRequest(caller("x")), [{ limits: { rpm: 5, tpm: 6 } }]);
});

t.test("without limits there are no levels", async (t) => {
  t.same(new Levels().forRequest(caller("x", "acme"), "m"), []);
});

t.test("on pass paths tokens and hard budgets cannot be measured; rates and soft budgets do not matter", async (t) => {
  const budget = (soft: boolean): Limits => ({ budgets: [{ nano: 1, per: "day", soft }] });
  const levels = new Levels({
    groups: of({ rates: { rpm: 1, concurrency: 1 }, soft: budget(true), hard: budget(false), tokens: { tpm: 1 } }),
    providers: of({ p: budget(false) }),
  });
  t.equal(levels.unmeasured(caller("a", "rates"), "q"), undefined);
  t.equal(levels.unmeasured(caller("b", "soft"), "q"), undefined);
  t.equal(levels.unmeasured(caller("c", "hard/part"), "q")?.scope, "group:hard");
  t.equal(levels.unmeasured(caller("d", "tokens"), "q")?.scope, "group:tokens");
  t.equal(levels.unmeasured(undefined, "p")?.scope, "provider:p");
});

t.test("the periods of budgets are found at every level of a gateway.yaml, once each", async (t) => {
  const budget = (per: "day" | "month" | "total") => ({ budgets: [{ nano: 1, per, soft: false }] });
  t.same([...budgetPeriods({})], []);
  const table = {
    default: budget("day"),
    all: { rpm: 1 },
    groups: new Map([["g", budget("month")]]),
    keys: new Map([["k", budget("day")]]),
  };
  t.same([...budgetPeriods(table)], ["day", "month"]);
});

t.test("a key's level has its id for counting, and its name for people", async (t) => {
  const levels = new Levels({ default: { rpm: 5 } });
  t.match(levels.forRequest({ id: "k_1", name: "ci" }), [{ name: "k_1", label: "ci", scope: "key:k_1" }]);
  t.match(
    levels.forRequest({ id: "k_1", name: "build" }),
    [{ name: "k_1", label: "build" }],
    "it has another name now",
  );
});

t.test("a report on very many callers does not displace the levels of requests", async (t) => {
  const levels = new Levels({ default: { rpm: 1 } });
  const busy = levels.forRequest(caller("busy"));
  for (let n = 0; n < 10_001; n++) levels.forReport(caller(String(n)));
  t.equal(levels.forRequest(caller("busy")), busy);
  t.same(levels.forReport(caller("busy")), busy);
});

t.test("the levels of the callers that were seen last are kept, however many there are", async (t) => {
  const levels = new Levels({ default: { rpm: 1 } });
  const first = levels.forRequest(caller("first"));
  for (let i = 1; i < 10_000; i++) levels.forRequest(caller(`c${i}`));
  t.equal(levels.forRequest(caller("first")), first);
  levels.forRequest(caller("one more"));
  const again = levels.forRequest(caller("first"));
  t.not(again, first);
  t.same(again, first);
});
