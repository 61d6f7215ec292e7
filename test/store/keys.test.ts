import t from "tap";
import { type KeyRecord, Keys } from "../../src/store/keys.ts";

const record: KeyRecord = {
  ...{ id: "k1", name: "ci", models: ["fast"], group: "acme" },
  ...{ hash: "00".repeat(32), source: "store", created: 1, disabled: 2, revoked: 3, rotating: 4 },
};

t.test("a caller has what requests are checked by, and nothing of how its key is stored", async (t) => {
  const { callerOf } = Keys.prototype;
  const maps = { callers: { value: new WeakMap() }, secrets: { value: new WeakMap() } };
  const keys = Object.create(Keys.prototype, maps) as Keys;
  const caller = callerOf.call(keys, record);
  t.match(caller, { id: "k1", name: "ci", models: ["fast"], group: "acme" });
  for (const name of ["hash", "source", "created", "disabled", "revoked", "rotating"]) t.notOk(name in caller, name);
  t.equal(callerOf.call(keys, record), caller, "the same object for each of its requests");
  t.not(callerOf.call(keys, { ...record }), caller);
  t.equal(Keys.prototype.secretOf.call(keys, caller), record.hash);
  t.equal(Keys.prototype.secretOf.call(keys, { id: "k1", name: "ci" }), undefined, "a plugin's own has no secret");
});
