import { once } from "node:events";
import { readdirSync } from "node:fs";
import { Agent, get } from "node:http";
import { connect, createServer, type Socket } from "node:net";
import { monitorEventLoopDelay } from "node:perf_hooks";
import { setTimeout as after } from "node:timers/promises";
import t, { type Test } from "tap";
import { chunk } from "../support/chunk.ts";
import { deafPort } from "../support/deaf-port.ts";
import { settledDescriptors } from "../support/descriptors.ts";
import { listen } from "../support/listen.ts";
import { startProcess } from "../support/process.ts";
import { until } from "../support/until.ts";
import { type RawRequest, rawUpstream } from "../support/upstream.ts";

/** How often a client leaves in each state; the plan's own number is 1,000. */
const COUNT = Number(process.env["GATEWAY_TEST_LEAVES"] ?? 6);
/** The goal in milliseconds of the 99th percentile, where the count is the plan's. */
const GOAL = 50;
/** Requests that the gateway may answer in the meantime, for half of them: what it does at once takes a few turns of its loop. */
const MAX_ANSWERS = 5;
const RESOLUTION = 5;
/** Clients of most states at a time. */
const LANES = 4;
/** Milliseconds for which its provider can write nothing until a client counts as stalled. */
const STALLED = 40;

const HEAD = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
const event = (text: string) =>
  `data: {"id":"c","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"content":"${text}"},"finish_reason":null}]}\n\n`;

interface Place {
  /** The key, model and provider of the state. */
  name: string;
  /** Which of its clients it is. */
  lane: number;
}

/** Where an exchange is when its client leaves. */
interface State {
  /** What the client sends. */
  asks(place: Place): string;
  /** What the provider does; absent: it is never asked. */
  script?: (socket: Socket, request: RawRequest) => unknown;
  /** Settles once it is there, on the client's side. */
  there?: (client: Client) => unknown;
  /** Rows of each client that has left; 1. */
  rows?: number;
  /** What is asked first. */
  behind?: string;
  /** Clients at a time; `LANES`. */
  lanes?: number;
}

interface Client {
  socket: Socket;
  readonly text: string;
}

const keyOf = (name: string) => `key-of-${name}-0123456789`;
const request = (path: string, name: string, body: string, length = Buffer.byteLength(body)) =>
  `POST ${path} HTTP/1.1\r\nhost: a\r\nx-api-key: ${keyOf(name)}\r\ncontent-type: application/json\r\ncontent-length: ${length}\r\n\r\n${body}`;
const body = ({ name, lane }: Place) =>
  `{"model":"${name}","max_tokens":9,"stream":true,"messages":[{"role":"user","content":"lane-${lane} "}]}`;
const chat = (place: Place) => request("/v1/chat/completions", place.name, body(place));
const messages = (place: Place) => request("/v1/messages", place.name, body(place));
const got = (text: string) => (client: Client) => until(() => client.text.includes(text), text);
/** `performance.now()` when a provider could last write. */
let flowed = 0;
/** Events as long as somebody takes them. */
function flow(socket: Socket, pause: number, text: string): void {
  socket.write(HEAD);
  const piece = chunk(event(text));
  const more = () => {
    if (socket.destroyed) return;
    flowed = performance.now();
    if (socket.write(piece)) setTimeout(more, pause);
    else socket.once("drain", more);
  };
  more();
}

const STATES: Record<string, State> = {
  "half-a-head": {
    asks: () => "POST /v1/chat/completions HTTP/1.1\r\nhost: a\r\nx-api",
    there: () => after(5),
    rows: 0,
  },
  "half-a-body": { asks: (place) => chat(place).slice(0, -9), there: () => after(5) },
  queued: { asks: chat, there: () => after(5) },
  "waiting-for-headers": { asks: chat, script: () => {} },
  "headers-out": { asks: chat, script: (socket) => socket.write(HEAD), there: got("200 OK") },
  streaming: { asks: chat, script: (socket) => flow(socket, 2, "x"), there: got("data: ") },
  stalled: {
    asks: chat,
    script: (socket) => flow(socket, 0, "x".repeat(200_000)),
    there: async ({ socket }) => {
      socket.pause();
      while (performance.now() - flowed < STALLED) await after(5);
    },
    lanes: 1,
  },
  "retry-sleep": {
    asks: chat,
    script: (socket) => socket.write(`HTTP/1.1 503 No\r\nretry-after: 20\r\ncontent-length: 0\r\n\r\n`),
    there: () => after(10),
  },
  "behind-a-fallback": { asks: chat, script: () => {}, behind: "failing" },
  "translated-stream": {
    asks: messages,
    script: (socket) => flow(socket, 2, "x"),
    there: got("content_block_delta"),
  },
  "passed-upload": {
    asks: ({ name, lane }) => request(`/pass/${name}/lane-${lane}`, name, `{"a":"${"x".repeat(1000)}`, 1_000_000),
    script: () => {},
  },
  "passed-stream": {
    asks: ({ name, lane }) => request(`/pass/${name}/lane-${lane}`, name, "{}"),
    script: (socket) => flow(socket, 2, "x"),
    there: got("data: "),
  },
  websocket: {
    asks: ({ name, lane }) =>
      `GET /v1/realtime?model=${name}&intent=lane-${lane} HTTP/1.1\r\nhost: a\r\nx-api-key: ${keyOf(name)}\r\nconnection: upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\nsec-websocket-key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n`,
    script: (socket) =>
      socket.write(
        "HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: websocket\r\nsec-websocket-accept: ICX+Yqv66kxgM0FcWaLWlFLwTAI=\r\n\r\n",
      ),
    there: got("101 "),
  },
};

