import t from "tap";
import { webhookMessage } from "../../src/alerts/alerts.ts";
import { Webhook } from "../../src/alerts/webhook.ts";
import { startReceiver } from "../support/webhook.ts";

const message = webhookMessage("target up:fine", "firing", "up:fine fails");

t.test("a post is retried after a receiver's failure, and not after a refusal", async (t) => {
  const receiver = await startReceiver(t);
  const webhook = new Webhook({}, [1, 1]);
  t.teardown(() => webhook.close());
  const url = new URL(receiver.url);
  receiver.answers.push({ status: 503 }, { status: 429, headers: { "retry-after": "0" } });
  await webhook.post(url, message);
  t.match(receiver.received, [{ subject: "target up:fine", state: "firing", text: /up:fine fails/ }]);
  receiver.answers.push({ status: 404, body: "no_service" }, { status: 200 });
  await t.rejects(webhook.post(url, message), { message: `${url.host} answered 404: no_service` });
  t.equal(receiver.answers.length, 1);
  receiver.answers.splice(0, 1, { status: 500 }, { status: 500 }, { status: 500 });
  await t.rejects(webhook.post(url, message), { message: `${url.host} answered 500: ok` });
  t.equal(receiver.received.length, 1);
});

t.test("a long retry-after is respected, and the address is not logged", async (t) => {
  const receiver = await startReceiver(t);
  const webhook = new Webhook({}, [1, 1]);
  t.teardown(() => webhook.close());
  receiver.answers.push({ status: 429, headers: { "retry-after": "3600" } }, { status: 200 });
  const refused = await webhook.post(new URL(receiver.url), message).catch((thrown: Error) => thrown.message);
  t.match(refused, /answered 429/);
  t.equal(receiver.answers.length, 1);
  const gone = await webhook
    .post(new URL("http://127.0.0.1:1/services/canary-of-webhook"), message)
    .catch((thrown: Error) => thrown.message);
  t.equal(gone, "127.0.0.1:1 cannot be reached: ECONNREFUSED");
  const path = "/services/canary-of-webhook?key=canary";
  receiver.answers.splice(0, 1, { status: 404, body: `${"x".repeat(180)} Cannot POST ${path}` });
  const repeated = await webhook.post(new URL(path, receiver.url), message).catch((thrown: Error) => thrown.message);
  t.match(repeated, /answered 404: x+ Cannot POST …$/);
});

t.test("a stop cancels pending retries", async (t) => {
  const receiver = await startReceiver(t);
  const webhook = new Webhook({}, [600_000]);
  t.teardown(() => webhook.close());
  const stop = new AbortController();
  receiver.answers.push({ status: 500 });
  const posting = webhook.post(new URL(receiver.url), message, stop.signal);
  setTimeout(() => stop.abort(), 50);
  await t.rejects(posting, { message: /answered 500/ });
});

t.test("texts in an alert cannot become links or mentions", async (t) => {
  const { text, host, time } = webhookMessage("s", "resolved", "<!channel> & <http://x|y>");
  t.match(text, /^:white_check_mark: &lt;!channel&gt; &amp; &lt;http/);
  t.ok(text.endsWith(`(${host})`));
  t.ok(Date.parse(time) > 0);
  t.ok(webhookMessage("s", "firing", "x".repeat(5000)).text.length < 1200);
});
