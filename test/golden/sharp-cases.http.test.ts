/** Sharp cases of HTTP: through a real gateway, over sockets. */

import { request } from "node:http";
import t from "tap";
import { type JsonObject } from "../../src/wire/values.ts";
import { digest } from "../support/digest.ts";
import { gathered } from "../support/gathered.ts";
import { asking } from "../support/key.ts";
import { sample } from "../support/sample.ts";
import { until } from "../support/until.ts";
import { ASK, accumulated, PROTOCOLS, type ProtocolName } from "../support/vendor-sdks.ts";
import {
  candidate,
  chatStream,
  chunk,
  joinedAt,
  listAt,
  messageStream,
  responseOf,
  responseStream,
  streamOf,
} from "./sharp-cases.ts";
import { answering, between, events, requestOf, streaming } from "./sharp-http.ts";

const others = (vendor: ProtocolName) => PROTOCOLS.filter((name) => name !== vendor);
const usage = { prompt_tokens: 5, completion_tokens: 2, total_tokens: 7 };
const TEXT = [chunk({ role: "assistant", content: "" }), chunk({ content: "Hi" }), chunk({}, "stop")];
const COUNTED = chatStream([...TEXT, { ...chunk({}), choices: [], usage }]);

t.test(
  "11: usage is requested of a Chat upstream that would not send it, and hidden from clients that did not request it",
  async (t) => {
    const gate = await between(t);
    gate.answer(streaming(COUNTED));
    for (const client of others("openai-chat")) {
      const { text } = await gate.ask(client, "openai-chat");
      t.same(gate.sent()["stream_options"], { include_usage: true }, client);
      t.match(text, /:5\b.*:2\b/s, `${client} always reports usage`);
    }
    const body = { messages: [{ role: "user", content: "Hi" }] };
    const silent = await gate.ask("openai-chat", "openai-chat", { body });
    t.same(gate.sent()["stream_options"], { include_usage: true });
    t.same(
      events(silent.text).map((value) => [listAt(value, "choices").length, value["usage"]]),
      TEXT.map(() => [1, undefined]),
    );
    t.match(silent.text, /data: \[DONE\]\n\n$/);
    const asked = await gate.ask("openai-chat", "openai-chat");
    t.same(events(asked.text).at(-1)?.["usage"], usage);
    gate.answer(
      streaming(
        streamOf("gemini", [
          candidate([{ text: "Hi" }], "STOP", {
            usageMetadata: { promptTokenCount: 5, candidatesTokenCount: 2, totalTokenCount: 7 },
          }),
        ]),
      ),
    );
    t.notMatch((await gate.ask("openai-chat", "gemini", { body })).text, "prompt_tokens");
    t.match(events((await gate.ask("openai-chat", "gemini")).text).at(-1), { choices: { length: 0 }, usage });
  },
);

t.test("13: [DONE] reaches Chat clients only, and is not what makes a Chat stream complete", async (t) => {
  const gate = await between(t);
  for (const [name, stream] of [
    ["with", chatStream(TEXT)],
    ["without", streamOf("openai-chat", TEXT)],
  ] as const) {
    gate.answer(streaming(stream));
    for (const client of others("openai-chat")) {
      const { text, cut } = await gate.ask(client, "openai-chat");
      t.notMatch(text, /\[DONE\]/, `${client}, ${name}`);
      t.equal(cut, false);
      t.equal(digest(client, await accumulated(client, true, text)).text, "Hi");
    }
  }
  gate.answer(streaming(streamOf("openai-chat", TEXT.slice(0, 2))));
  for (const client of others("openai-chat")) {
    const { text, cut } = await gate.ask(client, "openai-chat");
    t.ok(cut, "without a finish_reason nothing has ended");
    t.match(text, /error/);
    t.notMatch(text, /message_stop|end_turn|response\.completed|finishReason/, client);
  }
  gate.answer(streaming(streamOf("anthropic-messages", messageStream([[{ type: "text", text: "Hi" }]]))));
  t.match((await gate.ask("openai-chat", "anthropic-messages")).text, /\n\ndata: \[DONE\]\n\n$/);
});

t.test("14: an error after a 200 is an error in each protocol's own form, and the connection is closed", async (t) => {
  const gate = await between(t);
  const error = {
    message: "Over capacity, try again.",
    type: "service_unavailable",
    code: "over_capacity",
    status_code: 503,
  };
  gate.answer(streaming(`${streamOf("openai-chat", [...TEXT.slice(0, 2), { error }])}data: [DONE]\n\n`));
  const claude = await gate.ask("anthropic-messages", "openai-chat");
  t.match(claude.text, /\n\nevent: error\ndata: .*\n\n$/);
  t.match(events(claude.text).at(-1), { type: "error", error: { type: "overloaded_error", message: error.message } });
  const responses = await gate.ask("openai-responses", "openai-chat");
  t.match(events(responses.text).slice(-2), [
    { type: "response.failed", response: { status: "failed", error: { message: error.message } } },
    { type: "error", message: error.message },
  ]);
  const gemini = await gate.ask("gemini", "openai-chat");
  t.match(events(gemini.text).at(-1), {
    error: { code: 503, status: "UNAVAILABLE", message: error.message },
  });
  for (const { cut, text } of [claude, responses, gemini]) {
    t.ok(cut);
    t.match(text, /Hi/, "the content before it is there");
  }
  for (const client of others("openai-chat"))
    await t.rejects(ASK[client]({ url: gate.running.url, model: "of-openai-chat", stream: true }), /Over capacity/);
});

