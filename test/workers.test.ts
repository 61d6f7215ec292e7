import { once } from "node:events";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { Agent, request } from "node:http";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as after } from "node:timers/promises";
import t, { type Test } from "tap";
import { openConnections } from "./support/descriptors.ts";
import { freePort } from "./support/free-port.ts";
import { asking } from "./support/key.ts";
import { type GatewayProcess, startProcess } from "./support/process.ts";
import { EVERY_CASE } from "./support/sample.ts";
import { until } from "./support/until.ts";

const YAML = `workers: 2
linger: 50ms
providers: { demo: { url: "demo:" } }
models: { echo: { targets: [demo:echo] }, slow: { targets: [demo:slow] } }
`;
const REQUESTS = Number(process.env["GATEWAY_TEST_WORKERS_REQUESTS"] ?? 200);

/** One request over a connection of its own, or over an agent's. */
function ask(
  gateway: GatewayProcess,
  model: string,
  { stream = false, agent = new Agent(), query = "", begun = () => {} } = {},
) {
  const asked = request(`${gateway.url}/v1/chat/completions${query}`, { method: "POST", headers: asking(), agent });
  asked.end(JSON.stringify({ model, stream, messages: [{ role: "user", content: "hi" }] }));
  return new Promise<{ status: number; text: string; whole: boolean }>((resolve, reject) => {
    asked.once("error", reject).once("response", (answer) => {
      let text = "";
      answer.setEncoding("utf8").on("data", (more) => (text += more));
      answer.once("data", begun);
      answer.once("close", () => resolve({ status: answer.statusCode ?? 0, text, whole: answer.complete }));
      answer.on("error", () => {});
    });
  });
}

/** Starts a slow stream. Returns its end in an object, once its first bytes are here. */
async function startStream(gateway: GatewayProcess, agent = new Agent()) {
  const begun = Promise.withResolvers<void>();
  const end = ask(gateway, "slow", { stream: true, agent, begun: begun.resolve });
  await Promise.race([begun.promise, end]);
  return { end };
}

/** Says by which process it is served, and breaks when it is asked to. */
const WHERE = `
export default class Where {
  access(exchange) {
    exchange.notices.push(String(process.pid));
    const how = exchange.query.get("break");
    if (how === "throw") setTimeout(() => {
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, Number(exchange.query.get("after")));
      throw new Error("no paper left");
    });
  }
}`;
const WITH_WHERE = `${YAML}plugins: { where: { from: ./where.ts } }
chains: { llm: [sse, auth, where, models, rewrite, usage] }
`;
const files = { "where.ts": WHERE };

/** Which process serves a connection. */
async function served(gateway: GatewayProcess, agent: Agent): Promise<{ pid: number; socket: unknown }> {
  const asked = request(`${gateway.url}/v1/chat/completions`, { method: "POST", headers: asking(), agent });
  asked.end('{"model":"echo","messages":[{"role":"user","content":"hi"}]}');
  const [answer] = await once(asked, "response");
  answer.resume();
  await once(answer, "end");
  return { pid: Number(answer.headers["gateway-notice"]), socket: answer.socket };
}

/** Waits until so many connections are left, and the primary has heard of the end of the others, by a message. */
async function closed({ port }: GatewayProcess, left: number): Promise<void> {
  if (process.platform === "linux") await until(() => openConnections(port) === left, "the ends of connections");
  await after(50);
}

/** Whether somebody listens. */
const listens = (port: number): Promise<boolean> =>
  new Promise((resolve) => {
    const socket = connect(port, "127.0.0.1", () => resolve(true)).once("error", () => resolve(false));
    socket.once("connect", () => socket.destroy());
  });

const withWorkers = (t: Test): Promise<GatewayProcess> => startProcess(t, WITH_WHERE, { files });

// Each has gateways of its own, and waits for streams or for the start of processes most of the time.
t.jobs = 2;

