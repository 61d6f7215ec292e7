import t from "tap";
import { Options, PHASES } from "../../src/core/plugin.ts";

t.test("the phases are listed in the order in which an exchange passes them", async (t) => {
  t.same(PHASES, ["access", "request", "route", "send", "failed", "response", "done"]);
  t.type(Options, "symbol");
});
