import t from "tap";
import { errors } from "undici";
import { GatewayError } from "../../src/core/errors.ts";
import { closedUnseen, failure, overdue, UpstreamFault } from "../../src/upstream/failures.ts";

const coded = (code: string, message = "sk-secret https://x.test/?key=1") =>
  Object.assign(new Error(message), { code });

t.test("the same break means something else at each point of an attempt", (t) => {
  const reset = coded("ECONNRESET");
  t.equal(failure(reset, "connecting", "h").code, "upstream_unreachable");
  t.equal(failure(reset, "waiting", "h").code, "upstream_failed");
  t.equal(failure(reset, "answering", "h").code, "upstream_truncated");
  t.end();
});

t.test("a head that is no HTTP is invalid; in the middle of an answer it is a cut", (t) => {
  const bad = [
    new errors.HTTPParserError("bad, too"),
    new errors.HTTPParserError("bad"),
    new errors.HeadersOverflowError(),
    new errors.ResponseContentLengthMismatchError(),
    new errors.SocketError("bad response"),
    new errors.SocketError("bad upgrade"),
  ];
  for (const error of bad) {
    t.equal(failure(error, "waiting", "h").code, "upstream_invalid", error.message);
    t.equal(failure(error, "answering", "h").code, "upstream_truncated", error.message);
  }
  t.end();
});

t.test("our own faults are not blamed on the provider", (t) => {
  t.equal(failure(new errors.InvalidArgumentError("invalid request path"), "connecting", "h").code, "internal");
  t.equal(failure(new errors.RequestContentLengthMismatchError(), "waiting", "h").code, "bad_request");
  t.equal(failure(new errors.ClientDestroyedError(), "connecting", "h").code, "draining");
  t.equal(failure(new errors.ClientClosedError(), "connecting", "h").code, "draining");
  t.end();
});

t.test("a GatewayError passes as it is; anything thrown becomes one", (t) => {
  const error = new GatewayError("body_too_large");
  t.equal(failure(error, "waiting", "h"), error);
  for (const thrown of ["text", undefined, null, 1, new TypeError("sk-secret")]) {
    t.ok(failure(thrown, "waiting", "h") instanceof GatewayError);
  }
  t.end();
});

t.test("the cause is a code and a host, never the transport's own words", (t) => {
  const { cause } = failure(coded("ECONNREFUSED"), "connecting", "api.test:1");
  t.ok(cause instanceof UpstreamFault);
  t.equal(String((cause as UpstreamFault).message), "ECONNREFUSED at api.test:1");
  t.notMatch((cause as UpstreamFault).stack, "sk-secret");
  t.end();
});

t.test("limits are told in the unit people write them in", (t) => {
  t.match(overdue("idle", 250, "h").message, "for 250 ms ");
  t.match(overdue("first_byte", 600_000, "h").message, "within 600 s.");
  t.match(overdue("connect", 1500, "h").message, "within 1.5 s.");
  t.same(
    (["connect", "first_byte", "idle", "total"] as const).map((limit) => overdue(limit, 1, "h").code),
    ["upstream_unreachable", "upstream_timeout", "upstream_timeout", "upstream_timeout"],
  );
  t.end();
});

t.test("only a closed connection is taken for one", (t) => {
  for (const error of [coded("ECONNRESET"), coded("EPIPE"), new errors.SocketError("other side closed")]) {
    t.ok(closedUnseen(error, performance.now() + 1000, 0));
  }
  for (const error of [
    coded("ECONNREFUSED"),
    new errors.SocketError("bad response"),
    new errors.HTTPParserError("x"),
  ]) {
    t.notOk(closedUnseen(error, performance.now() + 1000, 0));
  }
  t.end();
});

t.test("a close is not the request's fault for a round trip and a little more, however long the trip seems", (t) => {
  t.intercept(performance, "now", { value: () => 1000 });
  const closes: [trip: number, after: number, unseen: boolean][] = [
    [0, 0, true],
    [0, 49, true],
    [0, 50, false],
    [200, 249, true],
    [200, 250, false],
    [5000, 299, true],
    [5000, 300, false],
  ];
  for (const [trip, after, unseen] of closes)
    t.equal(closedUnseen(coded("ECONNRESET"), 1000 - after, trip), unseen, `${after} ms, with a trip of ${trip}`);
  t.end();
});
