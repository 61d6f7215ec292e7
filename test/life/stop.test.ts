import { spawn } from "node:child_process";
import { once } from "node:events";
import { writeFileSync } from "node:fs";
import { connect } from "node:net";
import { join } from "node:path";
import { setTimeout as after } from "node:timers/promises";
import t, { type Test } from "tap";
import { folderFor } from "../support/folder.ts";
import { asking, KEY } from "../support/key.ts";
import { startProcess } from "../support/process.ts";
import { ROOT } from "../support/processes.ts";
import { until } from "../support/until.ts";
import { ASK, PROTOCOLS } from "../support/vendor-sdks.ts";

const CONNECTIONS = Number(process.env["GATEWAY_TEST_STOP_CONNECTIONS"] ?? 30);
const YAML = `providers: { demo: { url: "demo:" } }
models: { echo: { targets: [demo:echo] }, slow: { targets: [demo:slow] } }
`;

/** A whole request of a client that keeps its connection. */
function chat(model: string, stream = false, query = ""): string {
  const body = JSON.stringify({ model, stream, messages: [{ role: "user", content: "hi" }] });
  const head = `POST /v1/chat/completions${query} HTTP/1.1\r\nhost: a\r\nauthorization: Bearer ${KEY}`;
  return `${head}\r\ncontent-type: application/json\r\ncontent-length: ${body.length}\r\n\r\n${body}`;
}

/** A connection that keeps what comes, and how it ended. */
function dial(t: Test, port: number) {
  const socket = connect(port, "127.0.0.1");
  const got = { text: "", end: "" };
  socket.setEncoding("latin1").on("data", (text: string) => (got.text += text));
  socket.on("error", (error: NodeJS.ErrnoException) => (got.end ||= error.code ?? "error"));
  socket.on("end", () => (got.end ||= "FIN")).on("close", () => (got.end ||= "closed"));
  t.teardown(() => socket.destroy());
  return Object.assign(got, { ask: (bytes: string) => void socket.write(bytes) });
}

