import t from "tap";
import { startGateway } from "../support/gateway.ts";
import { each, post } from "../support/raw.ts";

/** Requests for each fault, in each state; beside each of them a good one. */
const TIMES = Number(process.env["GATEWAY_TEST_FAULTS"] ?? 1);

const HOOKS = ["access", "request", "route", "send", "response", "stage", "done"] as const;
const WAYS = ["throw", "reject", "hang", "spin", "leak"] as const;
type Hook = (typeof HOOKS)[number];
type Way = (typeof WAYS)[number];

/** Does wrong in the hook and way that the query names; a stage may not give a promise, whatever becomes of that. */
const BAD = `
const kept = [];
const WAYS = {
  throw(hook) { throw new Error("bad " + hook); },
  reject: async (hook) => { throw new Error("bad " + hook); },
  hang: () => new Promise(() => {}),
  spin() { const end = performance.now() + 30; while (performance.now() < end); },
  leak(hook, exchange) {
    kept.push(Buffer.alloc(100_000, 1), exchange);
    exchange.onAbort?.(() => kept.length);
    exchange.signal?.addEventListener("abort", () => kept.length);
  },
};
const bad = (exchange, hook) => exchange.query.get("at") === hook ? WAYS[exchange.query.get("way")](hook, exchange) : undefined;
export default class Bad {
  access(exchange) { return bad(exchange, "access"); }
  request(exchange) { return bad(exchange, "request"); }
  route(exchange) { return bad(exchange, "route"); }
  send(exchange) { return bad(exchange, "send"); }
  response(exchange) { return bad(exchange, "response") ?? ((frame) => bad(exchange, "stage")); }
  done(exchange) { return bad(exchange, "done"); }
}`;

/** What is asked: whole and streamed, as it comes and translated. */
const STATES: Record<string, { path: string; body: object; over: RegExp }> = {
  whole: { path: "/v1/chat/completions", body: {}, over: /"finish_reason":"stop"/ },
  streamed: { path: "/v1/chat/completions", body: { stream: true }, over: /\[DONE\]/ },
  "another protocol's": { path: "/v1/messages", body: { max_tokens: 9 }, over: /"stop_reason":"end_turn"/ },
  "another protocol's, streamed": { path: "/v1/messages", body: { max_tokens: 9, stream: true }, over: /message_stop/ },
};

/** Whether a client hears of it: what spins or leaks only takes its time, what is behind the answer is not the client's. */
const harmless = (hook: Hook, way: Way): boolean => way === "spin" || way === "leak" || hook === "done";

t.test(
  "a faulty plugin, whatever and wherever the fault, ends its own requests only, and the log names it",
  async (t) => {
    const running = await startGateway(
      t,
      `providers: { demo: { url: "demo:" } }
models: { echo: { targets: [demo:echo] } }
plugins: { bad: { from: ./bad.ts, deadline: 200ms } }
chains: { llm: [sse, auth, bad, models, rewrite, usage] }
`,
      { "bad.ts": BAD },
    );
    const asked = HOOKS.flatMap((hook) =>
      WAYS.flatMap((way) =>
        Object.entries(STATES).flatMap(([state, asks]) =>
          Array.from({ length: TIMES }, () => ({ hook, way, state, ...asks })),
        ),
      ),
    );
    const ask = (path: string, body: object) =>
      post(running.port, path, JSON.stringify({ model: "echo", messages: [{ role: "user", content: "hi" }], ...body }));
    await each(
      asked,
      async ({ hook, way, state, path, body, over }) => {
        const [wrong, good] = await Promise.all([
          ask(`${path}?at=${hook}&way=${way}`, body).catch(() => undefined),
          ask(path, body),
        ]);
        const what = `${way} in ${hook}, ${state}`;
        t.equal(good.status, 200, `beside ${what}`);
        t.match(good.body.toString(), over, `beside ${what}`);
        if (harmless(hook, way)) t.match(wrong?.body.toString(), over, what);
        else {
          t.notMatch(wrong?.body.toString() ?? "", over, what);
          if (wrong && wrong.status !== 200)
            t.ok(wrong.status === 500 || wrong.status === 504, `${what}: ${wrong.status}`);
        }
      },
      8,
    );
    const told = JSON.stringify(running.log.lines.filter(({ level }) => level === "error" || level === "warn"));
    for (const hook of HOOKS) t.match(told, `bad.${hook === "stage" ? "response" : hook}`, `${hook} is named`);
    await running.gateway.stores.ledger.flush();
    t.equal((await running.gateway.stores.ledger.recent(10_000)).length, 2 * asked.length, "a row for each");
  },
);

