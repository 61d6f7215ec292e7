import t from "tap";
import { Peers, QuestionHandlers } from "../../src/core/peers.ts";
import { Keys } from "../../src/store/keys.ts";
import { registerWrongKeys, shareWrongKeys } from "../../src/workers/shared-wrong-keys.ts";

/** Keys that count wrong ones, and do nothing else. */
const CountingKeys = Keys as unknown as new () => Keys;

t.test("two processes share the count of one address's wrong keys", async (t) => {
  const answers = new QuestionHandlers();
  registerWrongKeys(answers);
  const [one, other] = [0, 1].map(() => {
    const keys = new CountingKeys();
    shareWrongKeys(keys, new Peers(answers));
    return keys;
  }) as [Keys, Keys];
  t.equal(await one.countWrongKey("192.0.2.1", 2), undefined);
  t.equal(await other.countWrongKey("192.0.2.1", 2), undefined);
  t.ok(Number(await one.countWrongKey("192.0.2.1", 2)) > 0);
  t.ok(Number(await other.countWrongKey("192.0.2.1", 2)) > 0);
  t.equal(await one.countWrongKey("192.0.2.2", 2), undefined, "of another address there was none");
  t.equal(await one.countWrongKey("192.0.2.1", 0), undefined, "no limit");
});

t.test("where nobody answers, each counts its own", async (t) => {
  const keys = new CountingKeys();
  shareWrongKeys(keys, new Peers());
  t.equal(await keys.countWrongKey("192.0.2.1", 1), undefined);
  t.ok(Number(await keys.countWrongKey("192.0.2.1", 1)) > 0);
});
