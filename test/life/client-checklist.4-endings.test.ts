/** What real clients demand of a gateway, continued: how streams run and end, counting, sessions. */
import { Agent, type IncomingMessage, request, type ServerResponse } from "node:http";
import { connect } from "node:net";
import { constants, createGzip } from "node:zlib";
import t, { type Test } from "tap";
import { requestOf } from "../golden/sharp-http.ts";
import { type ChecklistGateway, gateway, PAIRS, speaking } from "../support/checklist.ts";
import { asking, KEY, startGateway } from "../support/gateway.ts";
import { gathered } from "../support/gathered.ts";
import { PIECES, SCRIPTS } from "../support/scripted.ts";
import { until } from "../support/until.ts";
import { httpUpstream } from "../support/upstream.ts";
import { ASK, PROTOCOLS, type ProtocolName } from "../support/vendor-sdks.ts";

const SSE = { "content-type": "text/event-stream" };
/** The frames of a provider's text. */
const framesOf = (vendor: ProtocolName): string[] => SCRIPTS[vendor].frames("text");
/** How many of them make the first piece of it known. */
const begun = (vendor: ProtocolName): number => framesOf(vendor).findIndex((frame) => frame.includes(PIECES[0])) + 1;

/**
 * What a connection brings from a question to its end, without the sizes of its chunks but of one without any bytes.
 * @param arrived runs when the first piece of the text is there
 */
function raw({ running: { port } }: ChecklistGateway, client: ProtocolName, vendor: ProtocolName, arrived: () => void) {
  const [path, body] = requestOf(client, vendor);
  const head = `POST ${path} HTTP/1.1\r\nhost: gateway\r\nauthorization: Bearer ${KEY}\r\n`;
  const length = `content-type: application/json\r\ncontent-length: ${Buffer.byteLength(body)}\r\n\r\n`;
  return new Promise<{ text: string; ended: boolean }>((resolve) => {
    const socket = connect(port, "127.0.0.1", () => socket.write(head + length + body));
    let text = "";
    let ended = false;
    socket.setEncoding("utf8").on("data", (more: string) => {
      text += more;
      if (text.includes(PIECES[0])) arrived();
    });
    socket.on("end", () => (ended = true)).on("error", () => {});
    socket.on("close", () => resolve({ text: text.replaceAll(/\r\n[1-9a-f][0-9a-f]*\r\n/g, ""), ended }));
  });
}

t.test(
  "never an upstream's interruption as a clean end; cancel upstream when the client disconnects; keep-alive",
  async (t) => {
    await gathered(t, "a cut is told in the form that clients believe, and is no clean end", cuts);
    await t.test("a client that disconnects ends the upstream request", leaves);
    await t.test("idle time is filled with frames that are no content", silence);
  },
);