t.test("connections among workers", async (t) => {
  const gateway = await withWorkers(t);
  await t.test("short connections one after another reach each worker in turn", async (t) => {
    const pids: number[] = [];
    for (let i = 0; i < 10; i++) {
      pids.push((await served(gateway, new Agent({ keepAlive: false }))).pid);
      await closed(gateway, 0);
    }
    const [first] = pids;
    t.equal(pids.filter((pid) => pid === first).length, 5, pids.join(" "));
  });

  await t.test("connections are distributed evenly, each request has one row and one complete log line", async (t) => {
    t.match(gateway.text, /workers +2/);
    t.match(await gateway.ready(), { status: 200, body: { workers: "2 of 2" } });
    const agents = Array.from({ length: 20 }, () => new Agent({ keepAlive: true, maxSockets: 1 }));
    const pids = await Promise.all(agents.map(async (agent) => (await served(gateway, agent)).pid));
    const [first] = pids;
    t.equal(pids.filter((pid) => pid === first).length, 10, "half of them");
    t.notOk(pids.includes(gateway.child.pid as number), "the primary serves none");
    // Those of one worker leave, and new ones come to it.
    for (const [i, agent] of agents.entries()) if (pids[i] === first) agent.destroy();
    await closed(gateway, 10);
    const again = await Promise.all(
      Array.from(
        { length: 10 },
        async () => (await served(gateway, new Agent({ keepAlive: true, maxSockets: 1 }))).pid,
      ),
    );
    t.ok(again.filter((pid) => pid === first).length >= 9, "the one with fewer gets them");
    let left = REQUESTS;
    await Promise.all(
      agents.map(async (agent) => {
        while (left-- > 0) t.equal((await ask(gateway, "echo", { agent })).status, 200);
      }),
    );
    for (const agent of agents) agent.destroy();
    t.equal(await gateway.end(), 0);
    // Those of the short connections too.
    const count = REQUESTS + 40;
    t.same(gateway.ledger(), { outcomes: { completed: count }, twice: 0 });
    t.equal(new Set(gateway.lines().flatMap(({ msg, id }) => (msg === "exchange" ? [id] : []))).size, count);
    // A process that waits for a core has a slow turn too, which says nothing about the gateway.
    const complaints = gateway
      .lines()
      .filter(({ msg }) => msg !== "exchange" && !/blocked the event loop/.test(String(msg)));
    t.same(complaints, [], "no warnings");
  });
});

t.test("workers that end one after another", async (t) => {
  const gateway = await withWorkers(t);
  await t.test("a worker that is killed loses its own streams only, and is replaced", async (t) => {
    const agents = Array.from({ length: 8 }, () => new Agent({ keepAlive: true, maxSockets: 1 }));
    const pids = await Promise.all(agents.map(async (agent) => (await served(gateway, agent)).pid));
    const victim = pids[0] as number;
    const streams = (await Promise.all(agents.map((agent) => startStream(gateway, agent)))).map(({ end }) => end);
    process.kill(victim, "SIGKILL");
    const answers = await Promise.all(
      streams.map((stream) => stream.catch(() => ({ status: 0, text: "", whole: false }))),
    );
    for (const [i, answer] of answers.entries())
      t.equal(answer.whole && answer.text.includes("[DONE]"), pids[i] !== victim, `stream ${i}`);
    await until(async () => (await gateway.ready())?.body["workers"] === "2 of 2", "the replacement");
    t.equal((await ask(gateway, "echo")).status, 200);
    t.match(
      gateway.lines().find(({ msg }) => String(msg).startsWith("a worker has died")),
      { worker: victim, end: "SIGKILL" },
    );
    const metrics = await (await fetch(`${gateway.admin}/metrics`)).text();
    t.match(metrics, /^gateway_workers_wanted 2$/m);
    t.match(metrics, /^gateway_workers_up 2$/m);
    t.match(metrics, /^gateway_worker_deaths_total 1$/m);
  });

  await t.test("one that throws outside of requests ends with its exchanges; the primary continues", async (t) => {
    const stream = ask(gateway, "slow", { stream: true });
    await ask(gateway, "echo", { query: "?break=throw" });
    await until(() => gateway.text.includes("no paper left"), "the failure");
    t.equal((await ask(gateway, "echo")).status, 200, "others serve");
    t.match((await stream).text, /\[DONE\]/);
    await until(async () => (await gateway.ready())?.body["workers"] === "2 of 2", "the replacement");
  });

  await t.test("connections that wait for a worker which then throws are served by others", async (t) => {
    // On its own the other worker would get the next connections.
    const streams = (await Promise.all([1, 2, 3].map(() => startStream(gateway)))).map(({ end }) => end);
    const broken = ask(gateway, "echo", { query: "?break=throw&after=2000" }).catch(() => {});
    await after(300);
    const answers = await Promise.all(Array.from({ length: 8 }, () => ask(gateway, "echo")));
    t.same(new Set(answers.map(({ status }) => status)), new Set([200]));
    await Promise.all([...streams.map((stream) => stream.catch(() => {})), broken]);
    await until(async () => (await gateway.ready())?.body["workers"] === "2 of 2", "the replacement");
  });

  await t.test("new code or a new file that does not start leaves the old workers running", async (t) => {
    writeFileSync(`${gateway.folder}/where.ts`, 'throw new Error("half written");');
    gateway.child.kill("SIGUSR2");
    await until(() => gateway.text.includes("a new worker did not start"), "word of it");
    t.match(gateway.text, /half written/);
    t.equal((await ask(gateway, "echo")).status, 200);
    t.match(await gateway.ready(), { status: 200 });
    t.equal(await gateway.end(), 0);
  });
});

