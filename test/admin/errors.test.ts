import t from "tap";
import { AdminError } from "../../src/admin/errors.ts";

t.test("each code has its status", async (t) => {
  t.equal(new AdminError("signed_out", "Sign in.").status, 401);
  t.match(new AdminError("wrong_host", "This is not x."), {
    status: 421,
    code: "wrong_host",
    message: "This is not x.",
  });
});
