import t from "tap";
import { Attempt, type AttemptStart } from "../../src/core/attempt.ts";
import { Body } from "../../src/core/body.ts";
import type { Scan } from "../../src/wire/json.ts";
import { setMember } from "../../src/wire/splice.ts";

t.test("an attempt has its own body", async (t) => {
  const own = new Body([Buffer.from('{"model":"a"}')], "json");
  const attempt = new Attempt({ body: own } as AttemptStart);
  attempt.edit([setMember(attempt.body.scan as Scan, "n", "1")]);
  attempt.edit([setMember(attempt.body.scan as Scan, "m", "2")]);
  t.same(attempt.body.json(), { m: 2, n: 1, model: "a" });
  t.same(own.json(), { model: "a" });
});