/** The provider of a state: tells of each request that has come, by its lane. */
async function provider(t: Test, { script }: State) {
  const arrivals = new Map<number, (socket: Socket) => void>();
  let asked = 0;
  const upstream = await rawUpstream(async (socket, request) => {
    asked++;
    const lane = /lane-(\d+)/;
    const [, number] = lane.exec(request.head) ?? lane.exec(String(await request.body)) ?? [];
    arrivals.get(Number(number))?.(socket);
    script?.(socket, request);
  });
  t.teardown(() => upstream.close());
  const arrival = (lane: number) => new Promise<Socket>((resolve) => arrivals.set(lane, resolve));
  return { upstream, arrival, asked: () => asked };
}

function dial(port: number): Client {
  const socket = connect(port, "127.0.0.1").setNoDelay(true);
  const client = { socket, text: "" };
  socket.on("error", () => {}).on("data", (bytes) => (client.text += bytes.toString("latin1").slice(0, 2000)));
  return client;
}

const closing = (socket: Socket) => new Promise<unknown>((closed) => socket.once("close", closed));

/** Every other one resets its connection. */
const leave = ({ socket }: Client, nth: number) => (nth % 2 ? socket.resetAndDestroy() : socket.destroy());
/** One request that the gateway answers itself, over the agent's connection. */
async function turn(port: number, agent: Agent): Promise<void> {
  const [answer] = await once(get({ port, path: "/livez", agent }), "response");
  await once(answer.resume(), "end");
}

/**
 * Returns how long something takes, in milliseconds and in other requests that the gateway answers one after another meanwhile:
 * those do not depend on who else needs the cores.
 */
async function measured(port: number, agent: Agent, hasEnded: () => boolean, ended: Promise<unknown>) {
  const began = performance.now();
  let answers = 0;
  const all = ended.then(() => performance.now() - began);
  while (!hasEnded() && answers < 10 * MAX_ANSWERS) {
    await turn(port, agent);
    if (!hasEnded()) answers++;
  }
  return { ms: await all, answers };
}
const p = (times: readonly number[], part: number) =>
  times.toSorted((a, b) => a - b)[Math.min(times.length - 1, Math.floor(times.length * part))] ?? 0;

