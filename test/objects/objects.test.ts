import { mkdtempSync, rmSync } from "node:fs";
import type { ServerResponse } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import t, { type Test } from "tap";
import type { Attempt } from "../../src/core/attempt.ts";
import { Body } from "../../src/core/body.ts";
import type { Caller } from "../../src/core/caller.ts";
import type { Exchange } from "../../src/core/exchange.ts";
import type { Protocol } from "../../src/core/protocol.ts";
import type { IssuedIds } from "../../src/objects/issued.ts";
import { ObjectAccess } from "../../src/objects/objects.ts";
import type { Owners } from "../../src/store/owners.ts";
import { HeaderList } from "../../src/wire/headers.ts";
import { startGateway } from "../support/gateway.ts";
import { httpUpstream, type SeenRequest } from "../support/upstream.ts";

const KEYS = {
  mine: "the-key-that-makes-it-01",
  theirs: "the-key-of-others-012345",
  friend: "a-key-of-the-same-group-1",
  few: "a-key-of-one-model-01234",
} as const;
type KeyName = keyof typeof KEYS;
const FILE_KEYS = `keys:
  mine: { key: ${KEYS.mine}, group: acme/research }
  theirs: { key: ${KEYS.theirs}, group: other }
  friend: { key: ${KEYS.friend}, group: acme/research }
  few: { key: ${KEYS.few}, models: [both], group: acme/research }
`;
const PATHS = { responses: "/v1/responses", chat: "/v1/chat/completions", messages: "/v1/messages" } as const;

/** A provider that makes objects, and takes whatever it is asked to use. */
async function provider(t: Test, name: string) {
  let made = 0;
  const upstream = await httpUpstream(({ method, url, body }: SeenRequest, reply: ServerResponse) => {
    const json = { "content-type": "application/json" };
    const nth = `${name}${made + 1}`;
    if (method !== "POST" || url.includes("/cancel")) {
      reply.writeHead(200, json).end(`{"method":"${method}","url":"${url}","by":"${name}"}`);
      return;
    }
    made++;
    const text = body.toString();
    if (url.endsWith("/messages")) {
      const container = '"container":{"id":"container_XY","expires_at":"2099-01-01T00:00:00Z"}';
      const message = `"type":"message","role":"assistant","model":"m","stop_reason":"end_turn","usage":{"input_tokens":1,"output_tokens":1}`;
      const result = `{"type":"bash_code_execution_tool_result","tool_use_id":"srvtoolu_1","content":{"type":"bash_code_execution_result","content":[{"type":"bash_code_execution_output","file_id":"file_XY"}]}}`;
      reply
        .writeHead(200, json)
        .end(`{"id":"msg_XY",${message},"content":[${result}],${container}}`.replaceAll("XY", nth));
    } else if (url.endsWith("/chat/completions")) {
      const message =
        '{"role":"assistant","content":null,"audio":{"id":"audio_XY","data":"","transcript":"hi","expires_at":1}}';
      const choices = `[{"index":0,"finish_reason":"stop","message":${message}}]`;
      reply
        .writeHead(200, json)
        .end(`{"id":"chatcmpl-XY","object":"chat.completion","choices":${choices}}`.replaceAll("XY", nth));
    } else if (text.includes('"stream":true')) {
      const events = responseEvents(nth);
      reply.writeHead(200, { "content-type": "text/event-stream" }).write(`: hello\n\n${events[0]}`);
      setTimeout(() => reply.end(events.slice(1).join("")), 5);
    } else reply.writeHead(200, json).end(responseOf(nth, "completed"));
  });
  t.teardown(() => upstream.close());
  return upstream;
}

const items = (nth: string) =>
  `[{"id":"rs_${nth}","type":"reasoning","summary":[]},{"id":"ci_${nth}","type":"code_interpreter_call","status":"completed","code":"1","container_id":"cntr_${nth}","outputs":null},{"id":"ig_${nth}","type":"image_generation_call","status":"completed","result":"aGk="}]`;
const responseOf = (nth: string, status: string) =>
  `{"id":"resp_${nth}","object":"response","status":"${status}","conversation":{"id":"conv_${nth}"},"output":${status === "completed" ? items(nth) : "[]"}}`;
const responseEvents = (nth: string) => [
  `event: response.created\ndata: {"type":"response.created","response":${responseOf(nth, "in_progress")}}\n\n`,
  ...(JSON.parse(items(nth)) as object[]).map(
    (item, i) =>
      `event: response.output_item.done\ndata: ${JSON.stringify({ type: "response.output_item.done", output_index: i, item })}\n\n`,
  ),
  `event: response.completed\ndata: {"type":"response.completed","response":${responseOf(nth, "completed")}}\n\n`,
];

