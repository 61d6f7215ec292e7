import t from "tap";
import { addReasons, attemptError, redactedMessage } from "../../../plugins/usage/reasons.ts";
import type { Attempt } from "../../../src/core/attempt.ts";
import { GatewayError } from "../../../src/core/errors.ts";
import type { DoneExchange } from "../../../src/core/phases.ts";
import { Redactor } from "../../../src/core/redactor.ts";
import type { LedgerEntry } from "../../../src/store/ledger.ts";

const SECRET = "a-credential-0123456789";
const redactor = new Redactor([SECRET]);

function told(more: object): Partial<LedgerEntry> {
  const entry = {} as LedgerEntry;
  const nothing = { attempts: [], dropped: [], droppedFromResponse: [], notices: [] };
  addReasons(entry, { ...nothing, ...more } as unknown as DoneExchange, redactor);
  return entry;
}

t.test("a successful exchange has no reasons, and its entry gets no member", async (t) => {
  t.same(told({}), {});
});

t.test("code and message of a failure are recorded, without secrets and long ones truncated", async (t) => {
  const short = new GatewayError("upstream_refused", { message: `No such key: ${SECRET}.` });
  t.same(told({ error: short }), { error: { code: "upstream_refused", message: "No such key: ***." } });
  const long = `${"x".repeat(290)} ${SECRET} ${"y".repeat(1500)}`;
  const kept = redactedMessage(new GatewayError("internal", { message: long }), redactor);
  t.equal(kept.length, 300);
  t.match(kept, /x \*\*\* y+…$/, "a secret is removed before the text is truncated");
  const halves = redactedMessage(new GatewayError("internal", { message: "😀".repeat(200) }), redactor);
  t.ok(halves.isWellFormed());
});

t.test(
  "a provider's error that passes unchanged is recorded with the attempt, where nothing else failed",
  async (t) => {
    const refusal = { code: "upstream_refused", message: "No such model." };
    const last = { refusal } as unknown as Attempt;
    t.same(told({ attempts: [last] }), { error: refusal });
    t.match(told({ attempts: [last], error: new GatewayError("client_gone") }), { error: { code: "client_gone" } });
    t.same(told({ attempts: [last, {}] }), {}, "another one has answered");
    const done = { attempts: [last], outcome: "upstream_error" } as unknown as DoneExchange;
    t.equal(attemptError(last, done), undefined, "failed attempts are classified by their status");
  },
);

t.test("names of omissions and notices are recorded as far as there is room, and the rest is counted", async (t) => {
  t.same(told({ dropped: ["top_k"], droppedFromResponse: ["logprobs"], notices: [`said ${SECRET}`] }), {
    dropped: ["top_k", "logprobs"],
    notices: ["said ***"],
  });
  const many = Array.from({ length: 1000 }, (_, n) => `messages.${n}.cache_control`);
  const { dropped = [] } = told({ dropped: many });
  t.ok(dropped.join("").length < 320);
  t.equal(dropped.at(-1), `+${1001 - dropped.length}`);
});

t.test("an interruption after the head is the last attempt's fault, and a client's disconnect nobody's", async (t) => {
  const error = new GatewayError("upstream_truncated");
  const own = new GatewayError("upstream_timeout");
  const [first, last] = [{ error: own }, {}] as unknown as [Attempt, Attempt];
  const exchange = (outcome: string) => ({ attempts: [first, last], error, outcome }) as unknown as DoneExchange;
  t.equal(attemptError(last, exchange("upstream_error")), error);
  t.equal(attemptError(first, exchange("upstream_error")), own);
  t.equal(attemptError(last, exchange("aborted")), undefined);
});
