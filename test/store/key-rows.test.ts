import { hash } from "node:crypto";
import t from "tap";
import { fileKeyRecords, keyColumns, StoredKey } from "../../src/store/key-rows.ts";

const row = {
  ...{ id: "0123456789", name: "one", hash: hash("sha256", "new"), created: 1, models: '["a*"]', paths: null },
  ...{ addresses: '["10.0.0.0/8"]', group: "g", owner: null, tags: '{"team":"x"}', expires: 50, disabled: null },
  limits: '{"rpm":5}',
  ...{ revoked: null, old_hash: hash("sha256", "old"), old_until: 40, changed: 3 },
};
const digest = (text: string) => hash("sha256", text, "buffer");

t.test("a row is found by its current secret, or the previous one while that still works", async (t) => {
  const key = new StoredKey(row);
  t.same(key.verify(digest("new")), {
    ...{ id: "0123456789", name: "one", hash: hash("sha256", "new"), source: "store", created: 1, models: ["a*"] },
    ...{ addresses: ["10.0.0.0/8"], group: "g", tags: { team: "x" }, limits: { rpm: 5 }, expires: 50, rotating: 40 },
  });
  t.match(key.verify(digest("old")), { id: "0123456789", hash: hash("sha256", "old"), expires: 40 });
  t.same(
    [...key.secrets],
    [
      [hash("sha256", "new"), 50],
      [hash("sha256", "old"), 40],
    ],
  );
  t.same([...new StoredKey({ ...row, expires: null, old_hash: null }).secrets.values()], [Number.POSITIVE_INFINITY]);
  t.equal(key.verify(digest("other")), undefined);
  t.match(new StoredKey({ ...row, old_until: 60 }).verify(digest("old")), { expires: 50 });
  t.equal(new StoredKey({ ...row, old_hash: null, old_until: null }).verify(digest("old")), undefined);
});

t.test("a key is converted to its row again, as plain JSON", async (t) => {
  t.same(JSON.parse(JSON.stringify(new StoredKey(row).row)), row);
  const bare = { ...row, old_hash: null, old_until: null, models: null, limits: null, tags: null, addresses: null };
  t.same(new StoredKey(bare).row, bare);
});

t.test("an edit sets the members it has, and null empties a column", async (t) => {
  t.same(keyColumns({ group: "a/b", models: ["x"], owner: null }), { models: '["x"]', group: "a/b", owner: null });
  t.same(keyColumns({}), {});
});

t.test("a key of gateway.yaml is identified by its name, with all its settings", async (t) => {
  const said = { paths: ["/v1/*"], owner: "Ada", tags: { a: "b" }, addresses: ["::1"], group: "g" };
  const [[hex, record] = []] = fileKeyRecords({ name: "ci", key: "secret", ...said });
  t.equal(hex, hash("sha256", "secret"));
  t.match(record, { id: "ci", name: "ci", source: "file", ...said });
  t.same(fileKeyRecords({ name: "off" }), []);
});
