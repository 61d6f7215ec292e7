import t from "tap";
import { limitExceeded } from "../../../plugins/limits/errors.ts";

const level = { kind: "key" as const, name: "ci" };
const budget = { limit: "budget" as const, level, allowed: 10e9, remaining: 1e9, per: "day" as const };
const MIDNIGHT = Date.UTC(2026, 9, 15);

t.test("a client may try again by itself within two minutes, and not later", async (t) => {
  const rpm = { limit: "rpm" as const, level, allowed: 5, remaining: 0, requested: 1 };
  t.equal(limitExceeded({ ...rpm, retryAfter: 120 }).retry, true);
  t.equal(limitExceeded({ ...rpm, retryAfter: 121 }).retry, false);
  t.equal(limitExceeded(rpm).retry, false);
});

t.test("a spent budget says when it begins anew, if it is then large enough for the request", async (t) => {
  const later = { retryAfter: 3600, resets: MIDNIGHT };
  t.match(limitExceeded({ ...budget, ...later, requested: 2e9 }), {
    code: "insufficient_quota",
    retry: false,
    message: /try again after 2026-10-15T00:00:00\.000Z\.$/,
  });
  t.match(limitExceeded({ ...budget, resets: MIDNIGHT, requested: 11e9 }).message, /or ask the operator\.$/);
  t.match(limitExceeded({ ...budget, retryAfter: 1, requested: 2e9 }).message, /when others have ended\.$/);
});