/** Two providers of one model, of which the second is asked only where an object is there. */
async function pair(t: Test, share = "") {
  const [a, b] = [await provider(t, "a"), await provider(t, "b")];
  const folder = mkdtempSync(join(tmpdir(), "owners-"));
  t.teardown(() => rmSync(folder, { recursive: true, force: true }));
  const speaks = "speaks: [openai-responses, openai-chat, anthropic-messages]";
  const yaml = `providers:
  a: { url: "${a.origin.origin}", ${speaks} }
  b: { url: "${b.origin.origin}", ${speaks}, shared: [pmpt_ours, vs_ours] }
models:
  only-b: { targets: [b:m] }
  both: { targets: [{ to: a:m, weight: 1000000 }, { to: b:m, weight: 1 }] }
store: { ledger: 'sqlite:${join(folder, "gateway.db")}' }
${FILE_KEYS}${share}`;
  let running = await startGateway(t, yaml);
  const ask = async (key: KeyName, path: string, body?: object, method = body ? "POST" : "GET") => {
    const headers = { authorization: `Bearer ${KEYS[key]}`, "content-type": "application/json" };
    const answer = await fetch(running.url + path, { method, headers, body: body ? JSON.stringify(body) : null });
    return { status: answer.status, text: await answer.text() };
  };
  return {
    a,
    b,
    ask,
    url: () => running.url,
    restart: async () => {
      await running.gateway.stop({ drain: 0 });
      running = await startGateway(t, yaml);
    },
  };
}
type Pair = Awaited<ReturnType<typeof pair>>;

interface ObjectKind {
  /** How it is made, with the id that comes of it: at provider b. */
  path: string;
  make: object;
  id: RegExp;
  /** A request that names it. */
  use(id: string): object;
}

const made = { path: PATHS.responses, make: { model: "only-b", input: "x" } };
const chat = {
  path: PATHS.chat,
  make: { model: "only-b", messages: [], audio: { voice: "x" }, modalities: ["audio"] },
};
const messages = { path: PATHS.messages, make: { model: "only-b", max_tokens: 9, messages: [], container: null } };
const KINDS: Readonly<Record<string, ObjectKind>> = {
  "a response": { ...made, id: /resp_\w+/, use: (id) => ({ previous_response_id: id, input: "y" }) },
  "a response, streamed": {
    ...made,
    make: { ...made.make, stream: true },
    id: /resp_\w+/,
    use: (id) => ({ previous_response_id: id, input: "y" }),
  },
  "an item": { ...made, id: /rs_\w+/, use: (id) => ({ input: [{ type: "item_reference", id }] }) },
  "an item, streamed": {
    ...made,
    make: { ...made.make, stream: true },
    id: /rs_\w+/,
    use: (id) => ({ input: [{ type: "item_reference", id }] }),
  },
  "a conversation": { ...made, id: /conv_\w+/, use: (id) => ({ conversation: { id }, input: "y" }) },
  "a container": {
    ...made,
    id: /cntr_\w+/,
    use: (id) => ({ input: "y", tools: [{ type: "code_interpreter", container: id }] }),
  },
  "a spoken answer": { ...chat, id: /audio_\w+/, use: (id) => ({ messages: [{ role: "assistant", audio: { id } }] }) },
  "a container of messages": {
    ...messages,
    id: /container_\w+/,
    use: (id) => ({ messages: [], max_tokens: 9, container: id }),
  },
  "a file of messages": {
    ...messages,
    id: /file_b\w+/,
    use: (id) => ({
      max_tokens: 9,
      messages: [{ role: "user", content: [{ type: "container_upload", file_id: id }] }],
    }),
  },
};

/** Makes an object with the key `mine`; answers how it is then named. */
async function make({ ask }: Pair, { path, make: body, id }: ObjectKind): Promise<string> {
  const answer = await ask("mine", path, body);
  const found = id.exec(answer.text)?.[0];
  if (answer.status !== 200 || found === undefined) throw new Error(`not made: ${answer.status} ${answer.text}`);
  return found;
}

/** Asks with a key for what names the object, of the model that both providers serve. */
const use = ({ ask }: Pair, key: KeyName, { path, use }: ObjectKind, id: string) =>
  ask(key, path, { model: "both", ...use(id) });

