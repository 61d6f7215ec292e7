import t, { type Test } from "tap";
import type { JsonObject } from "../../src/wire/values.ts";
import { CLIENTS, type Client } from "../support/four-clients.ts";
import { asking, type Running, startGateway } from "../support/gateway.ts";
import { httpUpstream } from "../support/upstream.ts";

/** Conversations of each kind, and the turns of one. */
const CONVERSATIONS = Number(process.env["GATEWAY_TEST_CONVERSATIONS"] ?? 12);
const TURNS = 4;

/** A provider that can be shut: another gateway with its demo. */
async function vendor(t: Test): Promise<Running> {
  return startGateway(
    t,
    'providers: { demo: { url: "demo:" } }\nmodels: { echo: { targets: [demo:echo] }, reasoning: { targets: [demo:reasoning] } }\nplugins: { auth: { anonymous: true } }\nshare: all\n',
  );
}

/** A model with two targets, and which of them served the last request. */
async function pair(t: Test, speaks: string, model = "echo", more = "") {
  const vendors = [await vendor(t), await vendor(t)] as const;
  const [a, b] = vendors;
  const running = await startGateway(
    t,
    `providers:
  a: { url: "${a.url}", speaks: [${speaks}] }
  b: { url: "${b.url}", speaks: [${speaks}] }
models: { m: { targets: [a:${model}, b:${model}] } }
${more}`,
  );
  const served = () => vendors.map(({ log }) => log.lines.filter(({ message }) => message === "exchange").length);
  /** One turn: the answer, and which provider gave it. */
  const ask = async (client: Client, body: JsonObject, headers: Record<string, string> = {}) => {
    const before = served();
    const response = await fetch(running.url + client.path("m", false), {
      method: "POST",
      headers: asking(headers),
      body: JSON.stringify(client.with(body, "m", false)),
    });
    const text = await response.text();
    const after = served();
    return {
      status: response.status,
      answer: JSON.parse(text) as JsonObject,
      by: after.findIndex((count, i) => count > (before[i] ?? 0)),
    };
  };
  return { ask, vendors, running };
}

const NAMES = ["openai-chat", "openai-responses", "anthropic-messages", "gemini"] as const;
const CONVERSATION = NAMES.map((name) => [name, CLIENTS[name] as Client] as const);

/** What agents do to the words of a conversation between two turns: parts become a string, marks of caches move on. */
function rewritten(body: JsonObject, turn: number): JsonObject {
  const messages = body["messages"] as JsonObject[] | undefined;
  if (!messages) return body;
  return {
    ...body,
    messages: messages.map((message, i) => {
      const { content, role } = message;
      if (role !== "user" || typeof content !== "string" || turn % 2 === 0) return message;
      const marked = i === messages.length - 1 ? { cache_control: { type: "ephemeral" } } : {};
      return { ...message, content: [{ type: "text", text: content, ...marked }] };
    }),
  };
}

for (const speaks of [NAMES.join(", "), "anthropic-messages", "openai-chat"])
  t.test(`conversations keep their provider without configuration where the providers speak ${speaks}`, async (t) => {
    const { ask } = await pair(t, speaks);
    const counts = [0, 0];
    let [turns, stayed] = [0, 0];
    for (const [name, client] of CONVERSATION)
      for (let i = 0; i < CONVERSATIONS; i++) {
        let body = client.ask(`${name} asks number ${i} ${Math.random()}`, "look");
        let first = -1;
        for (let turn = 0; turn < TURNS; turn++) {
          const marks = name === "anthropic-messages" && speaks.includes(name);
          const { status, answer, by } = await ask(client, marks ? rewritten(body, turn) : body);
          if (status !== 200) t.fail(`${name} ${status} ${JSON.stringify(answer)}`);
          if (turn === 0) {
            first = by;
            counts[by] = (counts[by] ?? 0) + 1;
          } else {
            turns++;
            if (by === first) stayed++;
          }
          body = client.next(body, answer, `and ${turn}`);
        }
      }
    t.equal(stayed, turns);
    t.ok(
      counts.every((count) => count > 0),
      `both have some: ${counts}`,
    );
  });

