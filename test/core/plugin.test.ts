import t from "tap";
import { Options, PHASES } from "../../src/core/plugin.ts";

t.test("the phases stand in the order an exchange passes them", async (t) => {
  t.same(PHASES, ["access", "request", "route", "send", "failed", "response", "done"]);
  t.type(Options, "symbol");
});
