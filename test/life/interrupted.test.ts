/** Requests that the gateway itself breaks off, at any moment: each ends whole or with an error, once, and keeps nothing. */
import { stat } from "node:fs/promises";
import { request } from "node:http";
import { connect, createServer } from "node:net";
import { setTimeout as after } from "node:timers/promises";
import t, { type Test } from "tap";
import { dice } from "../support/dice.ts";
import { CLIENTS, type Client } from "../support/four-clients.ts";
import { asking, type Running, startGateway } from "../support/gateway.ts";
import { listen } from "../support/listen.ts";
import { until } from "../support/until.ts";

const REQUESTS = Number(process.env["GATEWAY_TEST_INTERRUPTED"] ?? 600);
/** Requests at a time. */
const LANES = 12;

const PROTOCOLS = Object.keys(CLIENTS);
/** How a complete stream ends in each protocol. */
const TERMINAL: Readonly<Record<string, RegExp>> = {
  "openai-chat": /data: \[DONE\]\n\n$/,
  "openai-responses": /"type":"response\.(?:completed|incomplete)".*\n\n$/,
  "anthropic-messages": /"type":"message_stop".*\n\n$/,
  gemini: /"finishReason":".*\s+$/,
};
const ERROR = /"error"|"response\.failed"/;

/** Starts a provider of every protocol, which on some connections sends small pieces with pauses between them. Returns its port. */
async function slowProvider(t: Test): Promise<number> {
  const { port } = await startGateway(
    t,
    'providers: { demo: { url: "demo:" } }\nmodels: { echo: { targets: [demo:echo] } }\nplugins: { auth: { anonymous: true } }\nshare: all\n',
  );
  let count = 0;
  const server = createServer(async (client) => {
    const roll = dice(count++);
    const slow = roll(2) === 0;
    const upstream = connect(port, "127.0.0.1");
    client.on("error", () => upstream.destroy()).pipe(upstream);
    try {
      for await (const bytes of upstream as AsyncIterable<Buffer>)
        for (let at = 0; at < bytes.length; ) {
          const length = slow ? 1 + roll(600) : bytes.length;
          client.write(bytes.subarray(at, at + length));
          at += length;
          if (slow) await after(roll(4));
        }
    } catch {
      // Its client has left.
    }
    client.destroySoon();
  });
  return listen(t, server);
}

interface Response {
  status: number;
  text: string;
  /** Whether it has ended as its framing says. */
  whole: boolean;
}

/** What happens to a request: its key's end, its cancellation, or that its client leaves. */
const EVENTS: Readonly<Record<string, (running: Running, name: string, leave: () => void) => unknown>> = {
  revoke: ({ gateway }, name) => gateway.stores.keys.revoke(name),
  disable: ({ gateway }, name) => gateway.stores.keys.disable(name),
  cancel: ({ gateway }, name) => {
    for (const { exchange } of gateway.exchanges) if (exchange.caller?.name === name) gateway.cancel(exchange.id);
  },
  leave: (_running, _name, leave) => leave(),
  nothing: () => {},
};

/** Sends one request, and lets one of the events happen to it; returns what is wrong with its end. */
async function interrupt(running: Running, number: number): Promise<string | undefined> {
  const roll = dice(number);
  const pick = <T>(all: readonly T[]) => all[roll(all.length)] as T;
  const protocol = pick(PROTOCOLS);
  const event = pick(Object.keys(EVENTS));
  const [streams, early, model] = [roll(2) === 0, roll(2) === 0, pick(PROTOCOLS)];
  const client = CLIENTS[protocol] as Client;
  const name = `n${number}`;
  const { key } = await running.gateway.stores.keys.create({ name, group: "all" });
  const body = client.with(client.ask("hello ".repeat(1 + roll(300)), "look"), model, streams);
  const { status, text, whole } = await new Promise<Response>((done) => {
    const outgoing = request(
      {
        port: running.port,
        method: "POST",
        path: client.path(model, streams),
        headers: asking({ authorization: `Bearer ${key}` }),
      },
      (response) => {
        let text = "";
        response.setEncoding("utf8").on("data", (more) => (text += more));
        response.on("error", () => {});
        response.on("close", () => done({ status: response.statusCode ?? 0, text, whole: response.complete }));
        if (!early) void fire();
      },
    );
    const fire = async () => {
      await after(roll(early ? 20 : 80));
      // Not as a timer, but like a message of another process: between a response and what follows from it.
      await stat(".");
      await EVENTS[event]?.(running, name, () => outgoing.destroy());
    };
    outgoing.on("error", () => done({ status: 0, text: "", whole: false })).end(JSON.stringify(body));
    if (early) void fire();
  });
  const wrong = (what: string) =>
    `${number}: ${event}, ${protocol} from ${model}: ${what}: ${status} ${text.slice(-200)}`;
  if (event === "leave") return undefined;
  if (status !== 200) return whole && ERROR.test(text) && event !== "nothing" ? undefined : wrong("no error");
  if (streams) {
    if (TERMINAL[protocol]?.test(text)) return whole ? undefined : wrong("cut after its end");
    return ERROR.test(text) && event !== "nothing" ? undefined : wrong("cut silently");
  }
  return whole && client.read(JSON.parse(text)).text.includes("hello") ? undefined : wrong("not whole");
}

t.test("a request that is broken off at any moment ends whole or with an error, once, and keeps nothing", async (t) => {
  const port = await slowProvider(t);
  const url = (protocol: string) => `http://127.0.0.1:${port}/${protocol === "gemini" ? "v1beta" : "v1"}`;
  const providers = PROTOCOLS.map((name) => `  ${name}: { url: "${url(name)}", speaks: [${name}] }\n`);
  const models = PROTOCOLS.map(
    (name) => `  ${name}: { targets: [${name}:echo], price: { input: 1, output: 2 }, output: 1k }\n`,
  );
  const running = await startGateway(
    t,
    `providers:\n${providers.join("")}models:\n${models.join("")}limits: { groups: { all: { concurrency: 100, budget: $1000/day } } }\n`,
  );
  const { gateway } = running;
  const { key } = await gateway.stores.keys.create({ name: "last", group: "all" });
  const found: string[] = [];
  let next = 0;
  const lane = async () => {
    while (next < REQUESTS) {
      const wrong = await interrupt(running, next++);
      if (wrong) found.push(wrong);
    }
  };
  await Promise.all(Array.from({ length: LANES }, lane));
  t.same(found, []);
  await until(() => gateway.exchanges.length === 0, "the end of all");
  const rows = await gateway.stores.ledger.recent(REQUESTS + 1);
  t.equal(rows.length, gateway.begun, "each has one row");
  t.equal(new Set(rows.map(({ id }) => id)).size, rows.length);
  const answer = await fetch(`${running.url}/v1/key`, { headers: asking({ authorization: `Bearer ${key}` }) });
  const { data } = (await answer.json()) as { data: { limits: object[] } };
  t.match(data.limits[0], { concurrency: { limit: 100, remaining: 100 }, budgets: [{ reserved: 0 }] });
});
