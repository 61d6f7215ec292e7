/** What real clients demand of a gateway, continued: requests. */

import { request } from "node:http";
import { gzipSync, zstdCompressSync } from "node:zlib";
import t, { type Test } from "tap";
import { type JsonObject } from "../../src/wire/values.ts";
import { at, listAt } from "../golden/sharp-cases.ts";
import { type ChecklistGateway, gateway, PAIRS, pathFor, speaking } from "../support/checklist.ts";
import { CLIENT_BODIES } from "../support/client-bodies.ts";
import { CLIENTS, type Client, eventsOf } from "../support/four-clients.ts";
import { asking, startGateway } from "../support/gateway.ts";
import { STATE, TEXT, THOUGHT, THOUGHTFUL } from "../support/scripted.ts";
import { PROTOCOLS, type ProtocolName } from "../support/vendor-sdks.ts";

const others = (client: ProtocolName) => PROTOCOLS.filter((name) => name !== client);
const clientOf = (name: ProtocolName): Client => CLIENTS[name] as Client;
/** A plain question of a client, as text. */
const question = (client: ProtocolName, vendor: ProtocolName, text: string): string =>
  JSON.stringify(clientOf(client).with(clientOf(client).ask(text, "f"), `of-${vendor}`, false));
/** What a provider was asked last, as text. */
const sentText = (gate: ChecklistGateway): string => gate.upstream.seen.at(-1)?.body.toString() ?? "";

t.test("bodies over 100 KB, 12 MB with pictures; chunked; Expect: 100-continue; gzip and zstd", async (t) => {
  const gate = await gateway(t);
  const words = "Wörter ".repeat(16_000);
  for (const [client, vendor] of PAIRS) {
    const path = pathFor(client, `of-${vendor}`);
    const body = question(client, vendor, words);
    const bytes = Buffer.from(body);
    const arrived = (way: string) => t.ok(sentText(gate).includes(words), `${client} → ${vendor}, ${way}`);
    await gate.fine(path, body);
    arrived("as it is");
    t.equal(await announced(gate, path, bytes), 200);
    arrived("in chunks after 100 Continue");
    for (const [coding, coded] of [
      ["gzip", gzipSync(bytes)],
      ["zstd", zstdCompressSync(bytes)],
    ] as const) {
      const headers = asking({ "content-encoding": coding });
      t.equal((await fetch(gate.running.url + path, { method: "POST", headers, body: coded })).status, 200);
      arrived(coding);
    }
  }
  const picture = Buffer.alloc(9 << 20, 7).toString("base64");
  const source = { type: "base64", media_type: "image/png", data: picture };
  const messages = [{ role: "user", content: [{ type: "image", source }] }];
  for (const vendor of PROTOCOLS) {
    await gate.fine("/v1/messages", { model: `of-${vendor}`, max_tokens: 9, messages });
    t.ok(sentText(gate).includes(picture), `12 MB → ${vendor}`);
  }
});

/** The status of the answer to a body of unknown length that waits to be asked for. */
function announced({ running: { port } }: ChecklistGateway, path: string, body: Buffer): Promise<number | undefined> {
  const headers = { ...asking(), expect: "100-continue", "transfer-encoding": "chunked" };
  return new Promise((resolve, reject) => {
    const outgoing = request({ port, host: "127.0.0.1", method: "POST", path, headers }, (response) =>
      response.resume().on("end", () => resolve(response.statusCode)),
    );
    outgoing.on("error", reject).on("continue", () => {
      outgoing.write(body.subarray(0, 1000));
      setImmediate(() => outgoing.end(body.subarray(1000)));
    });
    outgoing.flushHeaders();
  });
}

/** A request of one of the agents, with a model of ours. */
async function agent(gate: ChecklistGateway, client: ProtocolName, vendor: ProtocolName, more: JsonObject = {}) {
  const { path, headers, body } = CLIENT_BODIES[client];
  const own = JSON.stringify({ ...(JSON.parse(body) as JsonObject), ...more });
  const text = Object.keys(more).length === 0 ? body : own;
  const model = `of-${vendor}`;
  return gate.fine(path.replace("asked", model), text.replace(/"asked"/, `"${model}"`), headers);
}

