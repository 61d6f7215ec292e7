import t from "tap";
import type { Tool } from "../../src/translation/conversation.ts";
import { ToolNames } from "../../src/translation/names.ts";

const NARROW = "a-zA-Z0-9_-";

t.test("a name that fits stays, and maps back to itself", async (t) => {
  const names = new ToolNames();
  t.equal(names.fitTool({ name: "get_weather" }, NARROW, 64), "get_weather");
  t.equal(names.original("get_weather").name, "get_weather");
  t.equal(names.original("never_seen").name, "never_seen");
});

t.test("a name that does not fit becomes one that does, the same each time, and maps back", async (t) => {
  for (const name of ["mcp.files/read", "näme", "🙂", "a".repeat(80), "", "x y"]) {
    const names = new ToolNames();
    const fit = names.fitTool({ name }, NARROW, 64);
    t.match(fit, /^[a-zA-Z0-9_-]{1,64}$/, name);
    t.equal(names.fitTool({ name }, NARROW, 64), fit);
    t.equal(new ToolNames().fitTool({ name }, NARROW, 64), fit, "in every request");
    t.equal(names.original(fit).name, name);
  }
});

t.test("two names never become one", async (t) => {
  const names = new ToolNames();
  const wanted = ["a.b", "a/b", "a b", "a_b", `${"long".repeat(20)}1`, `${"long".repeat(20)}2`];
  const fitted = wanted.map((name) => names.fitTool({ name }, NARROW, 64));
  t.equal(new Set(fitted).size, wanted.length);
  t.same(
    fitted.map((name) => names.original(name).name),
    wanted,
  );
});

t.test("a fitted name that is already in use is avoided", async (t) => {
  const names = new ToolNames();
  const taken = names.fitTool({ name: "a.b" }, NARROW, 64);
  const fit = names.fitTool({ name: taken }, NARROW, 64);
  t.not(fit, taken);
  t.same([names.original(taken).name, names.original(fit).name], ["a.b", taken]);
});

t.test(
  "a fitted name stands for its tool, in a namespace or of free text; any other is a plain function",
  async (t) => {
    const names = new ToolNames();
    const tools = [
      { name: "functions.exec" },
      { name: "exec", namespace: "functions", custom: true },
      { name: "exec", custom: true },
    ];
    t.same(
      tools.map((tool) => names.original(names.fitTool(tool, NARROW, 64))),
      tools,
    );
    t.equal(names.fitTool({ name: "1", namespace: "a" }, NARROW, 64), "a__1");
    t.same(names.original(names.fitTool({ name: "1" }, NARROW, 64, "_")), { name: "1" });
    t.same(names.original("other"), { name: "other" });
  },
);

t.test("names of arguments that do not fit become others, by tool, and none becomes another's", async (t) => {
  const names = new ToolNames();
  const own = ["$top", "_top", "a", "filter[id]", "", "x".repeat(80), "@@", "$@"];
  const members = names.fitMembers("f", own, NARROW, 64);
  t.equal(members?.fitted.get("filter[id]"), "filter_id_", "as like the client's as it can be");
  const fitted = own.map((name) => members?.fitted.get(name) ?? name);
  t.equal(new Set(fitted).size, own.length);
  for (const name of fitted) t.match(name, /^[a-zA-Z0-9_-]{1,64}$/);
  t.same(
    fitted.map((name) => members?.own.get(name) ?? name),
    own,
  );
  t.same(new ToolNames().fitMembers("f", own, NARROW, 64), members, "in every request");
  t.same(names.membersOf("f"), members);
  t.equal(names.fitMembers("g", ["a", "_top"], NARROW, 64), undefined);
  t.equal(names.membersOf("g"), undefined);
});

t.test("tools of several namespaces never have one name, whichever is named first", async (t) => {
  const tool = (name: string, namespace?: string): Tool => ({
    at: "tools.0",
    kind: "function",
    name,
    ...(namespace !== undefined && { namespace }),
  });
  const tools = [tool("b__c", "a"), tool("c", "a__b"), tool("y", "x"), tool("x__y")] as const;
  const qualified = tools.map((each) =>
    new ToolNames(tools).fitTool(each as { name: string; namespace?: string }, NARROW, 64),
  );
  t.match(qualified, ["a__b__c", /^a__b__c_[0-9a-f]{8}$/, /^x__y_[0-9a-f]{8}$/, "x__y"]);
  t.equal(new ToolNames([tool("c", "a__b")]).fitTool({ name: "c", namespace: "a__b" }, NARROW, 64), "a__b__c");
});
