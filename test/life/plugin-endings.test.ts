import t, { type Test } from "tap";
import { asking, type Running, startGateway } from "../support/gateway.ts";
import { post } from "../support/raw.ts";
import { until } from "../support/until.ts";
import { httpUpstream } from "../support/upstream.ts";

const REQUEST = { model: "m", max_tokens: 9, messages: [{ role: "user", content: "hi" }] };

/** A gateway with a plugin, whose model has one target, or two of which the first always fails. */
async function gatewayWith(t: Test, code: string, place = "before models"): Promise<Running> {
  const failing = await httpUpstream((_, reply) =>
    reply.writeHead(500, { "content-type": "application/json" }).end('{"error":{"message":"broken"}}'),
  );
  t.teardown(() => failing.close());
  const own = place === "before models" ? "own, models" : "models, own";
  return startGateway(
    t,
    `providers: { bad: { url: "${failing.origin.origin}/v1", speaks: [openai-chat] }, demo: { url: "demo:" } }
models: { m: { targets: [demo:echo] }, second: { targets: [bad:x, demo:echo] } }
plugins: { own: { from: ./own.ts, deadline: 200ms } }
chains: { llm: [sse, auth, ${own}, rewrite, usage] }
`,
    { "own.ts": code },
  );
}

const exchangeLine = ({ log }: Running) => log.lines.findLast(({ message }) => message === "exchange")?.fields;

t.test("a plugin that replaces texts by anything but a string has failed, in requests and answers", async (t) => {
  const running = await gatewayWith(
    t,
    `import type { RequestExchange, ResponseExchange } from "model-gateway";
const GIVES = { promise: async (text) => text, rejection: async () => { throw new Error("no"); }, number: () => 5 } as never;
const act = (exchange: { query: URLSearchParams }, phase: string) => exchange.query.get("at") === phase ? GIVES[exchange.query.get("gives") as never] : (text: string) => text;
export default class Own {
  request(exchange: RequestExchange) { exchange.mapText(["user"], act(exchange as never, "request")); }
  response(exchange: ResponseExchange) { return exchange.replaceResponseText({ pattern: /hi/, maxLength: 2 }, act(exchange as never, "response")); }
}`,
  );
  for (const at of ["request", "response"])
    for (const gives of ["promise", "rejection", "number"])
      for (const stream of [false, true]) {
        const answer = await post(
          running.port,
          `/v1/chat/completions?at=${at}&gives=${gives}`,
          JSON.stringify({ ...REQUEST, stream }),
        ).catch(() => undefined);
        const what = `a ${gives} in ${at}, ${stream ? "streamed" : "whole"}`;
        t.notMatch(answer?.body.toString() ?? "", /object Promise|"content":"[^"]*5/, what);
        const error = { code: "plugin_failed", origin: `own.${at}`, cause: /must return a string/ };
        t.match(exchangeLine(running), { outcome: "failed", error }, what);
      }
});

t.test("a failure in `failed` is logged with its plugin, and the next target answers", async (t) => {
  const running = await gatewayWith(
    t,
    `import type { SendExchange } from "model-gateway";
export default class Own {
  failed(exchange: SendExchange) {
    if (exchange.query.get("way") === "throw") throw new Error("cannot look");
    return new Promise<void>(() => {});
  }
}`,
  );
  for (const [way, cause] of [
    ["throw", /cannot look/],
    ["hang", /own\.failed did not end within 0\.2 s/],
  ] as const) {
    const answer = await post(
      running.port,
      `/v1/chat/completions?way=${way}`,
      JSON.stringify({ ...REQUEST, model: "second" }),
    );
    t.equal(answer.status, 200, way);
    const told = running.log.lines.findLast(({ message }) => message === "a plugin failed to observe a failed attempt");
    t.match(told, { level: "error", fields: { origin: "own.failed", cause } }, way);
    t.match(exchangeLine(running), { status: 200, outcome: "completed", attempts: 2, error: undefined }, way);
  }
});

