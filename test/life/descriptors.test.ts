/** A process that runs out of file descriptors at any stage: it refuses what needs one, and works as before once it has some. */
import { readFileSync, writeFileSync } from "node:fs";
import { Agent, request } from "node:http";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import t, { type Test } from "tap";
import {
  canLimitDescriptors,
  leaveDescriptors,
  openConnections,
  openFiles,
  settledDescriptors,
} from "../support/descriptors.ts";
import { asking } from "../support/key.ts";
import { type GatewayProcess, startProcess } from "../support/process.ts";
import { each } from "../support/raw.ts";
import { until } from "../support/until.ts";
import { httpUpstream } from "../support/upstream.ts";

/** Numbers of free descriptors: with each, another stage is the first that gets none. */
const MAX_DESCRIPTORS = Number(process.env["GATEWAY_TEST_DESCRIPTORS"] ?? 0);
const FREE = MAX_DESCRIPTORS > 0 ? Array.from({ length: MAX_DESCRIPTORS + 1 }, (_, free) => free) : [0, 2, 4, 6];
/** Milliseconds after which a client that still waits is one that hangs. */
const DEADLINE = 10_000;

const CHAT = '{"model":"m","messages":[{"role":"user","content":"hi"}]}';
const ANSWER =
  '{"id":"x","object":"chat.completion","choices":[{"index":0,"message":{"role":"assistant","content":"ok"},"finish_reason":"stop"}],"usage":{"prompt_tokens":1,"completion_tokens":1,"total_tokens":2}}';
const part = (head: string, text: string) => `--b\r\ncontent-disposition: form-data; ${head}\r\n\r\n${text}\r\n`;
/** So large that it waits for its model in a file. */
const FORM = `${part('name="image"; filename="a"', "x".repeat(700_000))}${part('name="model"', "m")}--b--\r\n`;

