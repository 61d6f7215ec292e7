import t from "tap";
import { z } from "zod";
import type { AdminGateway } from "../../src/admin/admin-gateway.ts";
import { AdminError } from "../../src/admin/errors.ts";
import { type AdminRequest, describeRoute, fromLedger, parseBody, route } from "../../src/admin/route.ts";

t.test("a route's path is in OpenAPI's syntax, and each parameter matches one segment", async (t) => {
  const { path, pattern, admin } = route("POST", "keys/{id}/rotate", "…", async () => ({}));
  t.same([path, admin], ["/api/keys/{id}/rotate", true]);
  t.same([...(pattern.exec("/api/keys/ci/rotate") ?? [])].slice(1), ["ci"]);
  for (const other of ["/api/keys/ci", "/api/keys//rotate", "/api/keys/a/b/rotate"]) t.notOk(pattern.test(other));
});

t.test("read-only routes are for viewers too, unless declared otherwise", async (t) => {
  t.match(describeRoute({ method: "GET", path: "/", summary: "…" }), {
    admin: false,
    status: 200,
    responseFields: { length: 0 },
  });
  t.match(describeRoute({ method: "GET", path: "/", summary: "…", admin: true }), { admin: true });
});

t.test("an invalid body is refused, and the field is named", async (t) => {
  const expected = z.strictObject({ overlap: z.string().default("24h") });
  t.same(parseBody(expected, {}), { overlap: "24h" });
  const refusal = (message: RegExp) => ({ constructor: AdminError, code: "bad_request", message });
  t.throws(() => parseBody(expected, { overlap: 5 }), refusal(/^overlap: /));
  t.throws(() => parseBody(expected, { other: 5 }), refusal(/^the body: .*other/));
});

t.test("a response with figures of the ledger reports their lag, as of before the query", async (t) => {
  const ledger = { behind: false, isBehind: () => ledger.behind };
  const subject = { stores: { ledger } } as unknown as AdminGateway;
  const answer = fromLedger(async () => {
    ledger.behind = !ledger.behind;
    return { body: { rows: [1] } };
  });
  const ask = async () => (await answer(subject, {} as AdminRequest)).body;
  t.same(await ask(), { rows: [1] });
  t.same(await ask(), { rows: [1], behind: true });
});
