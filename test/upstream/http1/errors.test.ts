import t from "tap";
import { Http1Error } from "../../../src/upstream/http1/errors.ts";

t.test("an error is reported by its code, unless there is an explanation", (t) => {
  t.match(new Http1Error("POOL_CLOSED"), { code: "POOL_CLOSED", message: "POOL_CLOSED", explanation: undefined });
  t.match(new Http1Error("PROXY_STATUS_407", "Why."), {
    code: "PROXY_STATUS_407",
    message: "Why.",
    explanation: "Why.",
  });
  t.end();
});
