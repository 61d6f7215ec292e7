import t, { type Test } from "tap";
import { outcomeOfError, outcomeOfStatus, RetryBudget, waitUnlessAborted } from "../../src/upstream/retry.ts";
import { talk } from "../support/connection.ts";
import { asking, KEY, type Running, startGateway } from "../support/gateway.ts";
import { until } from "../support/until.ts";
import { OK, type RawRequest, rawUpstream, type Script } from "../support/upstream.ts";

const ok = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}";
const failing = (status: number, ...lines: string[]) =>
  `HTTP/1.1 ${status} x\r\ncontent-type: application/json\r\n${lines.map((line) => `${line}\r\n`).join("")}content-length: 2\r\n\r\n{}`;

/** A provider that answers its requests with these, one after another, the last one ever after; nothing: never. */
async function provider(t: Test, ...answers: (string | Script)[]) {
  const seen: RawRequest[] = [];
  const upstream = await rawUpstream(async (socket, request) => {
    seen.push(request);
    await request.body;
    const answer = answers[Math.min(seen.length, answers.length) - 1];
    if (typeof answer === "string") socket.write(answer);
    else answer?.(socket, request);
  });
  t.teardown(() => upstream.close());
  return { upstream, seen };
}

/** A gateway with one model whose targets are these providers, in this order. Settings are for all of them, or a provider's own. */
function gateway(
  t: Test,
  providers: readonly { upstream: { origin: URL }; own?: string }[],
  { more = "", provider = "", env = {} }: { more?: string; provider?: string; env?: Record<string, string> } = {},
): Promise<Running> {
  const lines = providers.map(
    ({ upstream, own = "" }, i) =>
      `  p${i}: { url: "${upstream.origin.origin}/v1", speaks: [openai-chat]${provider}${own} }`,
  );
  const targets = providers.map((_, i) => `{ to: "p${i}:m${i}", weight: ${10 ** (12 - 4 * i)} }`);
  return startGateway(
    t,
    `providers:\n${lines.join("\n")}\nmodels:\n  m: { targets: [${targets.join(", ")}] }\n${more}`,
    {},
    env,
  );
}

const chat = (running: Running, signal?: AbortSignal) =>
  fetch(`${running.url}/v1/chat/completions`, {
    method: "POST",
    headers: asking(),
    body: '{"model":"m"}',
    ...(signal ? { signal } : {}),
  });

async function attempts(running: Running) {
  await running.gateway.stores.ledger.flush();
  return (await running.gateway.stores.ledger.recent(1))[0]?.attempts;
}

t.test("a client that has left before a retry leaves no timer that waits for it", async (t) => {
  const timers = () => process.getActiveResourcesInfo().filter((kind) => kind === "Timeout").length;
  const before = timers();
  const exchange = {
    onAbort(listener: () => void) {
      listener();
      return () => {};
    },
  };
  await t.rejects(waitUnlessAborted(20_000, exchange as never), { code: "client_gone" });
  t.equal(timers(), before);
});

t.test("no attempt begins after the end of a request's time, and the last one gets the rest of it", async (t) => {
  const late = await provider(t, failing(503, "retry-after: 1"), ok);
  const running = await gateway(t, [late], { provider: ", timeouts: { total: 900ms }" });
  t.equal((await chat(running)).status, 503);
  t.equal(late.seen.length, 1);
  const hanging = await provider(t, failing(503, "retry-after-ms: 1000"), () => {});
  const other = await gateway(t, [hanging], { provider: ", timeouts: { total: 1500ms }" });
  const asked = performance.now();
  t.equal((await chat(other)).status, 504);
  t.ok(performance.now() - asked < 2400, "not 2500 ms");
});

t.test("after the end of a request's time no other target is tried, nor held responsible", async (t) => {
  const [hanging, unused] = [await provider(t, () => {}), await provider(t, ok)];
  const running = await gateway(t, [hanging, unused], { provider: ", timeouts: { total: 300ms }" });
  t.equal((await chat(running)).status, 504);
  t.match(await attempts(running), { length: 1 });
  t.equal(unused.seen.length, 0);
  const short = { ...hanging, own: ", timeouts: { total: 30s, first_byte: 150ms }" };
  const patient = await gateway(t, [short, { ...unused, own: ", timeouts: { total: 30s }" }]);
  t.equal((await chat(patient)).status, 200, "in the rest of the time one is");
});