t.test(
  "16: without alt=sse a Gemini client gets a JSON array that is valid at its end, whatever happens",
  async (t) => {
    const gate = await between(t);
    const error = { error: { message: "Broken.", type: "server_error" } };
    const endings = {
      whole: streaming(chatStream(TEXT)),
      "an error midway": streaming(streamOf("openai-chat", [...TEXT.slice(0, 2), error])),
      "broken off": streaming(streamOf("openai-chat", TEXT.slice(0, 2)), "cut"),
      "ended too early": streaming(streamOf("openai-chat", TEXT.slice(0, 2))),
    };
    for (const [name, ending] of Object.entries(endings)) {
      gate.answer(ending);
      const { text, headers, cut } = await gate.ask("gemini", "openai-chat", { array: true });
      t.match(headers.get("content-type"), /^application\/json/, name);
      const elements = JSON.parse(text) as JsonObject[];
      t.equal(joinedAt(elements, "candidates.0.content.parts.0.text"), "Hi", name);
      t.notOk(cut, "an array contains its error, which clients that read it completely can see");
      if (name !== "whole") t.match(elements.at(-1), { error: { code: Number, message: /./ } });
    }
  },
);

t.test(
  "56: pings before, between and after content are no content, and a waiting client gets keep-alives",
  async (t) => {
    const gate = await between(t, "plugins: { sse: { ping: 1 } }\n");
    // Two answers are compared, and each tells the second in which it was made.
    const { restore } = t.intercept(Date, "now", { value: () => Date.UTC(2026, 10, 22) });
    const message = messageStream([
      [
        { type: "text", text: "" },
        { type: "text_delta", text: "Hi" },
      ],
    ]);
    const ping = { type: "ping" };
    const pinged = streamOf("anthropic-messages", [ping, ...message.flatMap((event) => [event, ping, ping])]);
    const keepAlive = /^: ping\n\n|^\r\n\r\n|^event: ping\ndata: .*\n\n/gm;
    for (const client of others("anthropic-messages")) {
      gate.answer(streaming(streamOf("anthropic-messages", message)));
      const plain = await gate.ask(client, "anthropic-messages");
      gate.answer(streaming(pinged));
      const { text } = await gate.ask(client, "anthropic-messages");
      const bare = (uses: string) => uses.replaceAll(keepAlive, "").replaceAll(/01[a-z0-9]{24}/gi, "");
      t.equal(bare(text), bare(plain.text), client);
    }
    restore();
    // Silence on the side of the provider, in the middle of its answer.
    const cutAt = 3;
    gate.answer((reply) => {
      reply.writeHead(200, { "content-type": "text/event-stream" });
      reply.write(streamOf("anthropic-messages", message.slice(0, cutAt)));
      setTimeout(() => reply.end(streamOf("anthropic-messages", message.slice(cutAt))), 1300);
    });
    const waited = await Promise.all(PROTOCOLS.map((client) => gate.ask(client, "anthropic-messages")));
    for (const [n, { text }] of waited.entries()) {
      const client = PROTOCOLS[n] as ProtocolName;
      t.match(text, new RegExp(keepAlive.source, "m"), client);
      t.equal(digest(client, await accumulated(client, true, text)).text, "Hi");
    }
  },
);

t.test(
  "58: unknown members pass unchanged within their protocol, and are named in the log for the others",
  async (t) => {
    const gate = await between(t);
    const text = [
      { type: "text", text: "" },
      { type: "text_delta", text: "Hi" },
    ] as const;
    const strange = [
      { type: "hologram", shape: { sides: 6 } },
      { type: "hologram_delta", more: 1 },
    ] as const;
    const message = {
      type: "message",
      id: "msg_1",
      role: "assistant",
      status: "completed",
      content: [{ type: "output_text", text: "Hi", annotations: [] }],
    };
    const part = { item_id: "msg_1", output_index: 1, content_index: 0 };
    const [created, ...rest] = responseStream(
      [{ type: "hologram_call", id: "h_1" }, message],
      responseOf([{ type: "hologram_call", id: "h_1" }, message]),
    );
    const streams: Record<ProtocolName, string> = {
      "anthropic-messages": streamOf("anthropic-messages", [
        ...messageStream([strange as never, text as never]).flatMap((event) =>
          event["type"] === "message_delta" ? [{ type: "hologram_event" }, event] : [event],
        ),
      ]),
      "openai-responses": streamOf("openai-responses", [
        created,
        { type: "response.hologram_call.spinning", item_id: "h_1", output_index: 0 },
        ...rest.slice(0, 3),
        { type: "response.output_text.delta", ...part, delta: "Hi" },
        ...rest.slice(3),
      ]),
      "openai-chat": chatStream([TEXT[0] as JsonObject, chunk({ hologram: { sides: 6 } }), ...TEXT.slice(1)]),
      gemini: streamOf("gemini", [candidate([{ hologram: { sides: 6 } }]), candidate([{ text: "Hi" }], "STOP")]),
    };
    const logged = () => gate.running.log.lines.filter(({ message: name }) => name === "exchange");
    for (const vendor of PROTOCOLS) {
      gate.answer(streaming(streams[vendor]));
      t.equal((await gate.ask(vendor, vendor)).text, streams[vendor], `${vendor}, verbatim`);
      for (const client of others(vendor)) {
        const { text: told, cut } = await gate.ask(client, vendor);
        t.equal(cut, false);
        t.equal(digest(client, await accumulated(client, true, told)).text, "Hi", `${vendor} to ${client}`);
        t.notMatch(told, "hologram");
        await until(() => logged().length === gate.upstream.seen.length, "the log line");
        t.match(
          String(logged().at(-1)?.fields["dropped_from_response"]),
          /hologram/,
          `${vendor} to ${client}: named in the log`,
        );
      }
    }
  },
);