t.test("what workers have of the primary", async (t) => {
  const SIZE = `export default class Where {
  access(exchange) { exchange.notices.push(String(Buffer.poolSize)); }
}`;
  const yaml = WITH_WHERE.replace("plugins: {", "plugins: { auth: { failures: 4 },");
  const gateway = await startProcess(t, yaml, { files: { "where.ts": SIZE } });
  await t.test(
    "short buffers share little memory in a worker, too: it serves the clients that stop reading",
    async (t) => {
      const agent = new Agent();
      t.equal((await served(gateway, agent)).pid, 8192);
      agent.destroy();
    },
  );

  await t.test("wrong keys of an address are counted together", async (t) => {
    const statuses: number[] = [];
    for (let i = 0; i < 8; i++) {
      const headers = { ...asking(), authorization: `Bearer guess-${i}-0123456789`, connection: "close" };
      const answer = await fetch(`${gateway.url}/v1/models`, { headers });
      await answer.text();
      statuses.push(answer.status);
      // Connections reach each worker in turn.
      await closed(gateway, 0);
    }
    t.same(statuses, [401, 401, 401, 401, 429, 429, 429, 429]);
    t.equal(await gateway.end(), 0);
  });
});

/** Seconds of CPU that a gateway's processes have used together, for each of so many requests, and who served how many. */
async function cost(t: Test, workers: number) {
  const gateway = await startProcess(
    t,
    `log: { level: warn }\n${WITH_WHERE.replace("workers: 2", `workers: ${workers}`)}`,
    { files },
  );
  const agents = Array.from({ length: 32 }, () => new Agent({ keepAlive: true, maxSockets: 1 }));
  const counts: Record<number, number> = {};
  // As many on each connection, however fast they are answered: how the load is spread shall not depend on who got a core.
  const round = async (requests: number) => {
    await Promise.all(
      agents.map(async (agent) => {
        for (let left = Math.ceil(requests / agents.length); left > 0; left--) {
          const { pid } = await served(gateway, agent);
          counts[pid] = (counts[pid] ?? 0) + 1;
        }
      }),
    );
  };
  // What is new to V8 costs several times as much, in each of them.
  await round((workers * REQUESTS) / 4);
  const [before, earlier] = [gateway.cpu(), Object.values(counts).reduce((sum, count) => sum + count)];
  await round(REQUESTS);
  const asked = Object.values(counts).reduce((sum, count) => sum + count) - earlier;
  const used = (gateway.cpu() - before) / asked;
  for (const agent of agents) agent.destroy();
  t.equal(await gateway.end(), 0);
  t.same(gateway.ledger(), {
    outcomes: { completed: Object.values(counts).reduce((sum, count) => sum + count) },
    twice: 0,
  });
  return { used, counts: Object.values(counts) };
}

const measured = { timeout: 600_000, skip: !EVERY_CASE && "npm test measures it" };
t.test("two workers share the load, and have together the cost of one", measured, async (t) => {
  const [one, two] = [await cost(t, 1), await cost(t, 2)];
  t.equal(one.counts.length, 1);
  t.equal(two.counts.length, 2);
  const [least = 0, most = 0] = two.counts.toSorted((a, b) => a - b);
  t.comment(
    `${REQUESTS} requests: CPU for each ${(one.used * 1e6).toFixed(0)} µs with one, ${(two.used * 1e6).toFixed(0)} µs with two; ${least} and ${most} of them`,
  );
  t.ok(most <= least * 1.1, `spread: ${least} and ${most}`);
  // Fewer are not enough to tell.
  if (REQUESTS >= 20_000) t.ok(two.used <= one.used * 1.05, "CPU");
});