for (const [name, kind] of Object.entries(KINDS)) {
  t.test(`${name} belongs to its key, where it was created, also after a restart`, async (t) => {
    const two = await pair(t);
    const id = await make(two, kind);
    for (const after of ["at once", "after a restart"]) {
      const [a, b] = [two.a.seen.length, two.b.seen.length];
      t.equal((await use(two, "mine", kind, id)).status, 200, after);
      t.same([two.a.seen.length, two.b.seen.length], [a, b + 1], "it is sent where the object is");
      const never = (await use(two, "mine", kind, "never-1")).text;
      for (const key of ["theirs", "friend"] as const) {
        const refused = await use(two, key, kind, id);
        t.equal(refused.status, 404, `${key}, ${after}`);
        t.equal(blank(refused.text), blank(never), "with the message for an object that does not exist");
      }
      t.same([two.a.seen.length, two.b.seen.length], [a, b + 1], "no provider is called");
      await two.restart();
    }
  });

  t.test(`${name} belongs to its group with share: group, and to everybody with share: all`, async (t) => {
    const group = await pair(t, "share: group\n");
    const id = await make(group, kind);
    for (const after of ["at once", "after a restart"]) {
      const seen = group.b.seen.length;
      t.equal((await use(group, "friend", kind, id)).status, 200, after);
      t.equal(group.b.seen.length, seen + 1);
      t.equal((await use(group, "theirs", kind, id)).status, 404, after);
      await group.restart();
    }
    const all = await pair(t, "share: all\n");
    const shared = await make(all, kind);
    t.equal((await use(all, "theirs", kind, shared)).status, 200);
    t.equal(all.b.seen.length, 2, "it is sent where the object is");
    t.equal((await use(all, "theirs", kind, "of-the-dashboard")).status, 200, "unknown objects are left to the vendor");
  });
}

/** Without what differs in each answer. */
const blank = (text: string): string => text.replaceAll(/"request_id":"[^"]*"/g, "");

t.test("a stored answer, and what is below it, is requested where it was created, by callers that may", async (t) => {
  const two = await pair(t, "share: group\n");
  const id = await make(two, KINDS["a response"] as ObjectKind);
  for (const [method, path] of [
    ["GET", `/v1/responses/${id}`],
    ["GET", `/v1/responses/${id}?stream=true`],
    ["GET", `/v1/responses/${id}/input_items`],
    ["POST", `/v1/responses/${id}/cancel`],
    ["DELETE", `/v1/responses/${id}`],
  ] as const) {
    for (const key of ["mine", "friend"] as const) {
      const { status, text } = await two.ask(key, path, undefined, method);
      t.match({ status, ...JSON.parse(text) }, { status: 200, method, url: path, by: "b" });
    }
    for (const key of ["theirs", "few"] as const)
      t.equal((await two.ask(key, path, undefined, method)).status, 404, key);
    t.equal((await two.ask("mine", path.replace(id, `${id}z`), undefined, method)).status, 404);
  }
  await two.restart();
  t.equal((await two.ask("mine", `/v1/responses/${id}`)).status, 200);
});

t.test("a request for a stored answer names no other key's objects in its query either", async (t) => {
  let made = 0;
  const upstream = await httpUpstream(({ method, url }, reply) => {
    const json = method === "POST" ? { id: `resp_${++made}23456789`, output: [] } : { url };
    reply.writeHead(200, { "content-type": "application/json" }).end(JSON.stringify(json));
  });
  t.teardown(() => upstream.close());
  const running = await startGateway(
    t,
    `providers: { v: { url: "${upstream.origin}v1", protocol: openai-responses } }\nmodels: { both: { targets: [v:m] } }\n${FILE_KEYS}`,
  );
  const ask = (key: KeyName, path: string, body?: string) => {
    const headers = { authorization: `Bearer ${KEYS[key]}`, "content-type": "application/json" };
    return fetch(running.url + path, { headers, ...(body !== undefined && { method: "POST", body }) });
  };
  const make = async (key: KeyName) =>
    ((await (await ask(key, PATHS.responses, '{"model":"both","input":"x"}')).json()) as { id: string }).id;
  const [own, second, foreign] = [await make("mine"), await make("mine"), await make("theirs")];
  for (const after of [second, "msg_0123456789abcdef", "4", ""]) {
    const path = `/v1/responses/${own}/input_items?after=${after}&include[]=reasoning.encrypted_content`;
    t.match(await (await ask("mine", path)).json(), { url: path }, after);
  }
  const refused = await ask("mine", `/v1/responses/${own}/input_items?limit=2&after=${foreign}`);
  t.match([refused.status, await refused.json()], [404, { error: { param: "after" } }]);
});

