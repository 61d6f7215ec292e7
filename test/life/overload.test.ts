import { once } from "node:events";
import { createServer, type IncomingMessage, request, type ServerResponse } from "node:http";
import t, { type Test } from "tap";
import { asking, KEY, startGateway } from "../support/gateway.ts";
import { listen } from "../support/listen.ts";
import { until } from "../support/until.ts";

const OTHER = "other-key-0123456789abcdef";

/** A provider that answers when it is told to, and remembers who waits. */
async function patientProvider(t: Test) {
  const waiting: { response: ServerResponse; user: string }[] = [];
  const seen = { most: 0, all: 0 };
  const server = createServer(async (asked, response) => {
    const pieces: Buffer[] = [];
    for await (const piece of asked) pieces.push(piece as Buffer);
    const { user = "" } = JSON.parse(Buffer.concat(pieces).toString() || "{}") as { user?: string };
    const entry = { response, user };
    waiting.push(entry);
    seen.all++;
    seen.most = Math.max(seen.most, waiting.length);
    response.on("close", () => void waiting.splice(waiting.indexOf(entry) >>> 0, waiting.includes(entry) ? 1 : 0));
  });
  const answer = () => {
    const next = waiting.shift();
    next?.response.writeHead(200, { "content-type": "application/json" }).end(
      JSON.stringify({
        id: "x",
        object: "chat.completion",
        choices: [],
        usage: { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 },
      }),
    );
    return next?.user;
  };
  return { url: `http://127.0.0.1:${await listen(t, server)}/v1`, waiting, seen, answer };
}

const yaml = (
  url: string,
  more: string,
) => `providers: { p: { url: "${url}", speaks: [openai-chat]${more.startsWith(",") ? more.split("\n")[0] : ""} } }
models: { m: { targets: [p:m] } }
keys: { test: { key: ${KEY} }, other: { key: ${OTHER} } }
${more.startsWith(",") ? more.split("\n").slice(1).join("\n") : more}
`;

interface Asked {
  status: Promise<number>;
  body: Promise<string>;
  headers: Promise<IncomingMessage["headers"]>;
  leave(): void;
}

function ask(port: number, user: string, key = KEY): Asked {
  const sent = request({
    port,
    host: "127.0.0.1",
    path: "/v1/chat/completions",
    method: "POST",
    agent: false,
    headers: asking({ authorization: `Bearer ${key}` }),
  });
  sent.on("error", () => {});
  const response = once(sent, "response").then(([answer]) => answer as IncomingMessage);
  const body = response.then(async (answer) => Buffer.concat(await answer.toArray()).toString());
  sent.end(JSON.stringify({ model: "m", user, messages: [{ role: "user", content: "x" }] }));
  const status = response.then(({ statusCode = 0 }) => statusCode);
  const headers = response.then(({ headers }) => headers);
  for (const each of [status, headers, body]) each.catch(() => {});
  return {
    status,
    headers,
    body,
    leave: () => sent.destroy(),
  };
}

const turn = () => new Promise((resolve) => setTimeout(resolve, 50));

t.test(
  "the number of concurrent requests is limited, the others wait, and a key with more requests than others waits behind its own",
  async (t) => {
    const provider = await patientProvider(t);
    const { port } = await startGateway(t, yaml(provider.url, "overload: { concurrency: 2, wait: 60s }"));
    const noisy = [0, 1, 2, 3, 4, 5].map((n) => ask(port, `noisy ${n}`));
    await until(() => provider.waiting.length === 2);
    const quiet = ask(port, "quiet", OTHER);
    await turn();
    t.equal(provider.waiting.length, 2);
    const order: (string | undefined)[] = [];
    for (let i = 0; i < 7; i++) {
      await until(() => provider.waiting.length > 0 && provider.seen.all >= Math.min(7, i + 2));
      order.push(provider.answer());
    }
    t.equal(await quiet.status, 200);
    t.same(await Promise.all(noisy.map(({ status }) => status)), [200, 200, 200, 200, 200, 200]);
    t.equal(provider.seen.most, 2);
    t.ok(order.indexOf("quiet") <= 2, `the other key came third at the latest: ${order.join(", ")}`);
  },
);

t.test(
  "a request that waits too long, or finds the queue full, gets a 503 in its own dialect with the time to retry",
  async (t) => {
    const provider = await patientProvider(t);
    const { port, log } = await startGateway(
      t,
      yaml(provider.url, "overload: { concurrency: 1, queue: 1, wait: 100ms }"),
    );
    const first = ask(port, "first");
    await until(() => provider.waiting.length === 1);
    const [second, third] = [ask(port, "second"), ask(port, "third")];
    t.same(await Promise.all([second.status, third.status]), [503, 503]);
    t.match(JSON.parse(await third.body), {
      error: { message: /^The gateway has as many requests as it can serve at a time/ },
    });
    const headers = await second.headers;
    t.match(headers["retry-after"], /^[1-3]$/);
    t.notOk(headers["x-should-retry"]);
    const messages = await fetch(`http://127.0.0.1:${port}/v1/messages`, {
      method: "POST",
      headers: { "x-api-key": KEY, "content-type": "application/json" },
      body: JSON.stringify({ model: "m", max_tokens: 1, messages: [{ role: "user", content: "x" }] }),
    });
    t.equal(messages.status, 503);
    t.match(await messages.json(), { type: "error", error: { type: "overloaded_error" } });
    provider.answer();
    t.equal(await first.status, 200);
    t.equal(provider.seen.all, 1);
    await until(() => log.lines.filter(({ fields }) => fields["status"] !== undefined).length >= 4);
  },
);

t.test("a request whose client disconnects while it waits is never sent, and makes room", async (t) => {
  const provider = await patientProvider(t);
  const { port } = await startGateway(t, yaml(provider.url, "overload: { concurrency: 1, queue: 1, wait: 60s }"));
  const first = ask(port, "first");
  await until(() => provider.waiting.length === 1);
  const second = ask(port, "second");
  await turn();
  second.leave();
  await turn();
  const third = ask(port, "third");
  await turn();
  provider.answer();
  await until(() => provider.waiting.length === 1);
  t.equal(provider.answer(), "third");
  t.same(await Promise.all([first.status, third.status]), [200, 200]);
  t.equal(provider.seen.all, 2);
});

t.test("one key has at most its share of the concurrent requests", async (t) => {
  const provider = await patientProvider(t);
  const { port } = await startGateway(t, yaml(provider.url, "overload: { concurrency: 10, per_key: 1, wait: 60s }"));
  const mine = [ask(port, "mine 1"), ask(port, "mine 2")];
  await until(() => provider.waiting.length === 1);
  const other = ask(port, "other", OTHER);
  await until(() => provider.waiting.length === 2);
  await turn();
  t.same(provider.waiting.map(({ user }) => user.split(" ")[0]).sort(), ["mine", "other"]);
  for (let i = 0; i < 3; i++) {
    await until(() => provider.waiting.length > 0);
    provider.answer();
  }
  t.same(await Promise.all([...mine, other].map(({ status }) => status)), [200, 200, 200]);
});