t.test("a client that disconnects during the wait cancels the second attempt", async (t) => {
  const one = await provider(t, failing(503, "retry-after-ms: 300"), ok);
  const running = await gateway(t, [one]);
  const leaving = new AbortController();
  const asked = chat(running, leaving.signal).catch(() => "gone");
  await until(() => one.seen.length === 1);
  setTimeout(() => leaving.abort(), 60);
  t.equal(await asked, "gone");
  await new Promise((resolve) => setTimeout(resolve, 400));
  t.equal(one.seen.length, 1);
  t.match(running.log.lines.at(-1)?.fields, { outcome: "aborted" });
});

t.test("a provider that hangs is put to rest once enough clients have disconnected after `slow`", async (t) => {
  const [silent, fine] = [await provider(t), await provider(t, ok)];
  const health = ", health: { slow: 100ms, requests: 3, failures: 100 }";
  const running = await gateway(t, [silent, fine], { provider: health });
  for (let i = 1; i <= 3; i++) {
    const leaving = new AbortController();
    const left = chat(running, leaving.signal).catch(() => "gone");
    await until(() => silent.seen.length === i);
    setTimeout(() => leaving.abort(), 200);
    t.equal(await left, "gone");
    await until(() => running.log.lines.filter(({ message }) => message === "exchange").length === i);
  }
  t.equal((await chat(running)).status, 200);
  t.same([silent.seen.length, fine.seen.length], [3, 1]);
});

t.test("a form that its client sends slowly makes no slow provider", async (t) => {
  const [one, two] = [await provider(t, ok), await provider(t, ok)];
  const yaml = (name: string, { upstream }: typeof one) =>
    `  ${name}: { url: "${upstream.origin.origin}/v1", speaks: [openai-images], health: { slow: 1500ms, requests: 1, failures: 100 } }\n`;
  const model = "models: { m: { targets: [{ to: one:m, weight: 1000000 }, two:m] } }\n";
  const { port } = await startGateway(t, `providers:\n${yaml("one", one)}${yaml("two", two)}${model}`);
  const field = (name: string) => `--b\r\ncontent-disposition: form-data; name="${name}"\r\n\r\nm\r\n`;
  const [start, end] = [`${field("model")}${field("image")}`, "--b--\r\n"];
  const headers = [`x-api-key: ${KEY}`, "content-type: multipart/form-data; boundary=b"];
  const length = `content-length: ${start.length + end.length}`;
  for (let i = 0; i < 2; i++) {
    const client = talk(
      t,
      port,
      ["POST /v1/images/edits HTTP/1.1", "host: a", ...headers, length, "", start].join("\r\n"),
    );
    await until(() => one.seen.length > i, "the beginning of the request");
    setTimeout(() => client.socket.write(end), i === 0 ? 1600 : 100);
    await until(() => client.text.endsWith("{}"), "the answer");
  }
  t.same([one.seen.length, two.seen.length], [2, 0]);
});

t.test("after a first-byte timeout another provider is tried once, never the same one", async (t) => {
  const own = ", timeouts: { first_byte: 150ms }";
  const [silent, deaf] = [
    { ...(await provider(t)), own },
    { ...(await provider(t)), own },
  ];
  const fine = await provider(t, ok);
  const saved = await gateway(t, [silent, fine]);
  t.equal((await chat(saved)).status, 200);
  t.match(await attempts(saved), [{ error: "upstream_timeout" }, { status: 200 }]);
  const lost = await chat(await gateway(t, [silent, deaf, fine]));
  t.same([lost.status, lost.headers.get("x-should-retry"), fine.seen.length], [504, "false", 1]);
  silent.seen.length = 0;
  t.equal((await chat(await gateway(t, [silent]))).status, 504);
  const never = await gateway(t, [silent, fine], { more: "retry: { after_timeout: false }\n" });
  t.equal((await chat(never)).status, 504);
  t.same([silent.seen.length, fine.seen.length], [2, 1]);
});

t.test(
  "without retries after a timeout a count of tokens, which is not billed, still gets another provider",
  async (t) => {
    const silent = await provider(t);
    const counted = '{"input_tokens":7}';
    const head = `HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: ${counted.length}\r\n\r\n`;
    const fine = await provider(t, head + counted);
    const running = await startGateway(
      t,
      `providers:
  p0: { url: "${silent.upstream.origin.origin}/v1", speaks: [anthropic-messages], timeouts: { first_byte: 150ms } }
  p1: { url: "${fine.upstream.origin.origin}/v1", speaks: [anthropic-messages] }
models: { m: { targets: [{ to: "p0:m0", weight: 1000000 }, "p1:m1"] } }
retry: { after_timeout: false }
`,
    );
    const ask = (path: string) =>
      fetch(`${running.url}/v1/messages${path}`, {
        method: "POST",
        headers: asking(),
        body: '{"model":"m","max_tokens":1,"messages":[{"role":"user","content":"x"}]}',
      });
    const count = await ask("/count_tokens");
    t.same([count.status, await count.text()], [200, counted]);
    t.equal((await ask("")).status, 504);
    t.same([silent.seen.length, fine.seen.length], [2, 1]);
  },
);