t.test(
  "a client that disconnects ends the provider's request at once, in any state, and has one row",
  { timeout: 900_000 },
  async (t) => {
    const states = await Promise.all(
      Object.entries(STATES).map(async ([name, state]) => ({ name, state, ...(await provider(t, state)) })),
    );
    const failing = await rawUpstream((socket) => socket.write("HTTP/1.1 500 No\r\ncontent-length: 0\r\n\r\n"));
    t.teardown(() => failing.close());
    const deaf = await deafPort(t);
    const silent = createServer();
    const silentPort = await listen(t, silent);
    const all = [...states.map(({ name }) => name), "connecting", "tls"];
    const gateway = await startProcess(
      t,
      `log: { level: warn }
overload: { per_key: ${LANES + 1}, wait: 60s, delay: off }
health: { failures: 1000000, errors: "off" }
retry: { budget: 100%, least: 100000, wait: 60s, first_frame: off }
providers:
${states
  .map(
    ({ name, upstream }) =>
      `  ${name}: { url: "${upstream.origin.origin}/v1", speaks: [openai-chat], websocket: true }`,
  )
  .join("\n")}
  connecting: { url: "http://127.0.0.1:${deaf}/v1", speaks: [openai-chat], timeouts: { connect: 60s } }
  tls: { url: "https://127.0.0.1:${silentPort}/v1", speaks: [openai-chat], timeouts: { connect: 60s } }
  failing: { url: "${failing.origin.origin}/v1", speaks: [openai-chat] }
models:
${all.map((name) => `  ${name}: { targets: ["${STATES[name]?.behind ?? name}:m"${STATES[name]?.behind ? `, "${name}:m"` : ""}] }`).join("\n")}
keys: { ${all.map((name) => `${name}: { key: ${keyOf(name)} }`).join(", ")} }
paths: { "/pass/passed-upload/*": { pass: passed-upload }, "/pass/passed-stream/*": { pass: passed-stream } }
`,
    );
    const { port } = gateway;
    const times: Record<string, { ms: number; answers: number }[]> = Object.fromEntries(all.map((name) => [name, []]));
    const agent = new Agent({ keepAlive: true, maxSockets: 1 });
    t.teardown(() => agent.destroy());
    /** Lets a client leave, and waits for the end of the provider's connection. */
    const left = async (name: string, nth: number, client: Client, socket: Socket) => {
      const closed = closing(socket);
      leave(client, nth);
      times[name]?.push(await measured(port, agent, () => socket.closed, closed));
    };
    // They hold all that their key may have, so that its others wait.
    const holding = Array.from({ length: LANES + 1 }, (_, lane) => {
      const client = dial(port);
      client.socket.write(chat({ name: "queued", lane }));
      return client;
    });
    const queued = states.find(({ name }) => name === "queued");
    await until(() => queued?.asked() === LANES + 1, "those in front");

    // Nobody on the other side hears of these: what tells is the gateway's own list of what it has open.
    const open = () => readdirSync(`/proc/${gateway.child.pid}/fd`).length;
    await turn(port, agent);
    // The thread of the ledger starts with the first row.
    const before = await settledDescriptors(gateway.child.pid as number);
    for (let nth = 0; nth < COUNT; nth++) {
      const client = dial(port);
      client.socket.write(chat({ name: "connecting", lane: 0 }));
      await until(() => open() === before + 2, "an attempt to connect");
      leave(client, nth);
      const ended = () => open() <= before;
      times["connecting"]?.push(await measured(port, agent, ended, until(ended)));
    }

    const lateness = monitorEventLoopDelay({ resolution: RESOLUTION });
    lateness.enable();
    for (const { name, state, arrival } of states) {
      const { lanes: count = LANES } = state;
      const lanes = Array.from({ length: count }, async (_, lane) => {
        for (let nth = lane; nth < COUNT; nth += count) {
          const asked = state.script && arrival(lane);
          const client = dial(port);
          client.socket.write(state.asks({ name, lane }));
          const socket = await asked;
          await state.there?.(client);
          if (socket && name !== "retry-sleep") await left(name, nth, client, socket);
          else leave(client, nth);
        }
      });
      await Promise.all(lanes);
    }
    for (let nth = 0; nth < COUNT; nth++) {
      const client = dial(port);
      const came = once(silent, "connection");
      client.socket.write(chat({ name: "tls", lane: 0 }));
      const [socket] = (await came) as [Socket];
      socket.on("error", () => {});
      await once(socket, "data");
      await left("tls", nth, client, socket);
    }
    await after(100);
    const asked = (name: string) => states.find((each) => each.name === name)?.asked();
    t.equal(asked("half-a-body"), 0, "an incomplete request is not sent");
    t.equal(asked("queued"), LANES + 1, "a client that disconnects while it waits is not sent");
    t.equal(asked("retry-sleep"), COUNT, "no retry for a client that has disconnected");
    for (const client of holding) client.socket.destroy();
    t.equal(await gateway.end(), 0);
    const expected = all
      .filter((name) => STATES[name]?.rows !== 0)
      .map((name) => [name, { aborted: COUNT + (name === "queued" ? LANES + 1 : 0) }]);
    const { "": nobody, ...rows } = gateway.outcomes();
    t.equal(nobody, undefined);
    t.same(rows, Object.fromEntries(expected), "one row each");
    t.equal(gateway.ledger().twice, 0);
    // What comes while this process does not get its turn is seen late.
    lateness.disable();
    const late = Math.max(0, lateness.percentile(99) / 1e6 - RESOLUTION);
    t.comment(`this process itself was late: p99 ${late.toFixed(1)} ms`);
    for (const [name, own] of Object.entries(times)) {
      if (own.length === 0) continue;
      const ms = own.map(({ ms }) => ms);
      const half = p(
        own.map(({ answers }) => answers),
        0.5,
      );
      t.comment(
        `${name}: ${own.length}, p50 ${p(ms, 0.5).toFixed(1)} ms, ${half} answers, p99 ${p(ms, 0.99).toFixed(1)} ms`,
      );
      t.ok(half <= MAX_ANSWERS, `${name}: half of them before the gateway has answered ${MAX_ANSWERS} others`);
      if (COUNT >= 1000) t.ok(p(ms, 0.99) <= GOAL + late, `${name}: within ${GOAL} ms`);
    }
  },
);