t.test("what an object's account alone knows is requested with the credential that made it", async (t) => {
  const accounts = new Map<string, string>();
  const upstream = await httpUpstream(({ method, url, body, rawHeaders }, reply) => {
    const account = new HeaderList(rawHeaders).get("authorization") ?? "";
    const { previous_response_id, input_file_id } = method === "POST" ? JSON.parse(String(body)) : {};
    const named = previous_response_id ?? input_file_id ?? /(?:resp|batch)_\d+/.exec(url)?.[0];
    const id = `${url.includes("batches") ? "batch" : "resp"}_${accounts.size}`;
    if (method === "POST") accounts.set(id, account);
    const status = named === undefined || accounts.get(named) === account ? 200 : 404;
    reply.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify({ id, output: [] }));
  });
  t.teardown(() => upstream.close());
  const yaml = `providers: { v: { url: "${upstream.origin}v1", protocol: openai-responses, credential: [sk-account-one-012345, sk-account-two-012345] } }
models: { both: { targets: [v:m] } }
paths: { "/v1/batches/*": { pass: v } }
store: { ledger: "sqlite:${t.testdir()}/kept.db" }
${FILE_KEYS}`;
  let running = await startGateway(t, yaml);
  const ask = async (path: string, body?: object) => {
    const headers = { authorization: `Bearer ${KEYS.mine}`, "content-type": "application/json" };
    const init = { headers, ...(body && { method: "POST", body: JSON.stringify(body) }) };
    const response = await fetch(running.url + path, init);
    t.equal(response.status, 200, `${path} ${JSON.stringify(body)}`);
    return ((await response.json()) as { id: string }).id;
  };
  const batches: string[] = [];
  for (let i = 0; i < 4; i++) {
    let previous = await ask(PATHS.responses, { model: "both", input: `Conversation ${i}` });
    for (let turn = 0; turn < 4; turn++) {
      await ask(`${PATHS.responses}/${previous}`);
      previous = await ask(PATHS.responses, { model: "both", input: `${i} ${turn}`, previous_response_id: previous });
    }
    let batch = await ask("/v1/batches", {});
    for (let n = 0; n < 3; n++) {
      await ask(`/v1/batches/${batch}`);
      batch = await ask("/v1/batches", { input_file_id: batch });
    }
    batches.push(batch);
  }
  t.equal(new Set(accounts.values()).size, 2, "both accounts are used");
  const answers = [...accounts.keys()].filter((id) => id.startsWith("resp"));
  await running.gateway.stop({ drain: 0 });
  running = await startGateway(t, yaml.replace(/\[(sk-\S+), (sk-\S+)\]/, "[$2, $1]"));
  for (const id of answers) await ask(`${PATHS.responses}/${id}`);
  for (const id of answers)
    await ask(PATHS.responses, { model: "both", input: "after a restart, in another order", previous_response_id: id });
  for (const id of batches) await ask(`/v1/batches/${id}`);
});

t.test("with share: all too, the store tells the credential that made an object", async (t) => {
  let refused = "";
  let maker = "";
  const upstream = await httpUpstream(({ method, rawHeaders }, reply) => {
    const account = new HeaderList(rawHeaders).get("authorization") ?? "";
    if (method === "POST" && refused === "") refused = account;
    else if (method === "POST") maker = account;
    const status = method === "GET" ? (account === maker ? 200 : 404) : account === refused ? 401 : 200;
    reply.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify({ id: "batch_1" }));
  });
  t.teardown(() => upstream.close());
  const yaml = `providers: { v: { url: "${upstream.origin}v1", protocol: openai-responses, credential: [sk-account-one-012345, sk-account-two-012345] } }
models: { both: { targets: [v:m] } }
paths: { "/v1/batches/*": { pass: v } }
share: all
store: { ledger: "sqlite:${t.testdir()}/kept.db" }
${FILE_KEYS}`;
  let running = await startGateway(t, yaml);
  const headers = { authorization: `Bearer ${KEYS.mine}`, "content-type": "application/json" };
  const make = async () => (await fetch(`${running.url}/v1/batches`, { method: "POST", headers, body: "{}" })).status;
  t.not(await make(), 200, "the first credential is refused");
  t.equal(await make(), 200);
  await running.gateway.stop({ drain: 0 });
  running = await startGateway(t, yaml);
  t.equal((await fetch(`${running.url}/v1/batches/batch_1`, { headers })).status, 200);
});

t.test("an answer to compare caches with is named where it is the key's own, and left out elsewhere", async (t) => {
  const { a, b, ask, url } = await pair(t);
  const made = await ask("mine", PATHS.responses, { model: "only-b", input: "x" });
  const own = /resp_\w+/.exec(made.text)?.[0] ?? "";
  const sent = async (key: KeyName, model: string, comparison_response_id: unknown) => {
    const prompt_cache_options = { mode: "implicit", comparison_response_id };
    const { status } = await ask(key, PATHS.responses, { model, prompt_cache_options, input: "y" });
    const body = (model === "only-b" ? b : a).seen.at(-1)?.body;
    return status === 200
      ? (JSON.parse(String(body)) as { prompt_cache_options?: object }).prompt_cache_options
      : status;
  };
  t.same(await sent("mine", "only-b", own), { mode: "implicit", comparison_response_id: own });
  for (const [key, model, id] of [
    ["theirs", "only-b", own],
    ["mine", "both", own],
    ["mine", "only-b", "resp_unknown"],
  ] as const)
    t.same(await sent(key, model, id), { mode: "implicit" }, `${key} ${model} ${id}`);
  t.equal(await sent("theirs", "only-b", [own]), 404, "in another form it is checked like any object");
  const headers = {
    authorization: `Bearer ${KEYS.theirs}`,
    "content-type": "application/json",
    "gateway-strict": "true",
  };
  const body = JSON.stringify({ model: "only-b", prompt_cache_options: { comparison_response_id: own }, input: "y" });
  const strict = await fetch(url() + PATHS.responses, { method: "POST", headers, body });
  t.equal(strict.status, 404, "a strict client loses nothing in silence");
});