/** To a provider of the client's own protocol the body goes unchanged but for the model's name. */
async function unchanged(t: Test, gate: ChecklistGateway, client: ProtocolName) {
  await agent(gate, client, client);
  const { body, headers } = CLIENT_BODIES[client];
  t.equal(sentText(gate), body.replace('"asked"', '"any"'), `${client}: byte for byte`);
  const lines = gate.upstream.seen.at(-1)?.rawHeaders ?? [];
  for (const [name, value] of Object.entries(headers))
    t.equal(lines[lines.findIndex((line) => line.toLowerCase() === name) + 1], value, name);
}

t.test(
  "Messages: system inside, tool_reference, server tools, unknown betas: unchanged or translated, never 400",
  async (t) => {
    const gate = await gateway(t);
    await unchanged(t, gate, "anthropic-messages");
    for (const vendor of others("anthropic-messages")) {
      const { headers } = await agent(gate, "anthropic-messages", vendor);
      t.match(headers.get("gateway-dropped"), /context_management/, `${vendor}: an omission is declared`);
      const sent = sentText(gate);
      t.match(sent, /# Environment/, `${vendor}: the system message in messages[]`);
      t.match(sent, /"Cron".*"Search"|"Search".*"Cron"/s, `${vendor}: deferred tools`);
      if (vendor !== "openai-chat") t.match(sent, /web_search|googleSearch/, vendor);
      t.match(sent, /"high"|"HIGH"/, `${vendor}: output_config.effort`);
      t.notMatch(sent, /c2ln|anthropic-beta|defer_loading|eager_input|cache_control/, vendor);
    }
    const search = { type: "web_search_20250305", name: "web_search", max_uses: 8 };
    const schema = { type: "object", properties: { title: { type: "string" } }, required: ["title"] };
    const messages = [{ role: "user", content: "Hi" }];
    const seen: Record<string, JsonObject> = {
      "the side request of a web search": {
        messages,
        tools: [search],
        tool_choice: { type: "tool", name: "web_search" },
        thinking: { type: "disabled" },
      },
      "a search in some domains": { messages, tools: [{ ...search, allowed_domains: ["example.com"] }] },
      "the request for a title": { messages, tools: [], output_config: { format: { type: "json_schema", schema } } },
      "thinking in tokens": { thinking: { type: "enabled", budget_tokens: 31_999, display: "updates" } },
      "blocks and members nobody knows": {
        messages: [{ role: "user", content: [{ type: "hologram" }, { type: "text", text: "Hi", aura: 1 }] }],
        never_heard_of: { deep: [1] },
      },
    };
    for (const [what, more] of Object.entries(seen))
      for (const vendor of PROTOCOLS) await t.resolves(agent(gate, "anthropic-messages", vendor, more), what);
  },
);

t.test("Responses: developer messages, added tools, namespaces, grammars, pictures, encrypted reasoning", async (t) => {
  const gate = await gateway(t, "share: all\n");
  await unchanged(t, gate, "openai-responses");
  const { input } = JSON.parse(CLIENT_BODIES["openai-responses"].body) as { input: JsonObject[] };
  const compactions: unknown[] = [];
  for (const vendor of others("openai-responses")) {
    const { headers } = await agent(gate, "openai-responses", vendor, { input: input.slice(0, -1) });
    const sent = sentText(gate);
    t.match(sent, /You are an agent/, `${vendor}: the developer's message, without instructions`);
    t.match(sent, /apply_patch/, `${vendor}: a custom tool`);
    t.match(sent, /functions\w*exec/, `${vendor}: an added tool of a namespace`);
    if (vendor === "gemini") t.match(sent, /googleSearch/);
    else t.match(headers.get("gateway-dropped"), /tools\.\d/, `${vendor}: few models but the vendor's search the web`);
    t.match(sent, /"?ls\b.*iVBO/s, `${vendor}: a call in free text and its picture`);
    t.notMatch(sent, /gAAAA|rs_0|tool_search|client_metadata|encrypted/, `${vendor}: nothing that only OpenAI reads`);
    t.match(headers.get("gateway-dropped"), /input\.3/, `${vendor}: a reference to reasoning is omitted`);
    const compaction = (await (
      await agent(gate, "openai-responses", vendor, { input, stream: false })
    ).json()) as object;
    t.match(compaction, { status: "completed", output: [{ type: "compaction", encrypted_content: String }] }, vendor);
    compactions.push(...listAt(compaction, "output"));
    const short = [{ id: "rs_1" }, { role: "user", content: "Hi" }];
    await t.resolves(agent(gate, "openai-responses", vendor, { input: short }), "a reference in its short form");
    const turn = { model: `of-${vendor}`, input: [{ id: "msg_1", type: "item_reference" }, ...short] };
    const refused = await gate.post("/v1/responses", turn);
    t.equal(refused.status, 400, `${vendor}: a turn cannot be omitted`);
    t.match(await refused.json(), { error: { param: "input.0", message: /store: false/ } }, vendor);
  }
  t.equal(compactions.length, 3, "one item each");
  for (const vendor of PROTOCOLS) {
    await agent(gate, "openai-responses", vendor, { input: [...compactions, { role: "user", content: "Go on." }] });
    t.match(sentText(gate), TEXT, `${vendor}: a compaction is read, whichever provider made it`);
    await goesOn(t, gate, "openai-responses", vendor);
  }
  await customTools(t);
});

/** Thoughts reach a client, and what their provider needs to go on from them comes back to it. */
async function goesOn(
  t: Test,
  gate: ChecklistGateway,
  client: ProtocolName,
  vendor: ProtocolName,
): Promise<JsonObject> {
  gate.answer((reply) => reply.setHeader("content-type", "application/json").end(JSON.stringify(THOUGHTFUL[vendor])));
  const { ask, next, with: named } = clientOf(client);
  const model = `of-${vendor}`;
  const body = ask("Hi", "f");
  const response = await gate.fine(pathFor(client, model), named(body, model, false));
  const answer = (await response.json()) as JsonObject;
  t.match(JSON.stringify(answer), THOUGHT, `${client} ← ${vendor}: thoughts`);
  const again = await gate.fine(pathFor(client, model), named(next(body, answer, "Go on."), model, false));
  t.match(sentText(gate), vendor === "openai-chat" ? THOUGHT : STATE, `${client} → ${vendor}: and back`);
  t.notOk(again.headers.has("gateway-notice"), "nothing of them is omitted");
  gate.answer(speaking("text"));
  return answer;
}

/** A tool of a namespace that takes free text is called as what it is, and its result comes back. */
async function customTools(t: Test) {
  const demos = PROTOCOLS.map((name) => `  ${name}: { url: "demo:", speaks: [${name}] }\n`).join("");
  const models = PROTOCOLS.map((name) => `  ${name}: { targets: ["${name}:tool"] }\n`).join("");
  const { url } = await startGateway(t, `providers:\n${demos}models:\n${models}`);
  const format = { type: "grammar", syntax: "lark", definition: "start: /.+/" };
  const added = [{ type: "namespace", name: "functions", tools: [{ type: "custom", name: "exec", format }] }];
  const input: JsonObject[] = [
    { type: "additional_tools", role: "developer", tools: added },
    { role: "user", content: "Go." },
  ];
  for (const model of PROTOCOLS) {
    const ask = async (more: object): Promise<string> => {
      const body = JSON.stringify({ model, store: false, input, ...more });
      return (await fetch(`${url}/v1/responses`, { method: "POST", headers: asking(), body })).text();
    };
    const streamed = eventsOf(await ask({ stream: true })).findLast(({ type }) => type === "response.completed");
    const call = listAt(streamed, "response.output").find(({ type }) => type === "custom_tool_call");
    t.match(call, { name: "exec", namespace: "functions", input: String }, model);
    const output = { type: "custom_tool_call_output", call_id: call?.["call_id"], output: "done" };
    t.match(await ask({ input: [...input, call, output] }), /The tool answered: .*done/, model);
  }
}

t.test("Chat: developer, several messages in a row, both limits, store, reasoning_content both ways", async (t) => {
  const gate = await gateway(t);
  await unchanged(t, gate, "openai-chat");
  const messages = [
    { role: "developer", content: "First." },
    { role: "system", content: "Second." },
    { role: "user", content: "Third." },
    { role: "user", content: [{ type: "text", text: "Fourth." }] },
    { role: "user", content: "Fifth." },
  ];
  const limits: Record<ProtocolName, string> = {
    "openai-chat": "max_completion_tokens",
    "openai-responses": "max_output_tokens",
    "anthropic-messages": "max_tokens",
    gemini: "generationConfig.maxOutputTokens",
  };
  for (const vendor of PROTOCOLS) {
    for (const [name, limit] of [
      ["max_tokens", 50],
      ["max_completion_tokens", 60],
    ] as const) {
      await gate.fine("/v1/chat/completions", { model: `of-${vendor}`, messages, store: false, [name]: limit });
      const sent = sentText(gate);
      t.match(sent, /First\..*Second\..*Third\..*Fourth\..*Fifth\./s, `${vendor}: all of them, in order`);
      t.equal(at(gate.sent(), vendor === "openai-chat" ? name : limits[vendor]), limit, `${vendor}: ${name}`);
    }
    const { choices } = await goesOn(t, gate, "openai-chat", vendor);
    t.match(choices, [{ message: { reasoning_content: THOUGHT, content: TEXT } }], vendor);
  }
});

t.test("Gemini: both kinds of parameters, systemInstruction with role, signatures, the skip value", async (t) => {
  const gate = await gateway(t);
  await unchanged(t, gate, "gemini");
  const tools: Record<ProtocolName, string> = {
    "openai-chat": "tools.1.function.parameters",
    "openai-responses": "tools.1.parameters",
    "anthropic-messages": "tools.1.input_schema",
    gemini: "tools.0.functionDeclarations.1.parameters",
  };
  for (const vendor of others("gemini")) {
    await agent(gate, "gemini", vendor);
    const sent = sentText(gate);
    t.same(at(gate.sent(), tools[vendor]), { type: "object", properties: { x: { type: "string" } } }, vendor);
    t.match(sent, /"s"/, `${vendor}: the system's instruction`);
    t.match(sent, /"a1".*ok/s, `${vendor}: the call's id and its result`);
    t.notMatch(sent, /skip_thought|UNSPECIFIED|effort/, `${vendor}: nothing is invented`);
  }
  for (const vendor of PROTOCOLS) await goesOn(t, gate, "gemini", vendor);
});

t.test("no per-run text in cache keys; turn 2 may resend blocks as a plain string", async (t) => {
  const gate = await gateway(t);
  const environment = "# Environment";
  const run = async (vendor: ProtocolName, name: string, content: unknown): Promise<string> => {
    const system = [
      { type: "text", text: `x-anthropic-billing-header: cc_version=2.1.329.${name}; cc_entrypoint=sdk-cli;` },
      { type: "text", text: "You are an agent." },
    ];
    const messages = [
      { role: "user", content: "Hi" },
      { role: "system", content },
    ];
    const body = { model: `of-${vendor}`, max_tokens: 9, system, messages };
    await gate.fine("/v1/messages", body, { "x-claude-code-session-id": name });
    return sentText(gate);
  };
  for (const vendor of others("anthropic-messages")) {
    const first = await run(vendor, "c9e", [{ type: "text", text: environment }]);
    t.equal(await run(vendor, "c9e", environment), first, `${vendor}: blocks or a string, the prefix stays`);
    t.equal(await run(vendor, "a01", environment), first, `${vendor}: another run has the same prefix`);
  }
});