t.test("a plugin that blocks the event loop is named in the log and counted", async (t) => {
  const { port, log, gateway } = await startGateway(
    t,
    `providers: { demo: { url: "demo:" } }
models: { echo: { targets: [demo:echo] } }
plugins: { slow: { from: ./slow.ts } }
chains: { llm: [sse, auth, slow, models, rewrite, usage] }
`,
    {
      // Time in which other programs had the core is not the plugin's.
      "slow.ts": `const used = () => process.threadCpuUsage().user / 1000;
export default class Slow {
  request() { for (const end = used() + 70; used() < end; ); }
}`,
    },
  );
  const blocking = async () => {
    const metrics = (await gateway.answers.answer("metrics", null)) as { name: string; values: { value: number }[] }[];
    return metrics.find(({ name }) => name === "gateway_plugin_blocking_calls_total")?.values ?? [];
  };
  const told = () => log.lines.filter(({ fields }) => (fields as { origin?: string }).origin === "slow.request");
  // The first one is seen as a late event loop, and those after it are timed.
  for (let i = 0; i < 20 && (await blocking())[0]?.value !== 2; i++)
    await post(port, "/v1/chat/completions", '{"model":"echo","messages":[{"role":"user","content":"hi"}]}');
  t.match(await blocking(), [{ labels: { plugin: "slow", hook: "request" }, value: 2 }]);
  t.match(told(), [{ level: "warn", message: /blocked the event loop/, fields: { ms: Number, calls: 1 } }]);
  t.equal(told().length, 1);
});