t.test("what a killed worker could not write is reported as lost", async (t) => {
  // A file stands where the journal's folder should be.
  const gateway = await startProcess(t, WITH_WHERE, { files: { ...files, "gateway.db.journal": "" } });
  const agent = new Agent({ keepAlive: true, maxSockets: 1 });
  const { pid } = await served(gateway, agent);
  // The request's first line and its row; between the two a worker may tell of one.
  const told = async () => (await (await fetch(`${gateway.admin}/api/now`)).text()).includes("2 lines of the journal");
  await until(told, "the primary to know of both");
  process.kill(pid, "SIGKILL");
  await until(() => gateway.text.includes("they are lost"), "the loss");
  t.match(
    gateway.lines().find(({ lines }) => lines !== undefined),
    { worker: pid, lines: 2, level: 50 },
  );
  agent.destroy();
  await gateway.end();
});

t.test("SIGUSR2 replaces all workers, one by one; no request fails, and no stream is interrupted", async (t) => {
  // Clients that wait for a core pause for longer than the usual 50 ms of these tests.
  const gateway = await startProcess(t, WITH_WHERE.replace("linger: 50ms", "linger: 1s"), { files });
  const agent = () => new Agent({ keepAlive: true, maxSockets: 1 });
  const before = new Set(await Promise.all([agent(), agent()].map(async (each) => (await served(gateway, each)).pid)));
  t.equal(before.size, 2);
  const streams = Array.from({ length: 6 }, () => ask(gateway, "slow", { stream: true }));
  let going = true;
  const failed: unknown[] = [];
  let done = 0;
  // Over kept connections, and over a new one for each.
  const clients = [agent(), agent(), undefined, undefined].map(async (kept) => {
    while (going) {
      const answer = await ask(gateway, "echo", kept ? { agent: kept } : {}).catch((error: unknown) => error);
      if ((answer as { status?: number }).status === 200) done++;
      else failed.push(answer);
    }
  });
  gateway.child.kill("SIGUSR2");
  await until(() => gateway.text.includes("workers are replaced"), "the replacement");
  going = false;
  await Promise.all(clients);
  t.same(failed, []);
  t.ok(done > 0);
  for (const answer of await Promise.all(streams)) t.ok(answer.whole && answer.text.includes("[DONE]"));
  const now = await Promise.all([agent(), agent()].map(async (each) => (await served(gateway, each)).pid));
  t.notOk(
    now.some((pid) => before.has(pid)),
    "others serve",
  );
  t.equal(await gateway.end(), 0);
  t.same(gateway.ledger(), { outcomes: { completed: done + 10 }, twice: 0 });
});

t.test("workers whose primary was killed finish their exchanges, and then exit", async (t) => {
  const gateway = await withWorkers(t);
  const { pid } = await served(gateway, new Agent());
  const { end } = await startStream(gateway);
  gateway.child.kill("SIGKILL");
  t.match((await end).text, /\[DONE\]/);
  const alive = () => {
    try {
      return process.kill(pid, 0);
    } catch {
      return false;
    }
  };
  await until(() => !alive(), "the worker's end");
  await gateway.ended;
  await until(() => gateway.ledger().outcomes["completed"] === 2, "both rows");
});

t.test("a worker whose successor hangs in start() is replaced, once that one has been killed for it", async (t) => {
  const WAITS = `import { existsSync } from "node:fs";
export default class Where {
  async start() { if (existsSync("hang")) await new Promise(() => setInterval(() => {}, 1000)); }
  access(exchange) { exchange.notices.push(String(process.pid)); }
}`;
  // The minute that a worker has takes two seconds while it would hang.
  const shorter = `import { existsSync } from "node:fs";
const { setTimeout: set } = globalThis;
globalThis.setTimeout = (f, ms, ...a) => set(f, ms === 60_000 && existsSync("hang") ? 2000 : ms, ...a);`;
  const node = ["--import", `data:text/javascript,${encodeURIComponent(shorter)}`];
  const gateway = await startProcess(t, WITH_WHERE, { files: { "where.ts": WAITS }, node });
  const agent = new Agent({ keepAlive: true, maxSockets: 1 });
  const { pid } = await served(gateway, agent);
  agent.destroy();
  writeFileSync(join(gateway.folder, "hang"), "");
  process.kill(pid, "SIGKILL");
  await until(() => gateway.text.includes("a new worker was not ready after 60 s"), "the end of its successor");
  t.equal((await ask(gateway, "echo")).status, 200, "the other one serves");
  rmSync(join(gateway.folder, "hang"));
  await until(async () => (await gateway.ready())?.body["workers"] === "2 of 2", "both");
  t.equal(await gateway.end(), 0);
});