t.test("an answer to compare caches with is judged by the targets that the request's objects leave", async (t) => {
  const members = {
    ...{ topLevel: [], anyDepth: ["file_id", "compared_id"], notSearched: [], createdIdMembers: [] },
    ...{ createdIds: () => [], mayHoldIds: () => false, comparedWith: ["options", "compared_id"] },
  };
  const protocol = { name: "p", objects: members } as unknown as Protocol;
  const find = (id: string) => [{ id, provider: "b", key: "me" }];
  const owners = { find, findSoon: async (id: string) => find(id) } as unknown as Owners;
  const issued = { isIssuedTo: () => false } as unknown as IssuedIds;
  const objects = new ObjectAccess(owners, "key", [], issued, [protocol]);
  const target = (name: string) => ({ provider: { name, speaks: ["p"] }, protocolName: "p" });
  const text = '{"options":{"compared_id":"resp_1"},"list":[{"file_id":"file-1"}]}';
  const exchange = {
    ...{ protocol, operation: {}, caller: { id: "me" }, strict: true, targets: [target("a"), target("b")] },
    body: new Body([Buffer.from(text)], "json"),
  };
  await objects.admit(exchange as unknown as Exchange);
  t.match(exchange.targets, [{ provider: { name: "b" } }], "a strict client is not refused");
});

t.test("an answer that is not to be stored is not found", async (t) => {
  const two = await pair(t);
  const kind = KINDS["a response"] as ObjectKind;
  const id = await make(two, { ...kind, make: { ...kind.make, store: false } });
  t.match(await use(two, "mine", kind, id), {
    status: 404,
    text: /only if that was stored \(not with `store: false`\)/,
  });
});

t.test(
  "reasoning that is sent without its encrypted state belongs to its key, where a provider may look it up",
  async (t) => {
    const two = await pair(t);
    const kind = KINDS["an item"] as ObjectKind;
    const id = await make(two, kind);
    const naming = (more: object) => (id: string) => ({
      input: [
        { role: "user", content: "x" },
        { type: "reasoning", id, summary: [], ...more },
      ],
    });
    const ask = (key: KeyName, id: string, more: object) => use(two, key, { ...kind, use: naming(more) }, id);
    const said = { summary: [{ type: "summary_text", text: "x" }] };
    for (const more of [{}, { encrypted_content: null }, { Encrypted_Content: "x" }, said]) {
      const seen = two.a.seen.length + two.b.seen.length;
      t.match(await ask("theirs", id, more), { status: 404, text: /input\.1\.id/ }, JSON.stringify(more));
      t.equal(two.a.seen.length + two.b.seen.length, seen, "no provider is called");
      t.equal((await ask("mine", id, more)).status, 200);
    }
    const seen = two.b.seen.length;
    t.equal((await ask("mine", id, {})).status, 200);
    t.equal(two.b.seen.length, seen + 1, "it is sent where the reasoning is");
    t.equal((await ask("theirs", "rs_unknown", {})).status, 404);
    for (const own of ["rs_unknown", "an agent's own: 1"])
      t.equal((await ask("theirs", own, said)).status, 200, "an agent's own items are sent with their ids");
    t.equal((await ask("theirs", id, { encrypted_content: "gAAA" })).status, 200, "the state shows its owner");
    const twice = (id: string) => ({
      input: [
        { type: "item_reference", id },
        { type: "reasoning", id, ...said },
      ],
    });
    t.equal((await use(two, "theirs", { ...kind, use: twice }, "rs_unknown")).status, 404, "the strictest applies");
  },
);

const FAILED = { status: "failed", result: null };

t.test("a generated image belongs to its key, also where it is sent beside its id", async (t) => {
  const two = await pair(t);
  const kind = KINDS["a response"] as ObjectKind;
  for (const store of [true, false]) {
    const id = await make(two, { ...kind, make: { ...kind.make, store }, id: /ig_\w+/ });
    const naming = (more: object) => ({
      input: [
        { type: "image_generation_call", id, ...more },
        { role: "user", content: "y" },
      ],
    });
    for (const more of [{ result: "aGk=" }, { result: " " }, { Result: "x" }, { result: { a: 1 } }, FAILED, {}]) {
      const asked = { ...kind, use: () => naming(more) };
      const seen = two.b.seen.length;
      t.match(await use(two, "theirs", asked, id), { status: 404, text: /input\.0\.id/ }, JSON.stringify(more));
      t.same([two.a.seen.length, two.b.seen.length], [0, seen], "no provider is called");
      t.equal((await use(two, "mine", asked, id)).status, 200);
      t.same([two.a.seen.length, two.b.seen.length], [0, seen + 1], "it is sent where the image is");
    }
  }
});

