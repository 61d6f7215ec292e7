import t from "tap";
import { ledgerAttempt } from "../../../plugins/usage/ledger-attempt.ts";
import type { Attempt } from "../../../src/core/attempt.ts";
import { GatewayError } from "../../../src/core/errors.ts";
import type { DoneExchange } from "../../../src/core/phases.ts";
import { Redactor } from "../../../src/core/redactor.ts";

const target = { provider: { name: "p", credentials: [] }, model: "m" };

/** An attempt as the ledger has it: the last one, or one that another followed. */
function kept(of: object, followed = false) {
  const attempt = { target, startedAt: 0, ...of } as unknown as Attempt;
  const last = followed ? ({} as Attempt) : attempt;
  const exchange = { attempts: [attempt, last], attempt: last, outcome: "completed" } as unknown as DoneExchange;
  return ledgerAttempt(attempt, exchange, new Redactor([]));
}

t.test("an attempt that was sent at once has its start and its status, and nothing else", async (t) => {
  const usual = { status: 200, startedAt: 2.2, dispatchedAt: 2.5, connectedAt: 3.1, respondedAt: 80, queuedAt: 1.9 };
  t.same(kept(usual), { target: "p:m", startedAt: 2, status: 200 });
});

t.test("the queue time, the time to connect and a failure's duration are recorded", async (t) => {
  const slow = { queuedAt: 10, startedAt: 50, dispatchedAt: 52, connectedAt: 82.4, respondedAt: 150 };
  const error = new GatewayError("upstream_timeout");
  const { target: _, message, ...told } = kept({ ...slow, error }, true);
  t.same(told, { startedAt: 50, error: "upstream_timeout", queue: 40, connect: 30, took: 100 });
  t.equal(message, error.message);
  t.notOk("took" in kept({ ...slow, error }), "the last one takes as long as the exchange");
});