t.test("it is ready while a worker serves; without any, connections are closed", async (t) => {
  const gateway = await withWorkers(t);
  const agents = [new Agent({ keepAlive: true, maxSockets: 1 }), new Agent({ keepAlive: true, maxSockets: 1 })];
  const [one, other] = await Promise.all(agents.map(async (agent) => (await served(gateway, agent)).pid));
  for (const agent of agents) agent.destroy();
  writeFileSync(`${gateway.folder}/where.ts`, 'throw new Error("half written");');
  process.kill(one as number, "SIGKILL");
  await until(() => gateway.text.split("a worker has died").length > 2, "its end, and that of its successor");
  t.match(await gateway.ready(), {
    status: 200,
    body: { ready: true, workers: "1 of 2", store: "ok", why: [/^1 of 2 workers serve/] },
  });
  t.equal((await ask(gateway, "echo")).status, 200);
  process.kill(other as number, "SIGKILL");
  await until(async () => (await gateway.ready())?.status === 503, "the end of the other");
  t.match((await gateway.ready())?.body, { ready: false, workers: "0 of 2", store: "unknown", why: [/^no worker/] });
  await t.rejects(ask(gateway, "echo"), /ECONNRESET|socket hang up/, "it is not left waiting");
  await t.rejects(ask(gateway, "echo"), /ECONNRESET|socket hang up/, "nor is the next one");
  const told = () => gateway.lines().filter(({ msg }) => String(msg).startsWith("no worker serves"));
  await until(() => told().length > 0, "word of it");
  writeFileSync(`${gateway.folder}/where.ts`, WHERE);
  await until(async () => (await gateway.ready())?.body["workers"] === "2 of 2", "both");
  t.notOk((await gateway.ready())?.body["why"]);
  t.equal((await ask(gateway, "echo")).status, 200);
  t.equal(gateway.lines().filter(({ msg }) => String(msg).startsWith("a worker serves again")).length, 1);
  t.match(told(), [{ level: 50 }], "logged once");
  t.equal(await gateway.end(), 0);
});

t.test("connections are accepted once a worker serves; a start that fails reports why", async (t) => {
  const port = await freePort();
  const files = {
    "where.ts": `export default class Where {
  async start() { await new Promise((later) => setTimeout(later, 500)); throw new Error("no paper left"); }
  access() {}
}`,
  };
  let [over, connections] = [false, 0];
  const trying = (async () => {
    for (; !over; await after(20)) if (await listens(port)) connections++;
  })();
  const failed = await startProcess(t, `listen: 127.0.0.1:${port}\n${WITH_WHERE}`, { files }).catch(
    ({ message }: Error) => message,
  );
  over = true;
  await trying;
  t.equal(connections, 0);
  t.match(failed, /no paper left/);
  t.match(failed, /\na worker has ended before it was ready: \S.*\n$/, "the last line");
  t.notMatch(failed, /is replaced/);
});

t.test("the first worker that is ready serves, while others start", async (t) => {
  const [port, folder] = [await freePort(), mkdtempSync(join(tmpdir(), "gateway-"))];
  const files = {
    "where.ts": `import { mkdirSync, existsSync } from "node:fs";
export default class Where {
  async start() {
    try { mkdirSync("first"); } catch { while (!existsSync("asked")) await new Promise((later) => setTimeout(later, 50)); }
  }
  access() {}
}`,
  };
  const starting = startProcess(t, `listen: 127.0.0.1:${port}\n${WITH_WHERE}`, { files, folder });
  await until(() => listens(port), "the first worker");
  t.equal((await fetch(`http://127.0.0.1:${port}/livez`)).status, 200);
  writeFileSync(join(folder, "asked"), "");
  const gateway = await starting;
  t.match(await gateway.ready(), { status: 200, body: { workers: "2 of 2" } });
  t.equal(await gateway.end(), 0);
});
