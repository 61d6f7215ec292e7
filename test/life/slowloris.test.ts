import { connect, type Socket } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import t, { type Test } from "tap";
import { KEY } from "../support/key.ts";
import { entrance, WAYS } from "../support/nginx.ts";
import { startProcess } from "../support/process.ts";
import { post } from "../support/raw.ts";
import { until } from "../support/until.ts";

/** Slow connections; the plan's own number is 4,000. */
const COUNT = Number(process.env["GATEWAY_TEST_SLOW"] ?? 200);
/** Requests per second beside them, however long each takes; the plan's own number is 100. */
const RATE = COUNT < 4000 ? 50 : 100;
/**
 * Few of them are tried beside other programs, which make the event loop late, too: no request is refused for that then, and what the slow
 * ones cost is judged by the gateway's CPU.
 */
const OVERLOAD = COUNT < 4000 ? "delay: off" : "";
const BODY = '{"model":"any","max_tokens":20,"messages":[{"role":"user","content":"hi"}]}';
const YAML = 'providers: { demo: { url: "demo:" } }\nmodels: { any: { targets: [demo:echo] } }\n';

/** Who is slow has a key of its own, if any. */
const SLOW_KEY = "slow-key-0123456789abcdef";

interface Slow {
  /** Sent at once. */
  start: string;
  /** Sent bit by bit, for ever. */
  drip: string;
  /** Whether it takes the answer. */
  reads: boolean;
}

const ask = (line: string, more: string) => `${line} HTTP/1.1\r\nhost: a\r\n${more}`;
const open = (key: string) =>
  ask("POST /v1/chat/completions", `${key}content-type: application/json\r\ncontent-length: 100000\r\n\r\n`);
/** As slowhttptest does it: heads (-H), bodies (-B), readers (-X); and those that say nothing at all. */
const KINDS: Record<string, Slow> = {
  "slow heads": { start: ask("POST /v1/chat/completions", ""), drip: "x-a: b\r\n", reads: true },
  "slow request lines": { start: "GE", drip: "T", reads: true },
  "slow bodies with a key": { start: `${open(`x-api-key: ${SLOW_KEY}\r\n`)}{"model":"`, drip: "x", reads: true },
  "slow bodies without a key": { start: open(""), drip: "x", reads: true },
  "nothing at all": { start: "", drip: "", reads: true },
  "slow readers": { start: ask("GET /", "\r\n").repeat(50), drip: "", reads: false },
};

/** So many connections of a kind, and those that are still open. */
function attack(t: Test, port: number, count: number, { start, drip, reads }: Slow): Set<Socket> {
  const sockets = new Set<Socket>();
  for (let i = 0; i < count; i++) {
    const socket = connect(port, "127.0.0.1");
    sockets.add(socket);
    if (reads) socket.resume();
    else socket.pause();
    socket.on("connect", () => start !== "" && socket.write(start));
    socket.on("error", () => {}).on("close", () => sockets.delete(socket));
  }
  const timer = setInterval(() => {
    for (const socket of sockets) if (drip !== "" && !socket.connecting) socket.write(drip);
  }, 200);
  t.teardown(() => {
    clearInterval(timer);
    for (const socket of sockets) socket.destroy();
  });
  return sockets;
}

for (const way of WAYS)
  t.test(`slow connections delay nobody's responses, and are ended, ${way}`, { timeout: 300_000 }, async (t) => {
    const gateway = await startProcess(
      t,
      `log: { level: error }\noverload: { ${OVERLOAD} }\nconnections: { head: 1s, idle: 2s }\nbody: { idle: 1s, patience: 1s }
keys: { test: { key: ${KEY} }, slow: { key: ${SLOW_KEY} } }\n${YAML}`,
    );
    const port = await entrance(t, way, gateway.port);
    if (port === undefined) return;
    const each = Math.ceil(COUNT / Object.keys(KINDS).length);
    const open = Object.values(KINDS).map((slow) => attack(t, port, each, slow));
    const left = () => open.reduce((sum, { size }) => sum + size, 0);
    const asked: Promise<{ status: number; time: number }>[] = [];
    const ask = async () => {
      const began = performance.now();
      const { status } = await post(port, "/v1/chat/completions", BODY).catch(() => ({ status: 0 }));
      return { status, time: performance.now() - began };
    };
    const [began, cpu] = [performance.now(), gateway.cpu()];
    // Behind nginx it is nginx that has to do with those that come slowly.
    for (let seconds = 0; seconds < 2.5 || (way === "directly" && left() > each && seconds < 30); ) {
      await sleep(5);
      seconds = (performance.now() - began) / 1000;
      while (asked.length < seconds * RATE) asked.push(ask());
    }
    const answers = await Promise.all(asked);
    const statuses = answers.map(({ status }) => status);
    const times = answers.map(({ time }) => time).sort((a, b) => a - b);
    t.comment(`p99 of ${times.length} requests: ${times[Math.floor(times.length * 0.99)]?.toFixed(0)} ms`);
    const share = (gateway.cpu() - cpu) / ((performance.now() - began) / 1000);
    t.ok(share < 0.5, `the gateway takes less than half of a core: ${share.toFixed(2)}`);
    t.ok(statuses.length > 0, `${statuses.length} requests`);
    t.same(
      statuses.filter((status) => status !== 200),
      [],
      "all were answered",
    );
    if (way === "directly") {
      // Whoever does not read does not see the end either.
      for (const sockets of open) for (const socket of sockets) socket.resume();
      const resumed = performance.now();
      await until(() => left() === 0, "all of them to be ended").catch(() => {});
      const took = performance.now() - resumed;
      t.comment(
        `${COUNT} slow ones, ${statuses.length} requests beside them; the last one gone ${took.toFixed(0)} ms after`,
      );
      t.same(
        Object.fromEntries(Object.keys(KINDS).map((kind, i) => [kind, open[i]?.size])),
        Object.fromEntries(Object.keys(KINDS).map((kind) => [kind, 0])),
        "none is left",
      );
    }
    t.notOk(gateway.hasEnded, gateway.text.slice(-1000));
  });