/** What a client is told when its stream breaks off. */
const TOLD: Record<ProtocolName, RegExp> = {
  "openai-chat": /\n\ndata: \{"error":\{[^\n]*\}\}\n\n\r\n$/,
  "openai-responses": /\n\nevent: response\.failed\ndata: [^\n]*\n\nevent: error\ndata: [^\n]*\n\n\r\n$/,
  "anthropic-messages": /\n\nevent: error\ndata: \{"type":"error",[^\n]*\n\n\r\n$/,
  gemini: /\ndata: \{"error":\{[^\n]*\}\}\r\n\r\n\r\n$/,
};

async function cuts(t: Test) {
  const gate = await gateway(t);
  const ways: Record<string, (reply: ServerResponse) => unknown> = {
    "a reset": (reply) => reply.socket?.resetAndDestroy(),
    "a clean end without the terminal event": (reply) => reply.end(),
  };
  for (const [client, vendor] of PAIRS)
    for (const [way, end] of Object.entries(ways)) {
      let over = () => {};
      gate.answer((reply) => {
        reply.writeHead(200, SSE).write(framesOf(vendor).slice(0, begun(vendor)).join(""));
        over = () => end(reply);
      });
      const { text, ended } = await raw(gate, client, vendor, () => over());
      const what = `${client} ← ${vendor}, ${way}`;
      t.match(text, TOLD[client], what);
      t.notMatch(text, /\r\n0\r\n|\[DONE\]|message_stop|response\.completed|finishReason/, `${what}: no end`);
      t.ok(ended, `${what}: the connection is closed, not reset`);
    }
  for (const [client, vendor] of PAIRS) {
    gate.answer((reply) => {
      const text = framesOf(vendor).slice(0, begun(vendor)).join("");
      reply.writeHead(200, SSE).write(text, () => reply.destroy());
    });
    const asked = ASK[client]({ url: gate.running.url, model: `of-${vendor}`, stream: true });
    await t.rejects(asked, `${client}'s SDK raises`);
  }
}

/** What a provider's path holds in each protocol. */
const PATH: Record<ProtocolName, string> = {
  "openai-chat": "/chat/completions",
  "openai-responses": "/responses",
  "anthropic-messages": "/messages",
  gemini: ":",
};

/** Asks; the answer is to be read or left. */
function streamed(gate: ChecklistGateway, client: ProtocolName, vendor: ProtocolName, agent?: Agent) {
  const [path, body] = requestOf(client, vendor);
  const { port } = gate.running;
  const headers = asking({ "accept-encoding": "gzip, deflate, br, zstd" });
  const outgoing = request({ port, host: "127.0.0.1", method: "POST", path, headers, ...(agent ? { agent } : {}) });
  outgoing.on("error", () => {});
  const answer = new Promise<IncomingMessage>((resolve) => outgoing.once("response", resolve));
  outgoing.end(body);
  return { outgoing, answer };
}

async function leaves(t: Test) {
  const gate = await gateway(t);
  for (const [client, vendor] of PAIRS)
    for (const frames of [0, begun(vendor)]) {
      let asked = false;
      let gone = false;
      gate.answer((reply) => {
        asked = true;
        reply.on("close", () => (gone = true));
        if (frames > 0) reply.writeHead(200, SSE).write(framesOf(vendor).slice(0, frames).join(""));
      });
      const { outgoing, answer } = streamed(gate, client, vendor);
      if (frames === 0) await until(() => asked, "the provider to be asked");
      else await new Promise((read) => answer.then((response) => response.on("error", () => {}).once("data", read)));
      outgoing.destroy();
      await until(() => gone, `${client} → ${vendor}: the provider to notice`);
      t.pass(`${client} → ${vendor}, ${frames === 0 ? "before" : "within"} the answer`);
    }
}

async function silence(t: Test) {
  const gate = await gateway(t, "plugins: { sse: { ping: 1 } }\n");
  gate.answer((reply, { url }) => {
    const vendor = PROTOCOLS.find((name) => url.includes(PATH[name])) as ProtocolName;
    const frames = framesOf(vendor);
    reply.writeHead(200, SSE).write(frames.slice(0, begun(vendor)).join(""));
    setTimeout(() => reply.end(frames.slice(begun(vendor)).join("")), 2000);
  });
  const pings: Record<ProtocolName, RegExp> = {
    "openai-chat": /\n\n: ping\n\n/,
    "openai-responses": /\n\n: ping\n\n/,
    "anthropic-messages": /\n\nevent: ping\ndata: \{"type": "ping"\}\n\n/,
    gemini: /\n\r?\n\r\n/,
  };
  await Promise.all(
    PAIRS.map(async ([client, vendor]) => {
      const { text, cut } = await gate.ask(client, vendor);
      t.match(text, pings[client], `${client} ← ${vendor}`);
      t.equal(cut, false);
    }),
  );
}

gathered(t, "flush every event, also under compression; keep connections after a finished stream", async (t) => {
  const gate = await gateway(t);
  for (const [client, vendor] of PAIRS)
    for (const coding of ["identity", "gzip"]) {
      const agent = new Agent({ keepAlive: true, maxSockets: 1 });
      const frames = framesOf(vendor);
      let seen = () => {};
      gate.answer(async (reply) => {
        reply.writeHead(200, { ...SSE, ...(coding === "gzip" ? { "content-encoding": "gzip" } : {}) });
        const zip = createGzip();
        const write = coding === "gzip" ? (text: string) => zip.write(text) : (text: string) => reply.write(text);
        if (coding === "gzip") zip.pipe(reply);
        for (const frame of frames) {
          // Each piece of the text is sent only when the one before has arrived.
          const arrived = new Promise<void>((resolve) => (seen = resolve));
          write(frame);
          if (coding === "gzip") zip.flush(constants.Z_SYNC_FLUSH);
          if (PIECES.some((piece) => frame.includes(`"${piece}"`))) await arrived;
        }
        if (coding === "gzip") zip.end();
        else reply.end();
      });
      const way = `${client} ← ${vendor}, ${coding}`;
      const ask = async (): Promise<string> => {
        let text = "";
        let known = 0;
        const { answer } = streamed(gate, client, vendor, agent);
        const response = (await answer).setEncoding("utf8");
        t.equal(response.statusCode, 200, way);
        for await (const more of response) {
          text += more;
          const now = PIECES.filter((piece) => text.includes(`"${piece}"`)).length;
          if (now > known) seen();
          known = now;
        }
        return text;
      };
      for (const piece of PIECES) t.ok((await ask()).includes(`"${piece}"`), way);
      t.equal(Object.values(agent.freeSockets).flat().length, 1, `${way}: three streams over one connection`);
      agent.destroy();
    }
});

gathered(t, "whole answers to requests of the same size; 34 counts at once; a count is never a 500", async (t) => {
  const gate = await gateway(t);
  const system = "You are an agent. ".repeat(7000);
  const tools = [{ name: "f", input_schema: { type: "object", properties: {} } }];
  const messages = [{ role: "user", content: "Hi" }];
  const ask = { max_tokens: 128_000, messages, system, tools };
  for (const vendor of PROTOCOLS)
    for (const stream of [true, false])
      await t.resolves(gate.fine("/v1/messages?beta=true", { ...ask, model: `of-${vendor}`, stream }), vendor);
  const counting = { system, tools, messages };
  const count = (vendor: ProtocolName) =>
    gate.post("/v1/messages/count_tokens?beta=true", { model: `of-${vendor}`, ...counting });
  for (const vendor of PROTOCOLS) {
    gate.answer(speaking("text"));
    for (const answer of await Promise.all(Array.from({ length: 34 }, () => count(vendor)))) {
      t.equal(answer.status, 200, vendor);
      t.match(await answer.json(), { input_tokens: Number }, vendor);
    }
    for (const [status, body] of [
      [200, '{"nothing":'],
      [404, '{"error":{"message":"No such path."}}'],
      [500, '{"error":{"message":"Broken."}}'],
      [529, "<html>Sorry</html>"],
    ] as const) {
      gate.answer((reply) => reply.writeHead(status, { "content-type": "application/json" }).end(body));
      const answer = await count(vendor);
      const passes = vendor === "anthropic-messages" && status < 500;
      t.equal(answer.status, passes ? status : 200, `${vendor}, ${status}`);
      if (!passes) t.equal(answer.headers.get("gateway-estimate"), "input_tokens", vendor);
    }
  }
});

gathered(t, "sticky routing keys: session and thread headers, prompt_cache_key, metadata.user_id", async (t) => {
  const places = ["one", "two", "three"];
  const seen: string[] = [];
  const upstream = await httpUpstream((request, reply) => {
    seen.push(request.url.slice(1, request.url.indexOf("/", 1)));
    speaking("text")(reply, request);
  });
  t.teardown(() => upstream.close());
  const provider = (place: string) => `  ${place}: { url: "${upstream.origin.origin}/${place}/v1", speaks: [WHICH] }\n`;
  const targets = places.map((place) => `"${place}:any"`).join(", ");
  for (const vendor of PROTOCOLS) {
    const providers = places.map(provider).join("").replaceAll("WHICH", vendor);
    const { url } = await startGateway(t, `providers:\n${providers}models: { m: { targets: [${targets}] } }\n`);
    const chosen = async (path: string, headers: Record<string, string>, more: object): Promise<string | undefined> => {
      const body = JSON.stringify({ model: "m", ...more });
      const response = await fetch(url + path, { method: "POST", headers: asking(headers), body });
      t.equal(response.status, 200, await response.text());
      return seen.at(-1);
    };
    const { messages, input } = { messages: [{ role: "user", content: "Hi" }], input: "Hi" };
    const ways: Record<string, (session: string) => Promise<string | undefined>> = {
      prompt_cache_key: (key) => chosen("/v1/responses", {}, { input, prompt_cache_key: key }),
      "prompt_cache_key of Chat": (key) => chosen("/v1/chat/completions", {}, { messages, prompt_cache_key: key }),
      "metadata.user_id": (id) => {
        const user_id = JSON.stringify({ device_id: "d", account_uuid: "", session_id: id });
        return chosen("/v1/messages", {}, { messages, max_tokens: 9, metadata: { user_id } });
      },
    };
    for (const name of ["x-claude-code-session-id", "session-id", "session_id", "thread-id", "x-session-affinity"])
      ways[name] = (id) => chosen("/v1/messages", { [name]: id }, { messages, max_tokens: 9 });
    for (const [name, ask] of Object.entries(ways)) {
      const sessions = Array.from({ length: 8 }, (_, i) => `session-${i}`);
      const at = new Map<string, string | undefined>();
      for (const session of sessions) at.set(session, await ask(session));
      for (const session of sessions) t.equal(await ask(session), at.get(session), `${name} → ${vendor}`);
      t.ok(new Set(at.values()).size > 1, `${name}: sessions are distributed`);
    }
  }
});