t.test("credentials: a 401 leads to the next, a 429 to a free one, each on connections of its own", async (t) => {
  const shown = ({ head }: RawRequest) => /bearer (\S+)/i.exec(head)?.[1] ?? "";
  const answering = new Map<string, string>([
    ["first-credential", failing(401)],
    ["second-credential", failing(429, "retry-after: 30")],
    ["third-credential", ok],
  ]);
  const one = await provider(t, (socket, request) => socket.write(answering.get(shown(request)) as string));
  const env = { FIRST: "first-credential", SECOND: "second-credential", THIRD: "third-credential" };
  const credentials = ", credential: [$FIRST, $MISSING, $SECOND, $THIRD]";
  const running = await gateway(t, [one], { provider: credentials, env });
  for (let i = 0; i < 6; i++) t.equal((await chat(running)).status, 200);
  t.same(one.seen.map(shown).sort(), ["first-credential", "second-credential", ...Array(6).fill("third-credential")]);
  await running.gateway.stores.ledger.flush();
  const entries = await running.gateway.stores.ledger.recent(6);
  t.same(entries.flatMap(({ attempts }) => attempts.map(({ credential }) => credential)).sort(), [
    "FIRST",
    "SECOND",
    ...Array(6).fill("THIRD"),
  ]);
  const errors = running.log.lines.filter(({ level }) => level === "error");
  t.equal(errors.length, 1);
  t.match(errors[0]?.fields, { credential: "FIRST", status: 401 });
  t.notMatch(JSON.stringify(running.log.lines), /-credential"/);
  const connections = new Map<number, Set<string>>();
  for (const request of one.seen)
    connections.set(request.connection, (connections.get(request.connection) ?? new Set()).add(shown(request)));
  t.ok([...connections.values()].every(({ size }) => size === 1));
});

t.test("credentials: while all are refused a request tries one of them, and the client gets its refusal", async (t) => {
  const one = await provider(t, failing(401));
  const env = { FIRST: "first-credential", SECOND: "second-credential" };
  const running = await gateway(t, [one], { provider: ", credential: [$FIRST, $SECOND]", env });
  for (const asked of [2, 3, 4]) {
    await chat(running);
    t.equal(one.seen.length, asked);
  }
});

t.test("credentials: a 429 of a request that is larger than the limit affects the client alone", async (t) => {
  const message = "Request too large for m on tokens per min (TPM): Limit 30000, Requested 50000.";
  const body = JSON.stringify({ error: { message, type: "tokens", code: "rate_limit_exceeded" } });
  const large = `HTTP/1.1 429 x\r\ncontent-type: application/json\r\nretry-after: 3600\r\ncontent-length: ${body.length}\r\n\r\n${body}`;
  const one = await provider(t, large, ok);
  const env = { FIRST: "first-credential", SECOND: "second-credential" };
  const running = await gateway(t, [one], { provider: ", credential: [$FIRST, $SECOND]", env });
  const answer = await chat(running);
  t.same([answer.status, answer.headers.get("x-should-retry"), one.seen.length], [429, "false", 1]);
  t.match(await answer.text(), /Requested 50000/);
  for (let i = 0; i < 2; i++) t.equal((await chat(running)).status, 200);
  t.match(
    one.seen.map(({ head }) => head).join(),
    /first-credential[\s\S]*second-credential|second-credential[\s\S]*first-credential/,
  );
});

t.test("the budget: a share of the requests of ten seconds, and a minimum number", async (t) => {
  let now = 50_000;
  const limits = { attempts: 1, budget: 0.2, least: 2, wait: 0, after_timeout: true, first_frame: 0 };
  const budget = new RetryBudget(limits, () => now);
  const granted = () => {
    let count = 0;
    while (budget.takeRetry()) count++;
    return count;
  };
  t.equal(granted(), 20);
  now += 10_000;
  for (let i = 0; i < 500; i++) budget.countRequest();
  t.equal(granted(), 100);
  t.equal(granted(), 0);
  now += 5000;
  t.equal(granted(), 0);
  now += 5000;
  t.equal(granted(), 20);
});

t.test("the classification of statuses and errors", async (t) => {
  const of = (...statuses: number[]) => statuses.map(outcomeOfStatus);
  t.same(of(200, 400, 404, 409, 422), Array(5).fill("final"));
  t.same(of(401, 402, 403, 429), Array(4).fill("refused"));
  t.same(of(500, 502, 503, 529), Array(4).fill("failed"));
  t.equal(outcomeOfStatus(504), "late");
  t.same(
    [
      ...["upstream_unreachable", "not_translatable", "object_not_found"],
      ...["upstream_failed", "upstream_timeout", "client_gone"],
    ].map(outcomeOfError),
    ["unsent", "unsent", "unsent", "broken", "late", "final"],
  );
});

t.test("a request that only reads is retried where the provider closed the connection", async (t) => {
  const one = await provider(
    t,
    'HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 31\r\n\r\n{"id":"resp_twice","output":[]}',
    (socket) => socket.destroy(),
    OK,
  );
  const running = await startGateway(
    t,
    `providers: { up: { url: "${one.upstream.origin.origin}/v1", speaks: [openai-responses] } }\nmodels: { m: { targets: [up:m] } }\n`,
  );
  const ask = (method: string, path: string, body?: string) =>
    fetch(`${running.url}/v1/responses${path}`, { method, headers: asking(), ...(body ? { body } : {}) });
  await (await ask("POST", "", '{"model":"m","input":"x"}')).text();
  t.equal((await ask("GET", "/resp_twice")).status, 200);
  t.equal(one.seen.length, 3);
});

// At the same time: most of it is waiting before retries, for times that may be longer.
t.jobs = 5;
t.test("a failing provider is tried again once, then clients are told not to retry", async (t) => {
  const one = await provider(t, failing(503), ok);
  const first = await gateway(t, [one]);
  const answer = await chat(first);
  t.same([answer.status, one.seen.length, answer.headers.get("x-should-retry")], [200, 2, null]);
  t.match(await attempts(first), [{ status: 503 }, { status: 200 }]);
  const [two, three, four] = [await provider(t, failing(500)), await provider(t, failing(503)), await provider(t, ok)];
  const spent = await chat(await gateway(t, [two, three, four]));
  t.same([spent.status, spent.headers.get("x-should-retry"), four.seen.length], [503, "false", 0]);
  const more = await gateway(t, [two, three, four], { more: "retry: { attempts: 2 }\n" });
  t.equal((await chat(more)).status, 200);
  const none = await chat(await gateway(t, [two, four], { more: "retry: { attempts: 0 }\n" }));
  t.same([none.status, none.headers.get("x-should-retry")], [500, null], "then clients may retry");
});

t.test("a wait that the provider requests is respected, and passed on where it is too long", async (t) => {
  const cases = [
    ["retry-after-ms: 120", 200, 2],
    [`date: ${new Date(0).toUTCString()}\r\nretry-after: ${new Date(0).toUTCString()}`, 200, 2],
    ["retry-after: 1", 200, 2],
    ["retry-after: 60", 503, 1],
    [`retry-after: ${new Date(Date.now() + 90_000).toUTCString()}`, 503, 1],
  ] as const;
  await Promise.all(
    cases.map(async ([line, status, times]) => {
      const one = await provider(t, failing(503, line), ok);
      const running = await gateway(t, [one]);
      const asked = performance.now();
      const answer = await chat(running);
      t.same([answer.status, one.seen.length], [status, times], line);
      if (line.startsWith("retry-after-ms")) t.ok(performance.now() - asked >= 119, "not before it is over");
      if (status === 503) t.ok(answer.headers.get("retry-after"));
    }),
  );
});

t.test("clients may retry after a wait that was too long here, whatever was tried before", async (t) => {
  const long = (status: number) => provider(t, failing(status, "retry-after: 60"));
  const told = async (...providers: Awaited<ReturnType<typeof provider>>[]) => {
    const { status, headers } = await chat(await gateway(t, providers));
    return [status, headers.get("retry-after"), headers.get("x-should-retry")];
  };
  for (const status of [429, 503]) {
    t.same(await told(await long(status)), [status, "60", null], "not retried here");
    t.same(await told(await provider(t, failing(500)), await long(status)), [status, "60", null]);
  }
  const short = await provider(t, failing(429, "retry-after: 1"));
  t.same([await told(short), short.seen.length], [[429, "1", "false"], 2], "the gateway has waited itself");
  const final = await provider(t, failing(503, "retry-after: 60", "x-should-retry: false"));
  t.same(await told(await provider(t, failing(500)), final), [503, "60", "false"], "in the provider's own words");
});

t.test("a provider that advises against a retry gets none, but another one is called", async (t) => {
  const one = await provider(t, failing(503, "x-should-retry: false"), ok);
  const alone = await chat(await gateway(t, [one]));
  t.same([alone.status, alone.headers.get("x-should-retry"), one.seen.length], [503, "false", 1]);
  const two = await provider(t, failing(503, "x-should-retry: false"), ok);
  const other = await provider(t, ok);
  t.equal((await chat(await gateway(t, [two, other]))).status, 200);
  t.same([two.seen.length, other.seen.length], [1, 1]);
});

t.test("a 429 without a time is passed to the client, whose own backoff grows", async (t) => {
  const one = await provider(t, failing(429), ok);
  const answer = await chat(await gateway(t, [one]));
  t.same([answer.status, answer.headers.get("x-should-retry"), one.seen.length], [429, null, 1]);
  const two = await provider(t, failing(429, "retry-after-ms: 100"), ok);
  t.equal((await chat(await gateway(t, [two]))).status, 200);
});

t.test("a fallback at rest is called before the client gets the failure of a target that keeps failing", async (t) => {
  for (const [second, asked, later] of [
    [failing(429, "retry-after: 20"), 2, 200],
    [failing(429, "retry-after: 300"), 1, 500],
    [failing(403), 1, 500],
  ] as const) {
    const [dead, fallback] = [await provider(t, failing(500)), await provider(t, second, ok)];
    const running = await gateway(t, [dead, fallback], {
      provider: ", credential: $KEY",
      env: { KEY: "a-credential-0123" },
    });
    await chat(running);
    t.equal((await chat(running)).status, later, second);
    t.equal(fallback.seen.length, asked);
  }
  const [well, spare] = [
    await provider(t, failing(500), ok, failing(500), ok),
    await provider(t, failing(429, "retry-after: 20"), ok),
  ];
  const running = await gateway(t, [well, spare], {
    provider: ", credential: $KEY",
    env: { KEY: "a-credential-0123" },
  });
  await chat(running);
  t.equal((await chat(running)).status, 200);
  t.equal((await chat(running)).status, 200);
  t.equal(spare.seen.length, 1, "one that failed once is called again itself");
});

t.test("a target at rest is called once for a request, within the budget", async (t) => {
  const key = { provider: ", credential: $KEY", env: { KEY: "a-credential-0123" } };
  const limited = failing(429, "retry-after: 20");
  const all = [await provider(t, failing(500)), await provider(t, limited), await provider(t, limited)] as const;
  const running = await gateway(t, all, { ...key, more: "retry: { attempts: 5 }\n" });
  await chat(running);
  const before = all.map(({ seen }) => seen.length);
  t.equal((await chat(running)).status, 429);
  t.same(
    all.map(({ seen }, i) => seen.length - (before[i] ?? 0)),
    [1, 1, 0],
  );
  const broken = await provider(t, limited, failing(500));
  const spare = await provider(t, limited, ok);
  const others = await gateway(t, [await provider(t, failing(500)), broken, spare], {
    ...key,
    more: "retry: { attempts: 5 }\n",
  });
  await chat(others);
  t.equal((await chat(others)).status, 500);
  t.same([broken.seen.length, spare.seen.length], [2, 1], "nor is a second one after it, in a burst of failures");
  const none = await gateway(t, [await provider(t, failing(500)), await provider(t, limited, ok)], {
    ...key,
    more: "retry: { budget: 1%, least: 0.1 }\n",
  });
  t.equal((await chat(none)).status, 429);
  t.equal((await chat(none)).status, 500);
});

t.test("a request that its provider may have worked on reaches no other one", async (t) => {
  const other = await provider(t, ok);
  const brokenOff: Script = (socket) => socket.resetAndDestroy();
  for (const [answers, status] of [
    [[brokenOff, failing(503)], 503],
    [[brokenOff, failing(401)], 401],
  ] as const) {
    const one = await provider(t, ...answers);
    const running = await gateway(t, [one, other], { provider: ", idempotency: Idempotency-Key" });
    t.equal((await chat(running)).status, status);
    t.equal(one.seen.length, answers.length);
  }
  const gone = await provider(t, ok, (socket) => {
    void gone.upstream.close();
    socket.resetAndDestroy();
  });
  const running = await gateway(t, [gone, other], { provider: ", idempotency: Idempotency-Key" });
  await chat(running);
  t.equal((await chat(running)).status, 502);
  t.equal(other.seen.length, 0);
});

t.test("a provider that supports idempotency keys gets an interrupted request again, with the same one", async (t) => {
  const dying: Script = (socket) => socket.destroy();
  const one = await provider(t, dying, ok);
  const unused = await provider(t, ok);
  const running = await gateway(t, [one, unused], { provider: ", idempotency: Idempotency-Key" });
  t.equal((await chat(running)).status, 200);
  const keys = one.seen.map(({ head }) => /\r\nidempotency-key: (\S+)/i.exec(head)?.[1]);
  t.same([keys.length, new Set(keys).size, unused.seen.length], [2, 1, 0]);
  t.ok((keys[0]?.length ?? 0) > 20);
  await chat(running);
  t.equal(new Set(one.seen.map(({ head }) => /idempotency-key: (\S+)/i.exec(head)?.[1])).size, 2);
});

t.test("a form whose files stream to the first provider is not retried", async (t) => {
  const [one, unused] = [await provider(t, failing(503)), await provider(t, ok)];
  const running = await startGateway(
    t,
    `providers:
  p0: { url: "${one.upstream.origin.origin}/v1", speaks: [openai-images] }
  p1: { url: "${unused.upstream.origin.origin}/v1", speaks: [openai-images] }
models: { m: { targets: [{ to: "p0:m0", weight: 1000000 }, "p1:m1"] } }
`,
  );
  const form = new FormData();
  form.append("model", "m");
  form.append("prompt", "x");
  form.append("image", new Blob([Buffer.alloc(3 << 20)]), "a.png");
  const { "content-type": _, ...headers } = asking();
  const answer = await fetch(`${running.url}/v1/images/edits`, { method: "POST", headers, body: form });
  t.same([answer.status, unused.seen.length], [503, 0]);
});

t.test(
  "credentials: a 400 whose code says that one is unknown disables it too, and one that only mentions it does not",
  async (t) => {
    const reason = (detail: object) => ({ error: { code: 400, status: "INVALID_ARGUMENT", ...detail } });
    const unknown = reason({ details: [{ reason: "API_KEY_INVALID" }] });
    const quoted = reason({ message: '"details":[{"reason":"API_KEY_INVALID"}]' });
    for (const [answer, path, shown] of [
      [unknown, "/v1beta/models/m:generateContent", ["FIRST", "SECOND"]],
      [[unknown], "/v1beta/models/m:streamGenerateContent", ["FIRST", "SECOND"]],
      [[unknown], "/v1/chat/completions", ["FIRST", "SECOND"]],
      [{ code: "x", error: "Incorrect API key provided: x***." }, "/v1/responses", ["FIRST", "SECOND"]],
      [quoted, "/v1beta/models/m:generateContent", ["FIRST"]],
      [{ error: { message: "Incorrect API key provided" } }, "/v1/chat/completions", ["FIRST"]],
    ] as const) {
      const body = JSON.stringify(answer);
      const refusing = `HTTP/1.1 400 x\r\ncontent-type: application/json\r\ncontent-length: ${body.length}\r\n\r\n${body}`;
      const one = await rawUpstream((socket, { head }) => {
        socket.write(head.includes("first-credential") ? refusing : ok);
      });
      t.teardown(() => one.close());
      const speaks = "[openai-chat, openai-responses, gemini]";
      const running = await startGateway(
        t,
        `providers: { p: { url: "${one.origin.origin}/v1", speaks: ${speaks}, credential: [$FIRST, $SECOND] } }\nmodels: { m: { targets: [p:m] } }\n`,
        {},
        { FIRST: "first-credential", SECOND: "second-credential" },
      );
      const init = { method: "POST", headers: asking(), body: '{"model":"m"}' };
      const answered = await fetch(running.url + path, init);
      t.equal(answered.status, shown.length === 2 ? 200 : 400, `${path} ${body}`);
      t.same(
        (await attempts(running))?.map(({ credential }) => credential),
        shown,
      );
      const errors = running.log.lines.filter(({ level }) => level === "error");
      t.match(errors, shown.length === 2 ? [{ fields: { credential: "FIRST", status: 400 } }] : { length: 0 });
    }
  },
);
