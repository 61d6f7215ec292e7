import t from "tap";
import { Calls } from "../../../../plugins/protocols/gemini/request.calls.ts";

t.test("calls without ids get ones that no other call has, the same each time", async (t) => {
  const ids = () => {
    const calls = new Calls(new Set(["call_1"]));
    return [calls.call("f", undefined), calls.call("f", "call_1"), calls.call("f", undefined)];
  };
  t.same(ids(), ["call_0", "call_1", "call_2"]);
  t.same(ids(), ids());
});

t.test("an id that two calls have is one call's, and results find their calls in order", async (t) => {
  const calls = new Calls(new Set(["f"]));
  const made = [calls.call("f", "f"), calls.call("f", "f")];
  t.equal(new Set(made).size, 2);
  t.same([calls.result("f", "f"), calls.result("f", "f")], made);
});

t.test("results find their calls by id, by name and order, and in the latest step first", async (t) => {
  const calls = new Calls(new Set(["x"]));
  calls.turn("assistant");
  const old = calls.call("f", undefined);
  calls.turn("user");
  calls.turn("assistant");
  const [first, other, second] = [calls.call("f", undefined), calls.call("g", "x"), calls.call("f", undefined)];
  calls.turn("user");
  t.equal(calls.result("g", "x"), other);
  t.equal(calls.result("f", undefined), first);
  t.equal(calls.result("f", "an id of its own"), second);
  t.equal(calls.result("f", undefined), old);
});

t.test("each call has one result", async (t) => {
  const calls = new Calls(new Set());
  const id = calls.call("f", undefined);
  t.equal(calls.result("f", undefined), id);
  t.equal(calls.result("f", undefined), undefined);
});