interface Asked {
  path: string;
  body?: string;
  type?: string;
  admin?: boolean;
  /** Whether it is an exchange, which has a row. */
  row?: boolean;
  /** What a refusal in its protocol looks like. */
  refusal?: RegExp;
}
const OPENAI = /^\{"error":\{"message":"[^"]+","type":"server_error"/;
const ASKED: Record<string, Asked> = {
  chat: { path: "/v1/chat/completions", body: CHAT, row: true, refusal: OPENAI },
  "a translated request": {
    ...{ path: "/v1/messages", body: CHAT.replace("{", '{"max_tokens":5,'), row: true },
    refusal: /^\{"type":"error","error":\{"type":"overloaded_error"/,
  },
  "a provider with a name": {
    ...{ path: "/v1beta/models/n:generateContent", body: '{"contents":[{"parts":[{"text":"hi"}]}]}', row: true },
    refusal: /^\{"error":\{"code":503,.*"status":"UNAVAILABLE"/,
  },
  "a form": {
    path: "/v1/images/edits",
    body: FORM,
    type: "multipart/form-data; boundary=b",
    row: true,
    refusal: OPENAI,
  },
  "a pass path": { path: "/files/x", body: "{}", row: true, refusal: OPENAI },
  models: { path: "/v1/models" },
  metrics: { admin: true, path: "/metrics" },
  readiness: { admin: true, path: "/readyz" },
  console: { admin: true, path: "/" },
  requests: { admin: true, path: "/api/requests" },
  spending: { admin: true, path: "/api/spend" },
};

interface Seen {
  /** 0: the connection is closed without an answer. */
  status: number;
  text: string;
}

function ask({ port, admin }: GatewayProcess, asked: Asked, agent?: Agent): Promise<Seen> {
  const { path, body, type = "application/json" } = asked;
  const { promise, resolve, reject } = Promise.withResolvers<Seen>();
  const options = {
    ...{ port: asked.admin ? Number(new URL(admin).port) : port, host: "127.0.0.1", path, agent: agent ?? false },
    ...{ method: body === undefined ? "GET" : "POST", headers: asking({ "content-type": type }) },
  };
  const sent = request(options, (answer) => {
    let text = "";
    answer.setEncoding("utf8").on("data", (more) => (text += more));
    answer.on("error", reject).on("end", () => resolve({ status: answer.statusCode ?? 0, text }));
  });
  sent.setTimeout(DEADLINE, () => reject(new Error(`${path} hangs`)));
  sent.on("error", () => resolve({ status: 0, text: "" })).end(body);
  return promise;
}

async function started(t: Test, more = "") {
  const upstream = await httpUpstream((_, reply) => reply.setHeader("content-type", "application/json").end(ANSWER));
  t.teardown(() => upstream.close());
  const { port } = upstream.origin;
  const yaml = `${more}log: { level: info }
providers:
  up: { url: "http://127.0.0.1:${port}/v1", speaks: [openai-chat, openai-images] }
  named: { url: "http://localhost:${port}/v1", speaks: [openai-chat] }
models: { m: { targets: [up:x] }, n: { targets: [named:x] } }
paths: { "/files/*": { pass: up, open: true } }
`;
  return startProcess(t, yaml);
}

const skip = canLimitDescriptors() ? false : "descriptors of a process cannot be limited here";

for (const free of FREE)
  t.test(
    `with ${free} free file descriptors, whatever finds none is refused, and works afterwards`,
    { skip },
    async (t) => {
      const gateway = await started(t);
      const pid = gateway.child.pid as number;
      // A connection for each that it has already accepted.
      const agents = new Map(Object.keys(ASKED).map((name) => [name, new Agent({ keepAlive: true, maxSockets: 1 })]));
      t.teardown(() => agents.forEach((agent) => void agent.destroy()));
      for (const [name, { admin }] of Object.entries(ASKED))
        await ask(gateway, admin ? { admin, path: "/livez" } : { path: "/v1/models" }, agents.get(name));
      let rows = 0;
      const every = async (judge: (name: string, asked: Asked, seen: Seen) => unknown, kept: boolean) => {
        for (const [name, asked] of Object.entries(ASKED)) {
          const seen = await ask(gateway, asked, kept ? agents.get(name) : undefined);
          if (asked.row && seen.status > 0) rows++;
          judge(name, asked, seen);
        }
      };
      const mayBeRefused = (name: string, { refusal }: Asked, { status, text }: Seen) => {
        if (status === 503) t.match(text, refusal ?? /./, `${name} is refused in its protocol`);
        // The admin side says what has failed in the log.
        else t.ok([200, ...(name === "metrics" ? [500] : [])].includes(status), `${name}: ${status}`);
      };
      leaveDescriptors(pid, free);
      await every(mayBeRefused, true);
      await every((name, asked, seen) => seen.status > 0 && mayBeRefused(name, asked, seen), false);
      gateway.child.kill("SIGHUP");
      await sleep(300);
      t.notOk(gateway.hasEnded, gateway.text.slice(-2000));
      leaveDescriptors(pid, "enough");
      await every((name, _asked, { status }) => t.equal(status, 200, `${name} afterwards`), false);
      t.equal(await gateway.end(), 0);
      const { outcomes, twice } = gateway.ledger();
      t.equal(
        Object.values(outcomes).reduce((sum, count) => sum + count, 0),
        rows,
        "each exchange has its row",
      );
      t.equal(twice, 0);
    },
  );

t.test("a reload that finds no descriptor changes nothing, and the next one succeeds", { skip }, async (t) => {
  const gateway = await started(t);
  const pid = gateway.child.pid as number;
  const file = join(gateway.folder, "gateway.yaml");
  writeFileSync(
    join(gateway.folder, "own.ts"),
    "export default class Own { serve() { return { body: '\"mine\"' }; } }\n",
  );
  const own = readFileSync(file, "utf8").replace("open: true }", "open: true }, /own: { serve: own, use: read }");
  writeFileSync(file, `${own}plugins: { own: { from: ./own.ts } }\n`);
  const agent = new Agent({ keepAlive: true });
  t.teardown(() => agent.destroy());
  t.equal((await ask(gateway, { path: "/own" }, agent)).status, 404);
  leaveDescriptors(pid, 0);
  gateway.child.kill("SIGHUP");
  await until(() => gateway.text.includes("was not reloaded"), "the reload to fail");
  t.equal((await ask(gateway, { path: "/own" }, agent)).status, 404);
  leaveDescriptors(pid, "enough");
  gateway.child.kill("SIGHUP");
  await until(() => gateway.text.includes("the configuration was reloaded"), "a reload");
  t.match(await ask(gateway, { path: "/own" }, agent), { status: 200, text: '"mine"' });
  t.equal(await gateway.end(), 0);
});

t.test(
  "a worker without file descriptors gets no connections while another one has some, and none hangs",
  { skip },
  async (t) => {
    const gateway = await started(t, "workers: 2\n");
    const [one, other] = gateway.workers() as [number, number];
    const round = async () => {
      const seen = await each(Array(12).fill(ASKED["chat"]), (asked: Asked) => ask(gateway, asked), 4);
      // A connection that closes later would free a descriptor.
      await until(() => openConnections(gateway.port) === 0, "the connections to be closed");
      return seen;
    };
    // The ledger's thread, which would end without descriptors, opens the store after the process.
    await until(() => [one, other].every((pid) => openFiles(pid, "/gateway.db-wal") === 2), "both ledgers");
    await settledDescriptors(one);
    leaveDescriptors(one, 0);
    t.same(new Set((await round()).map(({ status }) => status)), new Set([200]), "the other one serves");
    await settledDescriptors(other);
    leaveDescriptors(other, 0);
    t.same(new Set((await round()).map(({ status }) => status)), new Set([0]), "they are closed");
    for (const pid of [one, other]) leaveDescriptors(pid, "enough");
    t.same(new Set((await round()).map(({ status }) => status)), new Set([200]), "both serve again");
    t.same(gateway.workers().toSorted(), [one, other].toSorted(), "none has died");
    t.equal(await gateway.end(), 0);
  },
);
