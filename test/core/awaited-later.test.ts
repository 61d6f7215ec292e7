import t from "tap";
import { awaitedLater } from "../../src/core/awaited-later.ts";

t.test("a failure is handled until somebody awaits it, who still gets it", async (t) => {
  const failing = awaitedLater(Promise.reject(new Error("too early")));
  await new Promise((later) => setTimeout(later, 1));
  await t.rejects(failing, { message: "too early" });
  t.equal(await awaitedLater(Promise.resolve(1)), 1);
});
