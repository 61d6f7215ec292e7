import t from "tap";
import { Protocols } from "../../src/core/protocols.ts";
import { other, tiny } from "../support/tiny.ts";

t.test("a protocol is found by its name", async (t) => {
  const protocols = new Protocols([tiny, other]);
  t.equal(protocols.find("other"), other);
  t.equal(protocols.find("toString"), undefined);
  t.same(protocols.all, [tiny, other]);
});