t.test("when a provider is gone all its conversations continue at the other one, and stay there", async (t) => {
  const { ask, vendors } = await pair(t, NAMES.join(", "));
  const running: { client: Client; body: JsonObject; by: number }[] = [];
  for (const [name, client] of CONVERSATION)
    for (let i = 0; i < CONVERSATIONS; i++) {
      const body = client.ask(`${name} asks number ${i} ${Math.random()}`, "look");
      const { answer, by } = await ask(client, body);
      running.push({ client, body: client.next(body, answer, "and"), by });
    }
  t.ok(running.some(({ by }) => by === 0));
  await vendors[0].gateway.stop({ drain: 0 });
  let moved = 0;
  for (const { client, body } of running) {
    const first = await ask(client, body);
    const second = await ask(client, client.next(body, first.answer, "then"));
    if (first.status === 200 && second.status === 200 && first.by === 1 && second.by === 1) moved++;
  }
  t.equal(moved, running.length);
});

t.test("a conversation that has moved stays at the provider of its newest state", async (t) => {
  const { ask, vendors, running } = await pair(t, "anthropic-messages", "reasoning");
  const client = CLIENTS["openai-responses"] as Client;
  const headers = {};
  let conversation: { body: JsonObject; by: number } | undefined;
  while (!conversation || conversation.by !== 0) {
    const asked = { ...client.ask(`${Math.random()}`, "look"), ...client.thinking };
    const body = { ...asked, include: ["reasoning.encrypted_content"], store: false };
    const { answer, by } = await ask(client, body, headers);
    conversation = { body: client.next(body, answer, "and"), by };
  }
  t.ok(JSON.stringify(conversation.body).includes("gw1state"));
  const port = vendors[0].port;
  await vendors[0].gateway.stop({ drain: 0 });
  const moved = await ask(client, conversation.body);
  t.equal(moved.by, 1);
  const next = client.next(conversation.body, moved.answer, "then");
  await startGateway(
    t,
    `listen: 127.0.0.1:${port}\nproviders: { demo: { url: "demo:" } }\nmodels: { reasoning: { targets: [demo:reasoning] } }\nplugins: { auth: { anonymous: true } }\n`,
  );
  t.equal((await ask(client, next)).by, 1, "its state is there");
  t.equal(running.log.lines.filter(({ message }) => message === "exchange").at(-1)?.fields["attempts"], 1);
});

t.test("continuity: off chooses a provider for each request anew", async (t) => {
  const { ask } = await pair(t, "openai-chat", "echo", "plugins: { models: { continuity: off } }\n");
  const client = CLIENTS["openai-chat"] as Client;
  const body = client.ask("always the same", "look");
  const by = new Set<number>();
  for (let i = 0; i < 40 && by.size < 2; i++) by.add((await ask(client, body, { "x-session-id": "s" })).by);
  t.equal(by.size, 2);
});

/** Two providers with three credentials each, and what the last request showed to which of them. */
async function accounts(t: Test) {
  const limited = new Set<string>();
  let shown = "";
  const env: Record<string, string> = {};
  const vendor = async (name: string) => {
    const upstream = await httpUpstream(({ rawHeaders }, reply) => {
      const secret = rawHeaders.find((value) => value.startsWith("Bearer ")) ?? "";
      if (limited.has(secret)) return reply.writeHead(429, { "retry-after": "60" }).end("{}");
      shown = `${name} ${secret}`;
      const message = { role: "assistant", content: "I see." };
      const answer = { object: "chat.completion", choices: [{ index: 0, message, finish_reason: "stop" }] };
      return reply.writeHead(200, { "content-type": "application/json" }).end(JSON.stringify(answer));
    });
    t.teardown(() => upstream.close());
    for (const one of ["A", "B", "C"]) env[name + one] = `credential-${name}${one}-0123456789`;
    const credentials = ["A", "B", "C"].map((one) => `$${name}${one}`).join(", ");
    return `  ${name}: { url: "${upstream.origin.origin}/v1", speaks: [openai-chat], credential: [${credentials}] }`;
  };
  const providers = [await vendor("one"), await vendor("two")].join("\n");
  const yaml = `providers:\n${providers}\nmodels: { m: { targets: [one:x, two:x] } }\n`;
  const running = await startGateway(t, yaml, {}, env);
  const ask = async (client: Client, body: JsonObject) => {
    const asked = JSON.stringify(client.with(body, "m", false));
    const init = { method: "POST", headers: asking(), body: asked };
    const answer = await fetch(running.url + client.path("m", false), init);
    return { status: answer.status, answer: (await answer.json()) as JsonObject, shown };
  };
  return { ask, limited };
}

