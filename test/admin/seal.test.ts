import t from "tap";
import { Seal } from "../../src/admin/seal.ts";

t.test("sealed data opens with the same secret, for the same purpose, and unchanged only", async (t) => {
  const [one, same, other] = [new Seal("a secret"), new Seal("a secret"), new Seal("another")];
  const sealed = one.seal({ who: "alice" }, "session");
  t.same(same.unseal(sealed, "session"), { who: "alice" });
  t.notMatch(Buffer.from(sealed, "base64url").toString("latin1"), "alice");
  t.equal(one.unseal(sealed, "login"), undefined);
  t.equal(other.unseal(sealed, "session"), undefined);
  for (let at = 0; at < sealed.length; at++) {
    const changed = sealed.slice(0, at) + (sealed[at] === "A" ? "B" : "A") + sealed.slice(at + 1);
    const bytes = (text: string) => Buffer.from(text, "base64url").toString("hex");
    if (bytes(changed) !== bytes(sealed)) t.equal(one.unseal(changed, "session"), undefined, `changed at ${at}`);
  }
  for (const junk of ["", "AAAA", "x".repeat(200), "%"]) t.equal(one.unseal(junk, "session"), undefined, junk);
  t.not(one.seal({}, "session"), one.seal({}, "session"));
});
