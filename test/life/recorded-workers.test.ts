import { existsSync, readdirSync } from "node:fs";
import { Agent, request } from "node:http";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import t from "tap";
import { asking } from "../support/key.ts";
import { type GatewayProcess, startProcess } from "../support/process.ts";
import { until } from "../support/until.ts";

const WORKERS = 3;
const yaml = (record: object) => `workers: ${WORKERS}
linger: off
providers: { demo: { url: "demo:" } }
models: { echo: { targets: [demo:echo] } }
chains: { llm: [record, sse, auth, where, models, limits, rewrite, usage, record] }
plugins: { record: ${JSON.stringify(record)}, where: { from: ./where.ts } }
`;
/** Says by which process a request is served. */
const WHERE = "export default class Where { access(exchange) { exchange.notices.push(String(process.pid)); } }";
const files = { "where.ts": WHERE };

/** One request over a connection of its own: the next worker's. */
function ask({ url }: GatewayProcess): Promise<{ id: string; pid: number }> {
  const agent = new Agent({ keepAlive: true });
  const asked = request(`${url}/v1/chat/completions`, { method: "POST", headers: asking(), agent });
  asked.end('{"model":"echo","messages":[{"role":"user","content":"Which of you is it?"}]}');
  return new Promise((resolve, reject) => {
    asked.once("error", reject).once("response", (answer) => {
      answer.resume();
      answer.once("end", () =>
        resolve({ id: String(answer.headers["x-request-id"]), pid: Number(answer.headers["gateway-notice"]) }),
      );
    });
  });
}

/** How many recordings a gateway's file has. */
function kept({ folder }: GatewayProcess): number {
  const database = new DatabaseSync(join(folder, "data/recorded.db"), { readOnly: true, timeout: 5000 });
  const count = database.prepare("select count(*) as count from recorded").get()?.["count"];
  database.close();
  return Number(count);
}

t.test("workers record into one file, and the recordings of each are shown", async (t) => {
  const gateway = await startProcess(t, yaml({ sample: 1 }), { files });
  const admin = /admin +(\S+)/.exec(gateway.text)?.[1];
  const asked = await Promise.all(Array.from({ length: WORKERS * 10 }, () => ask(gateway)));
  t.equal(new Set(asked.map(({ pid }) => pid)).size, WORKERS, "each of them had some");
  for (const { id } of asked) {
    const answer = await fetch(`${admin}/api/requests/${id}/recorded`);
    t.equal(answer.status, 200);
    const { recorded } = (await answer.json()) as { recorded: { id: string; request: { body: string } } };
    t.equal(recorded.id, id);
    t.match(recorded.request.body, /Which of you/);
  }
  t.same(
    readdirSync(join(gateway.folder, "data")).filter((name) => name.endsWith(".db")),
    ["recorded.db"],
  );
  t.equal(kept(gateway), asked.length);
  t.equal(await gateway.end(), 0);
  t.notOk(existsSync(join(gateway.folder, "data/recorded.db-wal")), "the last process that closes it removes the file");
  t.same(
    gateway.lines().filter(({ level }) => level === "error"),
    [],
  );
});

t.test(
  "expired recordings are deleted without new ones, and also when the worker that wrote them has died",
  async (t) => {
    const gateway = await startProcess(t, yaml({ sample: 1, hours: 3 / 3600 }), { files });
    const [{ pid } = { pid: 0 }] = await Promise.all(Array.from({ length: WORKERS * 3 }, () => ask(gateway)));
    process.kill(pid, "SIGKILL");
    await until(() => kept(gateway) === 0, "the last recording to go");
    t.equal(await gateway.end(), 0);
  },
);