/** Gives values that cannot be sent, which the query names, in the phase that it names. */
const UNSENDABLE = `import { GatewayError } from "model-gateway";
const VALUES = {
  "status 0": () => { throw new GatewayError("own", { status: 0, message: "No." }); },
  "status NaN": async () => { throw new GatewayError("own", { status: NaN, message: "No." }); },
  allow: () => { throw new GatewayError("method_not_allowed", { allow: ["GET\\r\\nx-evil: 1"] }); },
  "header value": ({ replyHeaders }) => void replyHeaders.push("x-a", "\\u20ac"),
  "header value, later": async ({ replyHeaders }) => void replyHeaders.push("x-a", "\\u20ac"),
  "header name": ({ replyHeaders }) => void replyHeaders.push("x a", "b"),
  "header lines": ({ replyHeaders }) => void replyHeaders.push("x-a", "b\\r\\nx-evil: 1"),
  "a length": ({ replyHeaders }) => void replyHeaders.push("Content-Length", "5"),
  "another length": ({ head, headers }) => void (head?.headers ?? headers).set("Content-Length", "5"),
  "other framing": ({ replyHeaders }) => void replyHeaders.push("transfer-encoding", "chunked"),
  "the connection": async ({ replyHeaders }) => void replyHeaders.push("connection", "close"),
  "half a header": ({ replyHeaders }) => void replyHeaders.push("x-a"),
  "a notice": ({ notices }) => void notices.push(undefined),
  "what was dropped": ({ dropped }) => void dropped.push("a", 5),
  model: (exchange) => { exchange.requestedModel = 5; },
};
const act = (exchange, phase) => exchange.query.get("at") === phase ? VALUES[exchange.query.get("value")](exchange) : undefined;
export default class Unsendable {
  access(exchange) { return act(exchange, "access"); }
  request(exchange) { return act(exchange, "request"); }
  send(exchange) { return act(exchange, "send"); }
  response(exchange) { return act(exchange, "response"); }
}`;
const UNSENDABLE_VALUES = [...UNSENDABLE.matchAll(/^ {2}"?([a-z][\w ,]*)"?: (?:async )?\(/gim)].map(
  ([, name]) => name as string,
);

t.test("an invalid value is the plugin's failure, in any phase, and ends nothing but its request", async (t) => {
  const { port, log } = await startGateway(
    t,
    `providers: { demo: { url: "demo:" } }
models: { echo: { targets: [demo:echo] } }
plugins: { unsendable: { from: ./unsendable.ts } }
chains: { llm: [sse, auth, unsendable, models, rewrite, usage] }
`,
    { "unsendable.ts": UNSENDABLE },
  );
  t.equal(UNSENDABLE_VALUES.length, 15);
  for (const at of ["access", "request", "send", "response"])
    for (const value of UNSENDABLE_VALUES)
      for (const [state, { path, body }] of Object.entries(STATES)) {
        const what = `${value} in ${at}, ${state}`;
        const asked = { model: "echo", messages: [{ role: "user", content: "hi" }], ...body };
        const query = `?at=${at}&value=${encodeURIComponent(value)}`;
        const answer = await post(port, path + query, JSON.stringify(asked));
        t.equal(answer.status, 500, what);
        t.match(answer.body.toString(), /A plugin of the gateway failed/, what);
        const failed = log.lines.findLast(({ message }) => message === "exchange");
        t.match(failed?.fields, { status: 500, error: { code: "plugin_failed", origin: `unsendable.${at}` } }, what);
      }
});

t.test("what a plugin throws may be anything, in any phase", async (t) => {
  const { port, log } = await startGateway(
    t,
    `providers: { demo: { url: "demo:" } }
models: { echo: { targets: [demo:echo] } }
plugins: { odd: { from: ./odd.ts } }
chains: { llm: [sse, auth, odd, models, rewrite, usage] }
`,
    {
      "odd.ts": `const phase = (name) => (exchange) => {
  if (exchange.query.get("at") === name) throw Object.create(null);
};
export default class Odd {
  access = phase("access"); request = phase("request"); route = phase("route"); send = phase("send");
  response = phase("response"); done = phase("done");
}`,
    },
  );
  const cause = "a value of type object without a text";
  const asked = JSON.stringify({ model: "echo", messages: [{ role: "user", content: "hi" }] });
  for (const at of ["access", "request", "route", "send", "response"]) {
    t.equal((await post(port, `/v1/chat/completions?at=${at}`, asked)).status, 500, at);
    const failed = log.lines.findLast(({ message }) => message === "exchange");
    t.match(failed?.fields, { error: { code: "plugin_failed", origin: `odd.${at}`, cause } }, at);
  }
  t.equal((await post(port, "/v1/chat/completions?at=done", asked)).status, 200);
  t.match(log.lines.find(({ message }) => message === "a plugin failed to record")?.fields, { cause });
});

/** Breaks the events of a stream as the query says: all of them, or the last ones. */
const BREAKS = `import { Frame, type ResponseExchange } from "model-gateway";
const WAYS = {
  json: (frame: Frame) => frame.edited([{ start: 0, end: 1, bytes: Buffer.alloc(0) }]),
  "a new event": () => new Frame("event", Buffer.from("data: {\\n\\n")),
  "no blank line": (frame: Frame) => new Frame("event", frame.bytes.subarray(0, -1)),
  ending: (frame: Frame) => (/finish_reason":"|DONE|message_stop/.test(frame.text ?? "") ? [] : frame),
};
export default class Breaks {
  response(exchange: ResponseExchange) {
    const way = exchange.query.get("way");
    const held: Frame[] = [];
    if (way === "held") return (frame: Frame) => (frame.kind === "end" ? [...held, frame] : void held.push(frame) ?? []);
    return (frame: Frame) => (frame.kind === "end" ? frame : WAYS[way](frame));
  }
}`;

t.test("a stage that breaks a complete stream is named, and not the provider", async (t) => {
  const { port, log } = await startGateway(
    t,
    `providers: { demo: { url: "demo:" } }
models: { echo: { targets: [demo:echo] } }
plugins: { breaks: { from: ./breaks.ts } }
chains: { llm: [sse, auth, breaks, models, rewrite, usage] }
`,
    { "breaks.ts": BREAKS },
  );
  for (const path of ["/v1/chat/completions", "/v1/messages"])
    for (const way of ["json", "a new event", "no blank line", "ending", "held"]) {
      const asked = { model: "echo", max_tokens: 9, stream: true, messages: [{ role: "user", content: "hi" }] };
      const what = `${way}, ${path}`;
      const query = `?way=${encodeURIComponent(way)}`;
      const answer = await post(port, path + query, JSON.stringify(asked)).catch(() => undefined);
      const line = log.lines.findLast(({ message }) => message === "exchange")?.fields;
      if (way === "held") {
        t.match(answer?.body.toString(), /DONE|message_stop/, what);
        t.match(line, { outcome: "completed", error: undefined }, what);
      } else t.match(line, { outcome: "failed", error: { code: "plugin_failed", origin: "breaks.response" } }, what);
    }
});
