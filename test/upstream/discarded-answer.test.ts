import { setTimeout as sleep } from "node:timers/promises";
import t from "tap";
import { GatewayError } from "../../src/core/errors.ts";
import type { Head } from "../../src/core/head.ts";
import { Redactor } from "../../src/core/redactor.ts";
import { DiscardedAnswer } from "../../src/upstream/discarded-answer.ts";
import type { BodyReceiver } from "../../src/upstream/response.ts";
import { HeaderList } from "../../src/wire/headers.ts";

const SECRET = "a-credential-0123456789";

/** A response that comes as the test says. */
class Response {
  receiver: BodyReceiver | undefined;
  ended = 0;
  read(receiver: BodyReceiver): void {
    this.receiver = receiver;
  }
  destroy(): void {
    this.ended++;
  }
  come(text: string): boolean {
    return this.receiver?.chunk(Buffer.from(text)) === true;
  }
}

function answered(framing?: Head["framing"]) {
  const response = new Response();
  const head = { status: 503, headers: new HeaderList([]), framing } as Head;
  return { response, answer: new DiscardedAnswer(response, head, new Redactor([SECRET])) };
}

t.test("a discarded body is not read", (t) => {
  const { response, answer } = answered();
  answer.closeUnread();
  t.equal(response.receiver, undefined);
  t.equal(response.ended, 1);
  t.match(answer, { bytes: 0, isComplete: false });
  t.equal(answer.body.length, 0);
  t.end();
});

t.test("reading nothing is over at once, and reads nothing", async (t) => {
  const { response, answer } = answered();
  await answer.readBody(0);
  t.equal(response.receiver, undefined);
  answer.closeUnread();
  t.equal(response.ended, 1);
});

t.test("what has arrived is available at any time, without secrets, and its end ends the reading", (t) => {
  const { response, answer } = answered();
  answer.readBody(10);
  answer.readBody(100);
  answer.closeUnread();
  t.equal(response.ended, 0);
  t.ok(response.come(`no, ${SECRET.slice(0, 5)}`));
  t.match(answer, { bytes: 9, isComplete: false });
  t.ok(response.come(SECRET.slice(5)));
  t.equal(answer.body.toString(), "no, ***");
  response.receiver?.end();
  t.match(answer, { bytes: 27, isComplete: true });
  t.equal(response.ended, 1);
  t.end();
});

t.test("no more is read than the limit, and for a limited time", async (t) => {
  const much = answered();
  much.answer.readBody(10);
  t.notOk(much.response.come("0123456789abc"));
  t.match(much, { response: { ended: 1 }, answer: { bytes: 13, isComplete: false } });
  t.equal(much.answer.body.toString(), "0123456789");
  const broken = answered();
  broken.answer.readBody(10);
  broken.response.come("012");
  broken.response.receiver?.fail(new GatewayError("upstream_truncated"));
  t.match(broken, { response: { ended: 1 }, answer: { bytes: 3, isComplete: false } });
  const slow = answered();
  slow.answer.readBody(10);
  slow.response.come("012");
  await sleep(1100);
  t.match(slow, { response: { ended: 1 }, answer: { bytes: 3, isComplete: false } });
});

t.test("of an incomplete body no beginning of a secret is kept", (t) => {
  for (const end of ["fail", "nothing"] as const)
    for (let length = 1; length < SECRET.length; length++) {
      const { response, answer } = answered();
      answer.readBody(1000);
      response.come(`{"error":"the key ${SECRET.slice(0, length)}`);
      if (end === "fail") response.receiver?.fail(new GatewayError("upstream_truncated"));
      t.equal(answer.body.toString(), '{"error":"the key ', `${length} characters`);
    }
  t.end();
});

t.test("of a stream the first event is kept, which contains the error", (t) => {
  const { response, answer } = answered("sse");
  answer.readBody(1000);
  response.come(': hello\n\ndata: {"error"');
  response.come(":1}\n\n");
  response.receiver?.end();
  t.equal(answer.body.toString(), ': hello\n\ndata: {"error":1}\n\n');
  t.equal(answer.isComplete, true);
  const more = answered("sse");
  more.answer.readBody(1000);
  more.response.come(`data: {}\n\ndata: a-cred\n\n`);
  more.response.receiver?.end();
  t.equal(more.answer.body.toString(), "data: {}\n\n");
  t.equal(more.answer.isComplete, false);
  t.end();
});