t.test("a member that acts for the operator's account is refused with advice", async (t) => {
  const { url } = await startGateway(
    t,
    `providers: { demo: { url: "demo:", speaks: [gemini] }, ours: { url: "demo:", speaks: [gemini], shared: [routingConfig] } }
models: { echo: { targets: [demo:echo] }, both: { targets: [ours:echo] } }
${FILE_KEYS}`,
  );
  const ask = async (model: string) => {
    const headers = { "x-goog-api-key": KEYS.mine, "content-type": "application/json" };
    const generationConfig = { routingConfig: { autoMode: {} } };
    const body = JSON.stringify({ contents: [{ role: "user", parts: [{ text: "hi" }] }], generationConfig });
    const answer = await fetch(`${url}/v1beta/models/${model}:generateContent`, { method: "POST", headers, body });
    return { status: answer.status, text: await answer.text() };
  };
  t.match(await ask("echo"), {
    status: 404,
    text: /generationConfig\.routingConfig: routingConfig acts for the operator's account .*shared: \[routingConfig\]/s,
  });
  t.equal((await ask("both")).status, 200);
});

t.test("an image is sent on to providers of other protocols, which read no id from it", async (t) => {
  const { url } = await startGateway(
    t,
    `providers: { demo: { url: "demo:", speaks: [gemini] }, up: { url: "http://127.0.0.1:9/v1", speaks: [openai-responses] } }
models: { draws: { targets: [demo:image] }, says: { targets: [demo:echo] }, both: { targets: [up:m], fallback: [says] } }
${FILE_KEYS}`,
  );
  const ask = async (model: string, input: unknown) => {
    const headers = { authorization: `Bearer ${KEYS.mine}`, "content-type": "application/json" };
    const answer = await fetch(`${url}/v1/responses`, {
      method: "POST",
      headers,
      body: JSON.stringify({ model, input }),
    });
    const json = (await answer.json()) as { output?: { type: string; id: string; result?: string }[]; error?: unknown };
    return { ...json, status: answer.status };
  };
  const again = (item: object) => [{ role: "user", content: "Draw" }, item, { role: "user", content: "Bluer" }];
  const { output = [] } = await ask("draws", "Draw");
  const drawn = output.find(({ type }) => type === "image_generation_call");
  t.match(drawn, { id: /^ig_.*_[0-9a-f]{16}$/, result: /./ });
  t.match(await ask("says", again(drawn ?? {})), { status: 200 }, "the gateway's own");
  t.match(await ask("both", again(drawn ?? {})), { status: 200 }, "wherever it was sent first");
  t.match(await ask("says", again({ type: "reasoning", id: "rs_1", summary: [] })), { status: 200 }, "reads no id");
  const elsewhere = { type: "image_generation_call", id: "ig_0123", result: "aGk=" };
  t.match(await ask("says", again(elsewhere)), { status: 200 }, "one that was drawn elsewhere");
  t.match(await ask("says", again({ ...elsewhere, result: null })), { status: 404 }, "no more than an id");
  t.match(await ask("both", again(elsewhere)), { status: 404 }, "where a provider would look it up");
  const failed = { ...elsewhere, status: "failed", result: null };
  t.match(await ask("says", again(failed)), { status: 200 }, "no image was made, and none is missing");
  t.match(await ask("both", again(failed)), { status: 404 }, "its owner is checked where a provider would look it up");
  t.match(await ask("says", again({ ...failed, status: "completed" })), { status: 404 });
});

t.test("objects that gateway.yaml lists as shared belong to every key, at their provider", async (t) => {
  const two = await pair(t);
  t.equal((await two.ask("theirs", PATHS.responses, { model: "both", prompt: { id: "pmpt_ours" } })).status, 200);
  const tools = [{ type: "file_search", vector_store_ids: ["vs_ours"] }];
  t.equal((await two.ask("mine", PATHS.responses, { model: "both", input: "x", tools })).status, 200);
  t.equal(two.b.seen.length, 2);
  t.match(await two.ask("mine", PATHS.responses, { model: "both", prompt: { id: "pmpt_theirs" } }), {
    status: 404,
    text: /"param":"prompt.id"/,
  });
});

t.test(
  "a body is searched for the members of all protocols, also that of the first request after a start",
  async (t) => {
    const members = {
      ...{ topLevel: [], anyDepth: ["file_of_this_test_alone"], notSearched: [], createdIdMembers: [] },
      ...{ createdIds: () => [], mayHoldIds: () => false },
    };
    const objects = new ObjectAccess({} as Owners, "key", [], {} as IssuedIds, [
      { objects: members } as unknown as Protocol,
    ]);
    const body = new Body([Buffer.from('{"messages":[{"file_of_this_test_alone":"file-1"}]}')], "json");
    t.ok(body.scan, "it is scanned before the owners of its objects are queried");
    t.match(objects.finderFor(members).findInBody(body), [{ id: "file-1" }]);
  },
);

