import t from "tap";
import { ownersOf } from "../../src/objects/share.ts";

const caller = { id: "k1", name: "ci", group: "acme/research" };

t.test(
  "an object belongs to a key, its group or everybody, and a key keeps its objects when more is shared",
  async (t) => {
    t.same(ownersOf("key", caller), ["key k1"]);
    t.same(ownersOf("group", caller), ["group acme/research", "key k1"]);
    t.same(ownersOf("group", { id: "k1", name: "ci" }), ["key k1"]);
    t.same(ownersOf("all", caller), ["all", "group acme/research", "key k1"]);
    t.same(ownersOf("key", undefined), [""]);
  },
);
