import { createHash } from "node:crypto";
import t from "tap";
import { label } from "../../../../plugins/protocols/openai/label.ts";
import { terms } from "../openai-chat/fixture.ts";

t.test("a label that is too long is sent as its hash, and that is said", async (t) => {
  const to = terms();
  t.equal(label("x".repeat(64), "user", to), "x".repeat(64));
  t.same(to.losses.changed, []);
  const long = "x".repeat(65);
  t.equal(label(long, "user", to), createHash("sha256").update(long).digest("hex"));
  t.same(to.losses.changed, ["user"]);
});
