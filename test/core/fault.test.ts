import t from "tap";
import { type ErrorNames, errorObject, statusFault } from "../../src/core/fault.ts";

t.test("an error object has a protocol's type, its code if it has one, else the gateway's", async (t) => {
  const type = new Proxy({}, { get: (_, kind) => `${String(kind)}_error` }) as ErrorNames["type"];
  const names: ErrorNames = { type, code: { rate_limit: "slow_down" } };
  t.same(errorObject({ status: 429, kind: "rate_limit", code: "ours", message: "Wait." }, names), {
    message: "Wait.",
    type: "rate_limit_error",
    param: null,
    code: "slow_down",
  });
  t.same(errorObject({ status: 400, kind: "invalid", code: "ours", message: "No.", param: "n" }, names), {
    message: "No.",
    type: "invalid_error",
    param: "n",
    code: "ours",
  });
  const passed = { status: 429, kind: "rate_limit", code: "ours", providerCode: "theirs", message: "Wait." } as const;
  t.equal(errorObject(passed, names).code, "slow_down", "the protocol's own code takes precedence");
  t.equal(errorObject({ ...passed, kind: "invalid" }, names).code, "theirs");
  t.equal(
    errorObject({ ...passed, isPluginCode: true }, names).code,
    "ours",
    "but a plugin's own code is written unchanged",
  );
});

t.test("a status maps to a kind of fault", async (t) => {
  t.same(statusFault(429, "Wait."), { status: 429, kind: "rate_limit", code: "rate_limit", message: "Wait." });
  t.match(
    [statusFault(418, ""), statusFault(599, ""), statusFault(529, "")],
    [{ kind: "invalid" }, { kind: "internal" }, { kind: "overloaded" }],
  );
});
