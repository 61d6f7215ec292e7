import t from "tap";
import { Calls } from "../../../../plugins/protocols/gemini/request.calls.ts";
import { refusal } from "./request.asked.ts";

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
  t.same([calls.result("f", "f", "at"), calls.result("f", "f", "at")], made);
});

t.test("results find their calls by id, by name and order, and in the latest step first", async (t) => {
  const calls = new Calls(new Set(["x"]));
  calls.turn("assistant");
  const old = calls.call("f", undefined);
  calls.turn("user");
  calls.turn("assistant");
  const [first, other, second] = [calls.call("f", undefined), calls.call("g", "x"), calls.call("f", undefined)];
  calls.turn("user");
  t.equal(calls.result("g", "x", "at"), other);
  t.equal(calls.result("f", undefined, "at"), first);
  t.equal(calls.result("f", "an id of its own", "at"), second);
  t.equal(calls.result("f", undefined, "at"), old);
});

t.test("a result without a call is refused where it stands", async (t) => {
  const calls = new Calls(new Set());
  calls.call("f", undefined);
  calls.result("f", undefined, "here");
  const refused = refusal(() => calls.result("f", undefined, "contents.3.parts.0.functionResponse"));
  t.match(refused, { param: "contents.3.parts.0.functionResponse", code: "invalid_field", message: /result of f/ });
});