t.test("59: a client that disconnects ends the upstream request, and its usage so far is recorded", async (t) => {
  const gate = await between(t);
  const start = messageStream([
    [
      { type: "text", text: "" },
      { type: "text_delta", text: "Hi" },
    ],
  ]).slice(0, 3);
  for (const client of PROTOCOLS) {
    let closed = false;
    let ended = false;
    gate.answer((reply) => {
      reply.writeHead(200, { "content-type": "text/event-stream" });
      reply.write(streamOf("anthropic-messages", start));
      reply.on("close", () => {
        closed = true;
        ended = reply.writableFinished;
      });
    });
    const [path, body] = requestOf(client, "anthropic-messages");
    const outgoing = request({ port: gate.running.port, host: "127.0.0.1", method: "POST", path, headers: asking() });
    outgoing.on("error", () => {});
    outgoing.on("response", (response) => {
      response.on("error", () => {});
      response.once("data", () => outgoing.destroy());
    });
    const before = gate.running.log.lines.length;
    outgoing.end(body);
    await until(() => closed, "the provider to notice");
    t.notOk(ended, "more data was to come");
    await until(() => gate.running.log.lines.length > before, "the log line");
    t.match(gate.running.log.lines.at(-1)?.fields, { outcome: "aborted" }, client);
    await gate.running.gateway.stores.ledger.flush();
    t.match(await gate.running.gateway.stores.ledger.recent(1), [
      { outcome: "aborted", source: "partial", usage: { in: { total: 10 }, out: { total: 5 } } },
    ]);
  }
});

gathered(
  t,
  "60: whatever a failing provider sends, the client gets its protocol's error, the status and when to come back",
  async (t) => {
    const gate = await between(t);
    const page = "<html><body>Sorry</body></html>";
    const bodies: Record<string, [body: string, headers: Record<string, string>]> = {
      "an HTML page": [page, { "content-type": "text/html; charset=utf-8" }],
      nothing: ["", {}],
      "broken JSON": ['{"error":', { "content-type": "application/json" }],
    };
    const isError: Record<ProtocolName, object> = {
      "openai-chat": { error: { message: /./, type: String, code: String } },
      "openai-responses": { error: { message: /./, type: String, code: String } },
      "anthropic-messages": { type: "error", error: { type: String, message: /./ }, request_id: String },
      gemini: { error: { code: Number, message: /./, status: String } },
    };
    const pairs = PROTOCOLS.flatMap((vendor) => PROTOCOLS.map((client) => [vendor, client] as const));
    for (const [vendor, client] of sample(pairs, 3))
      for (const status of [429, 503, 529])
        for (const [name, [body, headers]] of Object.entries(bodies)) {
          if (client === vendor && name === "broken JSON") continue;
          gate.answer(answering(status, body, { ...headers, "retry-after": "17" }));
          for (const stream of [false, true]) {
            const got = await gate.ask(client, vendor, { stream });
            const path = `${status} with ${name}, ${vendor} to ${client}, ${stream ? "streamed" : "whole"}`;
            const overloaded = client === "anthropic-messages" ? 529 : 503;
            t.equal(got.status, status === 429 || client === vendor ? status : overloaded, path);
            t.equal(got.headers.get("retry-after"), "17", path);
            t.equal(got.headers.get("content-type"), "application/json", path);
            t.not(got.headers.get("x-should-retry"), "false", path);
            t.match(JSON.parse(got.text), isError[client], path);
          }
        }
    gate.answer(answering(200, page, { "content-type": "text/html" }));
    for (const vendor of PROTOCOLS)
      for (const client of PROTOCOLS)
        for (const stream of [false, true]) {
          const got = await gate.ask(client, vendor, { stream });
          t.equal(got.status, 502, `a page with 200, ${vendor} to ${client}`);
          t.match(JSON.parse(got.text), isError[client]);
        }
  },
);