t.test("of many objects each is looked up once, and none after the first that is not allowed", async (t) => {
  let looks = 0;
  const look = (): never[] => {
    looks++;
    return [];
  };
  const owners = { find: look, findSoon: look, add() {} } as unknown as Owners;
  const objects = new ObjectAccess(owners, "key", [], {} as IssuedIds, []);
  const named = (count: number) =>
    Array.from({ length: count }, (_, i) => ({ id: `file-${i % 500}`, param: `a.${i}` }));
  t.throws(() => objects.admitAtProvider("up", named(1000), undefined), { code: "object_not_found" });
  t.equal(looks, 1);
  const all = new ObjectAccess(owners, "all", [], {} as IssuedIds, []);
  all.admitAtProvider("up", named(5000), undefined);
  t.equal(looks, 501, "repeated ids are counted once");
  const many = Array.from({ length: 1001 }, (_, i) => ({ id: `file-${i}`, param: `a.${i}` }));
  t.throws(() => all.admitAtProvider("up", many, undefined), { code: "invalid_field", param: "a.1000" });
  t.equal(looks, 501);
});

t.test("an id that no request can name is not recorded, and of very many ids of a response only some", async (t) => {
  const added: string[] = [];
  const add: Owners["add"] = (made) => void added.push(...made.map(({ id }) => id));
  const objects = new ObjectAccess({ add } as unknown as Owners, "key", [], {} as IssuedIds, []);
  const caller = { id: "one" } as Caller;
  const attempt = { target: { provider: { name: "up", credentials: [] } } } as unknown as Attempt;
  t.equal(objects.recordCreated(["file-1", "f".repeat(100_000)], caller, attempt), 1);
  t.strictSame(added, ["file-1"]);
  const many = Array.from({ length: 100_000 }, (_, i) => `msg_${i}`);
  t.equal(objects.recordCreated(many, caller, attempt), 5000);
  t.strictSame(added.slice(1), many.slice(0, 5000));
});

t.test(
  "another key's object is looked up as one that nobody knows, so that the time does not tell of it",
  async (t) => {
    const row = { id: "file-1", provider: "up", key: "one" };
    const suffices: boolean[] = [];
    const findSoon: Owners["findSoon"] = (_, isEnough) => {
      suffices.push(isEnough([row]), isEnough([]));
      return [row];
    };
    const objects = new ObjectAccess({ findSoon } as unknown as Owners, "key", [], {} as IssuedIds, []);
    const ask = (id: string) => objects.admitAtProvider("up", [{ id: "file-1", param: "a" }], { id } as Caller);
    t.throws(() => ask("two"), { code: "object_not_found" });
    ask("one");
    t.same(suffices, [false, false, true, false]);
  },
);

t.test("a model that is not served where an object is stored is the request's error", async (t) => {
  const two = await pair(t);
  const at = async (model: string) => {
    const answer = await two.ask("mine", PATHS.responses, { model, input: "x" });
    return /resp_\w+/.exec(answer.text)?.[0] as string;
  };
  const [first, second] = [await at("both"), await at("only-b")];
  t.match(await two.ask("mine", PATHS.responses, { model: "only-b", previous_response_id: first, input: "y" }), {
    status: 400,
    text: /does not serve this model/,
  });
  const conversation = second.replace("resp", "conv");
  t.match(
    await two.ask("mine", PATHS.responses, { model: "both", previous_response_id: first, conversation, input: "y" }),
    { status: 400, text: /does not serve this model/ },
  );
});

t.test("callers without a key share no objects", async (t) => {
  const two = await pair(t, "plugins: { auth: { anonymous: true } }\n");
  const body = { model: "both", input: "x" };
  const post = async (more: object) => {
    const headers = { "content-type": "application/json" };
    const answer = await fetch(`${two.url()}/v1/responses`, {
      method: "POST",
      headers,
      body: JSON.stringify({ ...body, ...more }),
    });
    return { status: answer.status, text: await answer.text() };
  };
  const id = /resp_\w+/.exec((await post({})).text)?.[0];
  t.equal((await post({ previous_response_id: id })).status, 404);
});

t.test(
  "reasoning state that the gateway sealed opens for the key it was sealed for, and its group where that shares",
  async (t) => {
    for (const share of ["key", "group"] as const) {
      const { url } = await startGateway(
        t,
        `providers: { demo: { url: "demo:", speaks: [anthropic-messages] } }\nmodels: { both: { targets: [demo:reasoning] } }\nshare: ${share}\n${FILE_KEYS}`,
      );
      const ask = async (key: KeyName, input: unknown) => {
        const headers = { authorization: `Bearer ${KEYS[key]}`, "content-type": "application/json" };
        const reasoning = { effort: "high" };
        const include = ["reasoning.encrypted_content"];
        const body = JSON.stringify({ model: "both", input, reasoning, include, store: false });
        const answer = await fetch(`${url}/v1/responses`, { method: "POST", headers, body });
        return { status: answer.status, json: (await answer.json()) as { output: { encrypted_content?: string }[] } };
      };
      const { output } = (await ask("mine", "Hi")).json;
      t.ok(output.some(({ encrypted_content: sealed }) => sealed?.startsWith("gw1state")));
      const again = [{ role: "user", content: "Hi" }, ...output, { role: "user", content: "And?" }];
      t.equal((await ask("mine", again)).status, 200);
      t.equal((await ask("friend", again)).status, share === "group" ? 200 : 400);
      t.equal((await ask("theirs", again)).status, 400);
    }
  },
);