t.test("when a phase is too slow, the signal of its exchange fires", async (t) => {
  const running = await gatewayWith(
    t,
    `import { Log } from "model-gateway";
import { injectable } from "tsyringe";
const hang = (own: Own, exchange: { query: URLSearchParams; signal: AbortSignal }, phase: string) => {
  if (exchange.query.get("at") !== phase) return;
  exchange.signal.addEventListener("abort", () => own.log.info({ phase }, "cancelled"));
  return new Promise<never>(() => {});
};
@injectable()
export default class Own {
  constructor(readonly log: Log) {}
  access(exchange: never) { return hang(this, exchange, "access"); }
  request(exchange: never) { return hang(this, exchange, "request"); }
  route(exchange: never) { return hang(this, exchange, "route"); }
  send(exchange: never) { return hang(this, exchange, "send"); }
  response(exchange: never) { return hang(this, exchange, "response"); }
}`,
  );
  for (const at of ["access", "request", "route", "send", "response"]) {
    const { status } = await post(running.port, `/v1/chat/completions?at=${at}`, JSON.stringify(REQUEST));
    t.equal(status, 504, at);
    t.match(exchangeLine(running), { outcome: "failed", error: { code: "plugin_timeout", origin: `own.${at}` } });
    t.ok(
      running.log.lines.some(({ message, fields }) => message === "cancelled" && fields["phase"] === at),
      `cancelled in ${at}`,
    );
  }
});

t.test("the pieces of an answer that fails are ended, so that they can free what they hold", async (t) => {
  const running = await gatewayWith(
    t,
    `import { Log, type RouteExchange } from "model-gateway";
import { injectable } from "tsyringe";
const BODIES = {
  late: () => new Promise(() => {}),
  "no buffer": () => Promise.resolve({ done: false, value: 5 }),
  fine: () => Promise.resolve({ done: true }),
};
@injectable()
export default class Own {
  constructor(private readonly log: Log) {}
  route(exchange: RouteExchange) {
    const how = exchange.query.get("how") ?? "";
    const body = {
      next: BODIES[how] ?? BODIES.fine,
      return: () => { this.log.info({ how }, "returned"); return Promise.resolve({ done: true }); },
      [Symbol.asyncIterator]: () => body,
    };
    exchange.signal.addEventListener("abort", () => this.log.info({ how }, "cancelled"));
    exchange.answer = { body: body as never };
    if (how === "throws") throw new Error("after the answer");
    if (how === "hangs") return new Promise<void>(() => {});
  }
}`,
    "after models",
  );
  for (const how of ["late", "no buffer", "throws", "hangs"]) {
    const asked = { method: "POST", headers: asking(), body: JSON.stringify({ ...REQUEST, stream: true }) };
    const path = `/v1/chat/completions?how=${encodeURIComponent(how)}`;
    await fetch(running.url + path, asked).then((response) => response.text().catch(() => "cut"));
    const has = (told: string) =>
      running.log.lines.filter(({ message, fields }) => message === told && fields["how"] === how).length;
    await until(() => has("returned") > 0, `return() after ${how}`);
    t.equal(has("returned"), 1, how);
    if (how === "late" || how === "hangs") t.ok(has("cancelled") > 0, how);
  }
});

t.test("a request whose targets a plugin has all removed is a 503", async (t) => {
  const running = await gatewayWith(
    t,
    `import type { RouteExchange } from "model-gateway";
export default class Own { route(exchange: RouteExchange) { exchange.targets = exchange.targets.filter(() => false); } }`,
    "after models",
  );
  for (const path of ["/v1/chat/completions", "/v1/messages"]) {
    const { status } = await post(running.port, path, JSON.stringify(REQUEST));
    t.equal(status, 503, path);
    t.match(exchangeLine(running), { error: { code: "no_target" } }, path);
  }
});