t.test("a conversation keeps its credential too, and changes it only while that one may not be used", async (t) => {
  const { ask, limited } = await accounts(t);
  const running: { client: Client; body: JsonObject; first: string }[] = [];
  let [turns, stayed] = [0, 0];
  for (const [name, client] of CONVERSATION)
    for (let i = 0; i < CONVERSATIONS; i++) {
      let body = client.ask(`${name} asks number ${i}`, "look");
      let first: string | undefined;
      for (let turn = 0; turn < TURNS; turn++) {
        const { status, answer, shown } = await ask(client, body);
        if (status !== 200) t.fail(`${name} ${status} ${JSON.stringify(answer)}`);
        body = client.next(body, answer, `and ${turn}`);
        if (first !== undefined) turns++;
        if (first === shown) stayed++;
        first ??= shown;
      }
      running.push({ client, body, first: first as string });
    }
  t.equal(stayed, turns);
  t.equal(new Set(running.map(({ first }) => first)).size, 6, "every credential has some");
  const gone = running[0]?.first.split(" ", 1)[0] as string;
  const secret = running[0]?.first.slice(gone.length + 1) as string;
  limited.add(secret);
  let [all, moved, others] = [0, 0, 0];
  for (const { client, body, first } of running) {
    const { status, shown } = await ask(client, body);
    if (first === `${gone} ${secret}`) {
      all++;
      if (status === 200 && shown !== first && shown.startsWith(`${gone} `)) moved++;
    } else if (shown !== first) others++;
  }
  t.equal(moved, all, "to another credential of the same provider");
  t.equal(others, 0, "no other conversation moves");
});

/** An account that refuses others' encrypted reasoning, unless it is `down`, and the bodies that it got. */
async function reasoningAccount(t: Test, name: string) {
  const account = { down: false, bodies: [] as string[], url: "", maker: name };
  const upstream = await httpUpstream(({ body }, reply) => {
    const text = body.toString();
    account.bodies.push(text);
    const answer = (status: number, json: JsonObject) =>
      reply.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(json));
    const isForeign = [...text.matchAll(/"encrypted_content":"([^"]*)"/g)].some(
      ([, made]) => made !== `by ${account.maker}`,
    );
    if (isForeign) return answer(400, { error: { message: "Not verified.", code: "invalid_encrypted_content" } });
    if (account.down) return answer(429, { error: { message: "Wait.", code: "rate_limit_exceeded" } });
    const reasoning = { id: "rs_1", type: "reasoning", summary: [], encrypted_content: `by ${account.maker}` };
    const content = [{ type: "output_text", text: "I see.", annotations: [] }];
    const message = { id: "msg_1", type: "message", status: "completed", role: "assistant", content };
    return answer(200, { id: "resp_1", object: "response", status: "completed", output: [reasoning, message] });
  });
  t.teardown(() => upstream.close());
  account.url = `${upstream.origin.origin}/v1`;
  return account;
}

