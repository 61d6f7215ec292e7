import { once } from "node:events";
import { Agent, request } from "node:http";
import t from "tap";
import { asking } from "../support/key.ts";
import { startProcess } from "../support/process.ts";
import { until } from "../support/until.ts";
import { httpUpstream } from "../support/upstream.ts";

/** Says by which process it is served. */
const WHERE = "export default class Where { access(exchange) { exchange.notices.push(String(process.pid)); } }";

t.test("the health of a target and a credential that one worker observes reaches the other one", async (t) => {
  let well = false;
  const bad = await httpUpstream((_, reply) =>
    reply.writeHead(well ? 200 : 503, { "content-type": "application/json" }).end("{}"),
  );
  const fine = await httpUpstream(({ rawHeaders }, reply) => {
    const known = !rawHeaders.includes("Bearer revoked-0123456789");
    return reply.writeHead(known ? 200 : 401, { "content-type": "application/json" }).end("{}");
  });
  t.teardown(() => Promise.all([bad.close(), fine.close()]));
  const gateway = await startProcess(
    t,
    `workers: 2
linger: 50ms
providers:
  bad: { url: "${bad.origin.origin}/v1", speaks: [openai-chat], health: { open: 3s } }
  fine: { url: "${fine.origin.origin}/v1", speaks: [openai-chat], credential: [revoked-0123456789, valid-0123456789] }
models: { m: { targets: [{ to: "bad:x", weight: 1000000000 }, "fine:x"] } }
retry: { least: 1000 }
plugins: { where: { from: ./where.ts }, models: { continuity: off } }
chains: { llm: [sse, auth, where, models, rewrite, usage] }
`,
    { files: { "where.ts": WHERE } },
  );
  const ask = async (agent: Agent): Promise<{ pid: string; status: number | undefined }> => {
    const asked = request(`${gateway.url}/v1/chat/completions`, { method: "POST", headers: asking(), agent });
    asked.end('{"model":"m","messages":[]}');
    const [answer] = await once(asked, "response");
    answer.resume();
    await once(answer, "end");
    return { pid: String(answer.headers["gateway-notice"]), status: answer.statusCode };
  };
  // One connection to each worker.
  const agents = new Map<string, Agent>();
  const all: Agent[] = [];
  t.teardown(() => {
    for (const agent of all) agent.destroy();
  });
  while (agents.size < 2) {
    const agent = new Agent({ keepAlive: true, maxSockets: 1 });
    all.push(agent);
    agents.set((await ask(agent)).pid, agent);
  }
  const [one, other] = [...agents.values()] as [Agent, Agent];
  for (let i = 0; i < 5; i++) t.equal((await ask(one)).status, 200);
  await until(() => gateway.lines().some(({ msg }) => /is suspended/.test(String(msg))), "the target to be left alone");
  const [asked, refusals] = [
    bad.seen.length,
    () => fine.seen.filter(({ rawHeaders }) => rawHeaders.includes("Bearer revoked-0123456789")).length,
  ];
  t.equal(refusals(), 1, "the credential was sent once, by whichever worker");
  for (let i = 0; i < 6; i++) t.equal((await ask(other)).status, 200);
  t.equal(bad.seen.length, asked, "the other worker puts it to rest at once");
  t.equal(refusals(), 1);
  well = true;
  await until(async () => (await ask(other)).status === 200 && bad.seen.length > asked, "the probe");
  const probed = bad.seen.length;
  await until(async () => (await ask(one)).status === 200 && bad.seen.length > probed, "the first one's return");
  await until(() => gateway.text.includes("has recovered"), "the log");
  const said = gateway.lines().map(({ msg }) => String(msg));
  t.equal(said.filter((line) => /is suspended/.test(line)).length, 1, "logged once");
  t.equal(said.filter((line) => /has recovered/.test(line)).length, 1);
  t.equal(said.filter((line) => /does not accept the credential/.test(line)).length, 1);
  for (const agent of all) agent.destroy();
  t.equal(await gateway.end(), 0);
});

t.test("a conversation that is balanced by latency stays at its target, whichever worker serves it", async (t) => {
  // Times change, so that a worker which does not know the conversation often chooses another target.
  const answering = (name: string) =>
    httpUpstream((_, reply) => {
      setTimeout(
        () => reply.writeHead(200, { "content-type": "application/json" }).end(JSON.stringify({ name })),
        Math.random() * 10,
      );
    });
  const [a, b] = [await answering("a"), await answering("b")];
  t.teardown(() => Promise.all([a.close(), b.close()]));
  const gateway = await startProcess(
    t,
    `workers: 2
providers:
  a: { url: "${a.origin.origin}/v1", speaks: [openai-chat] }
  b: { url: "${b.origin.origin}/v1", speaks: [openai-chat] }
models: { m: { balance: latency, targets: [a:x, b:x] } }
`,
  );
  // Each request has a connection of its own, so that both workers get requests of each conversation.
  const ask = async (body: object): Promise<string> => {
    const asked = request(`${gateway.url}/v1/chat/completions`, { method: "POST", headers: asking(), agent: false });
    asked.end(JSON.stringify({ model: "m", ...body }));
    const [answer] = await once(asked, "response");
    let text = "";
    for await (const piece of answer) text += String(piece);
    return (JSON.parse(text) as { name: string }).name;
  };
  const conversations = Array.from({ length: 15 }, (_, i) => ({
    messages: [{ role: "user", content: `conversation ${i}` }],
  }));
  const served: string[][] = conversations.map(() => []);
  for (let turn = 0; turn < 4; turn++)
    for (const [i, { messages }] of conversations.entries()) {
      const name = await ask({ messages });
      served[i]?.push(name);
      messages.push({ role: "assistant", content: name }, { role: "user", content: `turn ${turn}` });
    }
  t.same(
    served.map((names) => new Set(names).size),
    conversations.map(() => 1),
  );
  t.equal(new Set(served.flat()).size, 2, "both targets serve");
  t.equal(await gateway.end(), 0);
});
