import t from "tap";
import { IssuedIds } from "../../src/objects/issued.ts";

const ids = new IssuedIds("a secret of this test");

t.test("an issued id belongs to its owner, and to nobody else", async (t) => {
  const id = ids.mark("rs_abc_0", "key one");
  t.match(id, /^rs_abc_0_[0-9a-f]{16}$/);
  t.equal(id, ids.mark("rs_abc_0", "key one"), "the same each time");
  t.ok(ids.isIssuedTo(id, ["group g", "key one"]));
  t.notOk(ids.isIssuedTo(id, ["key two", ""]));
  t.notOk(ids.isIssuedTo(id, []));
  t.ok(new IssuedIds("a secret of this test").isIssuedTo(id, ["key one"]), "after a restart");
  t.notOk(new IssuedIds("another secret").isIssuedTo(id, ["key one"]));
});

t.test("an id that was changed, or that a vendor created, is not an issued one", async (t) => {
  const id = ids.mark("rs_abc_0", "key one");
  const others = [
    id.replace("abc", "abd"),
    id.slice(0, -1),
    `${id}0`,
    `x${id}`,
    "rs_abc_0",
    `rs_abc_0_${"0".repeat(16)}`,
  ];
  for (const other of [...others, id.toUpperCase(), ""]) t.notOk(ids.isIssuedTo(other, ["key one"]), other);
  t.not(ids.mark("b_0", "key a"), ids.mark("_0", "key ab").slice(1), "owner and id are separated");
});