t.test("idle connections are served while a stream runs, and none is reset; readiness ends first", async (t) => {
  const gateway = await startProcess(t, `linger: 300ms\n${YAML}`);
  t.same((await gateway.ready())?.status, 200);
  const kept = Array.from({ length: CONNECTIONS }, () => dial(t, gateway.port));
  for (const client of kept) client.ask(chat("echo"));
  await until(() => kept.every(({ text }) => text.includes('"usage"')), "the first answers");
  const stream = dial(t, gateway.port);
  stream.ask(chat("slow", true));
  await until(() => stream.text.includes("200 OK"), "the stream");
  gateway.child.kill("SIGTERM");
  await until(async () => (await gateway.ready())?.status === 503, "readiness to go");
  t.match(await gateway.ready(), { body: { ready: false, gateway: "stopping" } });
  // New ones are still taken, for balancers that have not noticed.
  const late = dial(t, gateway.port);
  late.ask(chat("echo"));
  await until(() => late.end !== "", "the late one");
  t.match(late.text, /200 OK.*connection: close/is);
  await until(() => refused(gateway.port), "the listener to close");
  const [idle, ...others] = kept;
  for (const client of others) client.ask(chat("echo"));
  await until(() => others.every(({ end }) => end !== ""), "the second answers");
  for (const { text, end } of others) {
    t.match(text, /200 OK.*200 OK[^{]*connection: close/is);
    t.equal(end, "FIN");
  }
  t.equal(idle?.end, "", "an idle connection stays as long as something runs");
  t.equal(await gateway.ended, 0);
  t.match(stream.text, /data: \[DONE\]/);
  t.equal(idle?.end, "FIN");
  t.same(gateway.ledger(), { outcomes: { completed: 2 * CONNECTIONS + 1 }, twice: 0 });
});

const refused = (port: number): Promise<boolean> =>
  new Promise((answer) => {
    const socket = connect(port, "127.0.0.1", () => {
      socket.destroy();
      answer(false);
    }).on("error", () => answer(true));
  });

t.test(
  "at the time limit every stream ends with an error that its vendor's SDK raises, and a row with the reason",
  async (t) => {
    const gateway = await startProcess(t, `drain: 300ms\nlinger: off\n${YAML}`);
    const failures: Promise<unknown>[] = PROTOCOLS.map((protocol) =>
      ASK[protocol]({ url: gateway.url, model: "slow", stream: true }).then(
        () => `${protocol} took it for whole`,
        (error: Error) => error,
      ),
    );
    const raw = dial(t, gateway.port);
    raw.ask(chat("slow", true));
    const whole = dial(t, gateway.port);
    whole.ask(chat("slow"));
    const uploading = dial(t, gateway.port);
    uploading.ask(chat("echo").slice(0, -10));
    await until(async () => {
      const live = (await (await fetch(`${gateway.admin}/api/live`)).json()) as { requests: unknown[] };
      return live.requests.length === 7 && raw.text.includes("data: ");
    }, "all of them");
    t.equal(await gateway.end(), 0);
    for (const failure of await Promise.all(failures)) t.type(failure, Error);
    t.match(raw.text, /data: \{"error":\{"message":"The gateway is restarting.*\n\n\r\n$/, "reported in the stream");
    t.notMatch(raw.text, /\[DONE\]|\r\n0\r\n/, "which does not end like a complete one");
    for (const { text } of [whole, uploading]) {
      t.match(text, /^HTTP\/1\.1 503 /);
      t.match(text, /The gateway is restarting/);
      t.notMatch(text, /x-should-retry: false/i);
    }
    t.same(gateway.ledger(), { outcomes: { interrupted: 7 }, twice: 0 });
    const lines = gateway.lines().filter(({ msg }) => msg === "exchange");
    t.same(new Set(lines.map(({ outcome }) => outcome)), new Set(["interrupted"]));
    t.equal(lines.length, 7);
  },
);

t.test("a second signal stops it sooner, and loses no row and no line", async (t) => {
  const gateway = await startProcess(t, `linger: 5s\n${YAML}`);
  const clients = Array.from({ length: 5 }, () => dial(t, gateway.port));
  for (const client of clients) client.ask(chat("slow", true));
  await until(() => clients.every(({ text }) => text.includes("200 OK")), "the streams");
  gateway.child.kill("SIGTERM");
  await until(() => gateway.text.includes("SIGTERM:"), "the stop");
  t.equal(await gateway.end(), 0);
  t.same(gateway.ledger(), { outcomes: { interrupted: 5 }, twice: 0 });
  t.equal(gateway.lines().filter(({ outcome }) => outcome === "interrupted").length, 5);
});

const HOOKS = ["access", "request", "route", "send", "response", "stage", "done"] as const;
/** Hangs or throws in the hook that the query names, and hangs when it is closed. */
const BAD = `
const bad = (exchange, hook) => {
  if (exchange.query.get("throw") === hook) throw new Error("bad " + hook);
  if (exchange.query.get("hang") === hook) return new Promise(() => {});
};
export default class Bad {
  ${HOOKS.filter((hook) => hook !== "stage" && hook !== "response")
    .map((hook) => `${hook}(exchange) { return bad(exchange, "${hook}"); }`)
    .join("\n  ")}
  response(exchange) { return bad(exchange, "response") ?? (exchange.query.get("throw") === "stage" ? () => bad(exchange, "stage") : undefined); }
  close() { return new Promise(() => {}); }
}`;

t.test(
  "a plugin that hangs or throws, wherever that is, does not delay a stop: stores are closed, each exchange has its row",
  async (t) => {
    const gateway = await startProcess(
      t,
      `drain: 300ms\nlinger: off\n${YAML}plugins: { bad: { from: ./bad.ts, deadline: off } }
chains: { llm: [sse, auth, bad, models, rewrite, usage] }\n`,
      { files: { "bad.ts": BAD } },
    );
    const asked = HOOKS.flatMap((hook) => [`?throw=${hook}`, ...(hook === "stage" ? [] : [`?hang=${hook}`])]);
    const clients = asked.map((query) => {
      const client = dial(t, gateway.port);
      client.ask(chat("echo", true, query));
      return { query, client };
    });
    const over = /\[DONE\]|"error"/;
    await until(
      () => clients.every(({ query, client }) => over.test(client.text) || /hang=(?!done)/.test(query)),
      "all that end by themselves",
    );
    t.equal(await gateway.end(), 0);
    for (const { query, client } of clients)
      if (/hang=(?!done)/.test(query)) t.match(client.text, /^HTTP\/1\.1 503 .*The gateway is restarting/s, query);
    const { outcomes, twice } = gateway.ledger();
    t.same([outcomes["interrupted"], twice], [5, 0]);
    t.equal(
      Object.values(outcomes).reduce((sum, count) => sum + count),
      clients.length,
    );
    t.equal(gateway.lines().filter(({ msg }) => msg === "exchange").length, clients.length);
    t.match(gateway.text, /"part":"bad","cause":"Error: not closed after 5 s"/);
  },
);

t.test("SIGTERM ends a gateway that has not started yet, and SIGHUP does not", async (t) => {
  const folder = folderFor(t);
  const slow =
    'process.stdout.write("loading\\n"); await new Promise((go) => setTimeout(go, 60_000)); export default class {}';
  writeFileSync(join(folder, "slow.ts"), slow);
  writeFileSync(
    join(folder, "gateway.yaml"),
    `${YAML}listen: 127.0.0.1:0\nadmin: off\nplugins: { slow: { from: ./slow.ts } }\nchains: { llm: [sse, auth, slow, models, rewrite, usage] }\n`,
  );
  const program = spawn(process.execPath, ["--import", `${ROOT}/src/loader/register.js`, `${ROOT}/src/main.ts`], {
    cwd: folder,
  });
  t.teardown(() => program.kill("SIGKILL"));
  const ended = once(program, "exit");
  await once(program.stdout, "data");
  program.kill("SIGHUP");
  program.kill("SIGTERM");
  t.same(await ended, [0, null]);
});

t.test("SIGHUP and SIGUSR2 end nothing", async (t) => {
  const gateway = await startProcess(t, `linger: off\n${YAML}`);
  for (const [signal, word] of [
    ["SIGHUP", "reload: nothing has changed"],
    ["SIGUSR2", '"SIGUSR2'],
  ] as const) {
    gateway.child.kill(signal);
    await until(() => gateway.text.includes(word), "word of it");
  }
  const response = await fetch(`${gateway.url}/v1/models`, { headers: asking() });
  t.equal(response.status, 200);
  await response.text();
  t.equal(await gateway.end("SIGINT"), 0);
});

t.test(
  "a plugin in an endless loop is killed with its worker, and does not delay a stop",
  { skip: !process.env["GATEWAY_TEST_SPIN"] },
  async (t) => {
    const spin = "export default class Spin { access(exchange) { if (exchange.query.get('spin')) for (;;); } }";
    const gateway = await startProcess(
      t,
      `workers: 2\nlinger: off\n${YAML}plugins: { spin: { from: ./spin.ts } }\nchains: { llm: [sse, auth, spin, models, rewrite, usage] }\n`,
      { files: { "spin.ts": spin } },
    );
    const spinning = dial(t, gateway.port);
    spinning.ask(chat("echo", false, "?spin=1"));
    await after(200);
    for (let i = 0; i < 6; i++) {
      const client = dial(t, gateway.port);
      client.ask(chat("echo"));
      await until(() => client.text.includes('"usage"'), "an answer of the other worker");
    }
    await until(() => spinning.end !== "", "its end");
    t.match(gateway.text, /event loop is blocked/);
    const again = dial(t, gateway.port);
    again.ask(chat("echo", false, "?spin=1"));
    await after(200);
    t.equal(await gateway.end(), 0);
  },
);