t.test("a translated conversation goes on without the reasoning that its own provider no longer reads", async (t) => {
  const a = await reasoningAccount(t, "a");
  const models = "models: { m: { targets: [a:m] } }";
  const { url } = await startGateway(
    t,
    `providers: { a: { url: "${a.url}", protocol: openai-responses } }\n${models}\n`,
  );
  const ask = async (messages: unknown[], headers: Record<string, string> = {}) => {
    const body = JSON.stringify({ model: "m", messages });
    const response = await fetch(`${url}/v1/chat/completions`, { method: "POST", headers: asking(headers), body });
    const json = (await response.json()) as { choices?: JsonObject[] };
    return { status: response.status, notice: response.headers.get("gateway-notice"), json };
  };
  const first = { role: "user", content: "Look." };
  const { json } = await ask([first]);
  const next = [first, json.choices?.[0]?.["message"], { role: "user", content: "And now?" }];
  t.match(await ask(next), { status: 200, notice: null });
  t.match(a.bodies.at(-1), '"encrypted_content":"by a"');
  // Its credential now belongs to another organisation.
  a.maker = "b";
  t.match(await ask(next), { status: 200, notice: /^Reasoning that another provider made was left out/ });
  t.notMatch(a.bodies.at(-1), 'encrypted_content":');
  t.equal(a.bodies.length, 4);
  t.match(await ask(next, { "gateway-strict": "true" }), { status: 400 });
});

t.test(
  "a conversation moves to another account of the same vendor without the reasoning that this one refuses",
  async (t) => {
    const [a, b] = [await reasoningAccount(t, "a"), await reasoningAccount(t, "b")];
    const { url, gateway } = await startGateway(
      t,
      `providers: { a: { url: "${a.url}", protocol: openai-responses }, b: { url: "${b.url}", protocol: openai-responses } }
models: { m: { targets: [{ to: "a:m", weight: 1000000 }], fallback: [other] }, other: { targets: [b:m] } }
`,
    );
    const ask = async (input: unknown, headers: Record<string, string> = {}) => {
      const body = JSON.stringify({ model: "m", store: false, include: ["reasoning.encrypted_content"], input });
      const response = await fetch(`${url}/v1/responses`, { method: "POST", headers: asking(headers), body });
      const json = (await response.json()) as { output?: JsonObject[]; error?: JsonObject };
      return { status: response.status, notice: response.headers.get("gateway-notice"), json };
    };
    const first = { role: "user", content: "Look." };
    const { json } = await ask([first]);
    const next = [first, ...(json.output ?? []), { role: "user", content: "And now?" }];
    t.match(await ask(next), { status: 200, notice: null }, "its own account reads it");
    a.down = true;
    const moved = await ask(next);
    t.match(moved, { status: 200, notice: /^Reasoning that another provider made was left out/ });
    t.equal(b.bodies.length, 2);
    t.match(b.bodies[0], '"encrypted_content":"by a"');
    t.equal(b.bodies[1], b.bodies[0]?.replace(/\{"id":"rs_1"[^}]*\},/, ""), "every other byte is the client's");
    t.match(await ask(next, { "gateway-strict": "true" }), {
      status: 400,
      json: { error: { message: "Not verified." } },
    });
    // Its maker still gets it after another account has refused it, and then everything else too.
    const own = [{ type: "reasoning", id: "rs_2", summary: [], encrypted_content: "by b" }, first];
    const [toA, toB] = [a.bodies.length, b.bodies.length];
    t.match(await ask(own), { status: 200, notice: null });
    t.same([a.bodies.length - toA, b.bodies.length - toB], [2, 1]);
    t.match(b.bodies.at(-1), '"encrypted_content":"by b"');
    // What stands for a part of the conversation is never left out: the account's refusal is the answer.
    const compacted = await ask([{ type: "compaction", encrypted_content: "by a" }, first]);
    t.match(compacted, { status: 400, json: { error: { code: "invalid_encrypted_content" } } });
    await gateway.stores.ledger.flush();
    const [, , , entry] = await gateway.stores.ledger.recent(4);
    t.match(entry?.attempts, [{ status: 429 }, { status: 400 }, { status: 200 }]);
  },
);
