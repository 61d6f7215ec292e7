import { once } from "node:events";
import { Agent, type IncomingMessage, request } from "node:http";
import { setTimeout as after } from "node:timers/promises";
import t, { type Test } from "tap";
import { boundSocket } from "../support/kept-socket.ts";
import { asking } from "../support/key.ts";
import { KEPT, startNginx } from "../support/nginx.ts";
import { type GatewayProcess, startProcess } from "../support/process.ts";
import { until } from "../support/until.ts";

/** Streams that run at any time, requests in a second beside them, and restarts. */
const STREAMS = Number(process.env["GATEWAY_TEST_RESTART_STREAMS"] ?? 20);
const RATE = Number(process.env["GATEWAY_TEST_RESTART_RATE"] ?? 20);
const RESTARTS = Number(process.env["GATEWAY_TEST_RESTARTS"] ?? 1);

// Others may have the machine meanwhile: what is refused for that tells nothing of restarts.
const YAML = `linger: 2s
overload: { delay: off }
providers: { demo: { url: "demo:" } }
models: { echo: { targets: [demo:echo] }, slow: { targets: [demo:slow] } }
`;

/** The answer of the gateway, which nginx may have replaced by one of its own. */
function ask(port: number, agent: Agent, model: string, stream: boolean): Promise<string> {
  const options = { port, host: "127.0.0.1", path: "/v1/chat/completions", method: "POST", headers: asking(), agent };
  const { promise, resolve, reject } = Promise.withResolvers<string>();
  const asked = request(options, (answer: IncomingMessage) => {
    let text = "";
    answer.setEncoding("utf8").on("data", (more) => (text += more));
    answer.on("error", reject).on("end", () => {
      const whole = stream ? text.includes("data: [DONE]") : text.includes('"usage"');
      if (answer.statusCode === 200 && whole) resolve(text);
      else reject(new Error(`${answer.statusCode} ${text.slice(-200)}`));
    });
  });
  asked.on("error", reject).end(JSON.stringify({ model, stream, messages: [{ role: "user", content: "hi" }] }));
  return promise;
}

/** Keeps streams and requests going until it is stopped; then waits for the last of them. */
function traffic(port: number) {
  const agent = new Agent({ keepAlive: true });
  const counts = { streams: 0, requests: 0, slowest: 0 };
  const failures: string[] = [];
  let going = true;
  const note = (error: Error) => void failures.push(error.message);
  const streams = Array.from({ length: STREAMS }, async (_, i) => {
    await after((i * 1000) / STREAMS);
    for (; going; counts.streams++) await ask(port, agent, "slow", true).catch(note);
  });
  const running = new Set<Promise<unknown>>();
  const requests = (async () => {
    while (going) {
      await after(1000 / RATE);
      const began = performance.now();
      const one = ask(port, agent, "echo", false)
        .catch(note)
        .finally(() => {
          running.delete(one);
          counts.requests++;
          counts.slowest = Math.max(counts.slowest, performance.now() - began);
        });
      running.add(one);
    }
  })();
  return async () => {
    going = false;
    await Promise.all([...streams, requests]);
    await Promise.all(running);
    agent.destroy();
    return { ...counts, failures };
  };
}

const DIRECTIVES = `${KEPT} proxy_buffering off; proxy_next_upstream off; proxy_read_timeout 1h;`;

async function through(t: Test, port: number, restart: () => Promise<void>) {
  const nginx = await startNginx(t, port, DIRECTIVES);
  const stop = traffic(nginx?.port ?? port);
  await after(1500);
  for (let i = 0; i < RESTARTS; i++) {
    await restart();
    await after(500);
  }
  const { streams, requests, slowest, failures } = await stop();
  t.comment(`${streams} streams and ${requests} requests, ${RESTARTS} restarts, slowest ${Math.round(slowest)} ms`);
  t.same(failures.slice(0, 5), [], nginx?.uses ?? "no nginx");
  t.ok(streams >= STREAMS && requests >= RATE);
  return streams + requests;
}

t.test("a restart of the service fails and interrupts nothing where its socket is kept", async (t) => {
  const { fd, port } = boundSocket(t);
  let gateway: GatewayProcess = await startProcess(t, YAML, { fd });
  const { folder } = gateway;
  const count = await through(t, port, async () => {
    t.equal(await gateway.end(), 0);
    gateway = await startProcess(t, YAML, { fd, folder });
  });
  t.equal(await gateway.end(), 0);
  t.same(gateway.ledger(), { outcomes: { completed: count }, twice: 0 });
});

t.test("nor does a replacement of all workers", async (t) => {
  const gateway = await startProcess(t, `workers: 2\n${YAML}`);
  let before = 0;
  const replaced = () => gateway.text.split("workers are replaced").length - 1;
  const count = await through(t, gateway.port, async () => {
    before = replaced();
    gateway.child.kill("SIGUSR2");
    await until(() => replaced() > before, "new workers");
  });
  t.equal(await gateway.end(), 0);
  t.same(gateway.ledger(), { outcomes: { completed: count }, twice: 0 });
});

t.test("with a kept socket a stop skips its linger period: new connections wait for the next process", async (t) => {
  const { fd, port } = boundSocket(t);
  const gateway = await startProcess(t, YAML.replace("linger: 2s", "linger: 10m"), { fd });
  t.equal(gateway.port, port);
  gateway.child.kill("SIGTERM");
  const late = after(20_000, "late", { ref: false });
  t.equal(await Promise.race([gateway.ended, late]), 0, "new connections wait for the next process");
  const next = startProcess(t, YAML, { fd });
  const [answer] = await once(
    request({ port, host: "127.0.0.1", path: "/v1/models", headers: asking() }).end(),
    "response",
  );
  t.equal(answer.statusCode, 200, "one that arrived between the processes");
  answer.resume();
  t.equal(await (await next).end(), 0);
});
