import { mock } from "node:test";
import t from "tap";
import { GatewayError } from "../../src/core/errors.ts";
import { Redactor } from "../../src/core/redactor.ts";
import { ErrorBody, MAX_ERROR_BYTES } from "../../src/upstream/error-body.ts";
import type { BodyReceiver, UpstreamResponse } from "../../src/upstream/response.ts";
import { HeaderList } from "../../src/wire/headers.ts";

const SECRET = "a-credential-0123456789";
const redactor = new Redactor([SECRET]);

/** A response whose pieces are handed over at once, and then its end. */
const response = (pieces: readonly string[], error?: GatewayError): UpstreamResponse & { ended: boolean } => ({
  status: 418,
  headers: new HeaderList(),
  ended: false,
  read(receiver) {
    for (const piece of pieces) if (!receiver.chunk(Buffer.from(piece))) return;
    if (error) receiver.fail(error);
    else receiver.end();
  },
  resume() {},
  peek() {},
  destroy() {
    this.ended = true;
  },
});

/** What is handed over of a body, to somebody who takes a piece at a time. */
function taken(body: ErrorBody, blocks = false): string[] {
  const told: string[] = [];
  const receiver: BodyReceiver = {
    chunk: (bytes) => {
      told.push(bytes.toString());
      return !blocks;
    },
    end: () => void told.push("end"),
    fail: ({ code }) => void told.push(code),
  };
  body.read(receiver);
  return told;
}

t.test("a secret is found also where it is split over chunks, and everything is passed on once", async (t) => {
  for (let cut = 1; cut < SECRET.length; cut++) {
    const body = await ErrorBody.readFrom(response([`x ${SECRET.slice(0, cut)}`, `${SECRET.slice(cut)} y`]), redactor);
    t.same(taken(body), ["x *** y", "end"]);
  }
  t.same(taken(await ErrorBody.readFrom(response([]), redactor)), ["end"]);
});

t.test("a paused reader receives the end when it resumes", async (t) => {
  const body = await ErrorBody.readFrom(response(["x"]), redactor);
  const told = taken(body, true);
  t.same(told, ["x"]);
  body.resume();
  body.resume();
  t.same(told, ["x", "end"]);
  const left = await ErrorBody.readFrom(response(["x"]), redactor);
  const before = taken(left, true);
  left.destroy();
  left.resume();
  t.same(before, ["x"]);
});

t.test("an interrupted body is passed on with the interruption; any other failure is thrown", async (t) => {
  const broken = await ErrorBody.readFrom(response([`x ${SECRET}`], new GatewayError("upstream_truncated")), redactor);
  t.same(taken(broken), ["x ***", "upstream_truncated"]);
  await t.rejects(ErrorBody.readFrom(response(["x"], new GatewayError("client_gone")), redactor), {
    code: "client_gone",
  });
  const large = response(["x".repeat(MAX_ERROR_BYTES), "x", "x"]);
  await t.rejects(ErrorBody.readFrom(large, redactor), { code: "upstream_refused", status: 418 });
  t.ok(large.ended, "and no more of it is read");
});

t.test("an error that arrives slowly is aborted after ten seconds, with its status", async (t) => {
  mock.timers.enable({ apis: ["setTimeout"] });
  t.teardown(() => mock.timers.reset());
  let receiver: BodyReceiver | undefined;
  const dripping = Object.assign(response([]), {
    read(reader: BodyReceiver) {
      receiver = reader;
    },
  });
  const body = ErrorBody.readFrom(dripping, redactor);
  for (let second = 0; second < 9; second++) {
    t.ok(receiver?.chunk(Buffer.from("x")));
    mock.timers.tick(1000);
  }
  t.notOk(dripping.ended);
  mock.timers.tick(1000);
  await t.rejects(body, {
    code: "upstream_refused",
    status: 418,
    message: "The provider answered 418, and its error was not whole 10 s later.",
  });
  t.ok(dripping.ended);
});