t.test("an item of an answer that the gateway wrote itself is known to its key, and to nobody else", async (t) => {
  const folder = mkdtempSync(join(tmpdir(), "issued-"));
  t.teardown(() => rmSync(folder, { recursive: true, force: true }));
  for (const share of ["key", "group"] as const) {
    const yaml = `providers: { demo: { url: "demo:", speaks: [anthropic-messages] } }
models: { both: { targets: [demo:reasoning] } }
store: { ledger: 'sqlite:${join(folder, `${share}.db`)}' }
share: ${share}
${FILE_KEYS}`;
    let running = await startGateway(t, yaml);
    const ask = async (key: KeyName, input: unknown) => {
      const headers = { authorization: `Bearer ${KEYS[key]}`, "content-type": "application/json" };
      const body = JSON.stringify({ model: "both", input, reasoning: { effort: "high" } });
      const answer = await fetch(`${running.url}/v1/responses`, { method: "POST", headers, body });
      const dropped = answer.headers.get("gateway-dropped");
      const json = (await answer.json()) as { output?: { id: string; type: string }[]; error?: { message: string } };
      return { ...json, status: answer.status, dropped };
    };
    const { output = [] } = await ask("mine", "Hi");
    const idOf = (kind: string) => output.find(({ type }) => type === kind)?.id ?? "";
    const turns = (id: string) => [
      { role: "user", content: "Hi" },
      { type: "item_reference", id },
      { role: "user", content: "And?" },
    ];
    for (const after of ["at once", "after a restart"]) {
      const thought = turns(idOf("reasoning"));
      t.match(await ask("mine", thought), { status: 200, dropped: /input\.1/ }, after);
      t.equal((await ask("friend", thought)).status, share === "group" ? 200 : 404, after);
      t.equal((await ask("theirs", thought)).status, 404, after);
      t.equal((await ask("mine", turns("rs_0123"))).status, 404, "an unknown object");
      const said = await ask("mine", turns(idOf("message")));
      t.match(said, { status: 400, error: { message: /store: false/ } }, "a turn that is not stored anywhere");
      await running.gateway.stop({ drain: 0 });
      running = await startGateway(t, yaml);
    }
  }
});

t.test("with a translated model no key is blamed for objects that cannot be stored", async (t) => {
  const yaml = `providers: { demo: { url: "demo:", speaks: [anthropic-messages] } }
models: { both: { targets: [demo:echo] } }
${FILE_KEYS}`;
  const { url } = await startGateway(t, yaml);
  const answer = await fetch(`${url}/v1/responses`, {
    method: "POST",
    headers: { authorization: `Bearer ${KEYS.mine}`, "content-type": "application/json" },
    body: JSON.stringify({ model: "both", previous_response_id: "resp_1", input: "and then?" }),
  });
  t.equal(answer.status, 404);
  const { error } = (await answer.json()) as { error: { message: string; param: string } };
  t.match(error, { param: "previous_response_id", message: /^previous_response_id: No provider of this model stores/ });
  t.notMatch(error.message, /\bkey\b/);
});

t.test(
  "where waiting is impossible, an object that the store must look up is refused, and later requests are unaffected",
  async (t) => {
    const unhandled: unknown[] = [];
    const hear = (thrown: unknown) => unhandled.push(thrown);
    process.on("unhandledRejection", hear);
    t.teardown(() => process.off("unhandledRejection", hear));
    const owners = { find: async () => [], findSoon: async () => [] } as unknown as Owners;
    const objects = new ObjectAccess(owners, "key", [], {} as IssuedIds, []);
    t.throws(() => objects.admitSync("a", [{ id: "file-theirs", param: undefined }], undefined), {
      ...{ code: "store_unavailable", status: 503, retry: true, store: undefined },
      message: /must ask its store whether this key may name that object/,
    });
    t.doesNotThrow(() => objects.admitSync("a", [], undefined));
    await new Promise((resolve) => setTimeout(resolve, 20));
    t.same(unhandled, []);
  },
);

t.test("an object may be named only at the provider that stores it: elsewhere its id may be another key's", (t) => {
  const find = () => [{ id: "file-1", provider: "up", key: "one" }];
  const objects = new ObjectAccess({ findSoon: find } as unknown as Owners, "key", [], {} as IssuedIds, []);
  const ask = (provider: string) =>
    objects.admitAtProvider(provider, [{ id: "file-1", param: "a" }], { id: "one" } as Caller);
  ask("up");
  t.throws(() => ask("elsewhere"), { code: "object_not_found", param: "a" });
  t.end();
});
