import t from "tap";
import { streamError } from "../../../../plugins/protocols/openai/errors.ts";
import { includeUsage } from "../../../../plugins/protocols/openai/usage.ts";
import { GatewayError } from "../../../../src/core/errors.ts";
import { Frame } from "../../../../src/wire/frame.ts";
import { collect, receiving, SDKS } from "../../../support/openai-sdks.ts";
import { asEvent, eventsIn, recorded } from "../../../support/recorded.ts";
import { CHUNKED, MEMBERS } from "./members.ts";

for (const [folder, { protocol }] of Object.entries(MEMBERS)) {
  t.test(`${folder}: its name is its folder's`, async (t) => {
    t.equal(protocol.name, folder);
  });

  t.test(`${folder}: a ping is a comment: no event, no data`, async (t) => {
    const frame = new Frame("event", protocol.ping);
    t.same([frame.event, frame.text], [undefined, undefined]);
  });

  t.test(`${folder}: an unlisted path is none of its operations`, async (t) => {
    for (const path of ["/v1", "/v1/models", `${protocol.paths[0]}/x`, "constructor"]) {
      t.equal(protocol.locate(path, "", new URLSearchParams()), undefined);
    }
  });

  t.test(`${folder}: the provider gets the credential as a bearer token`, async (t) => {
    t.same(protocol.credential("secret"), ["authorization", "Bearer secret"]);
  });

  t.test(`${folder}: headers with the client's organisation are not passed on`, async (t) => {
    const passes = (name: string) =>
      protocol.headers.some((entry) => (entry.endsWith("*") ? name.startsWith(entry.slice(0, -1)) : entry === name));
    for (const name of ["openai-organization", "openai-project", "authorization", "cookie", "host"])
      t.notOk(passes(name), name);
    for (const name of ["openai-beta", "idempotency-key", "x-stainless-os"]) t.ok(passes(name), name);
  });
}

for (const folder of ["openai-chat", "openai-completions", "openai-images", "openai-responses"]) {
  t.test(`${folder}: only a frame with a usage object contains usage`, async (t) => {
    const { holdsUsage } = (MEMBERS[folder] as (typeof MEMBERS)[string]).protocol;
    t.ok(holdsUsage(asEvent({ usage: { input_tokens: 1 } })));
    t.notOk(holdsUsage(asEvent({ usage: null })));
    t.ok(holdsUsage(asEvent({ response: { usage: { input_tokens: 1 } } })));
    t.notOk(holdsUsage(asEvent({ response: { usage: null } })));
    t.notOk(holdsUsage(asEvent({ type: "response.output_text.delta", delta: '"usage":{' })));
  });
}

const event = (data: string) => new Frame("event", Buffer.from(`data: ${data}\n\n`));

/** Recorded streams that do not end whole: the vendor broke them off with an error chunk. */
const FAILED = new Set([
  "openai-chat/pydantic-ai__test_groq.test_tool_use_failed_error_streaming__0",
  "openai-chat/pydantic-ai__test_groq.test_tool_use_failed_error_streaming_with_text__0",
]);

for (const [folder, { protocol, holding, finish }] of Object.entries(CHUNKED)) {
  const { ending, holdsUsage } = protocol;

  t.test(`${folder}: a finish reason or [DONE] completes a stream`, async (t) => {
    t.equal(ending(event(`{"choices":[{"index":0,${holding("")},"finish_reason":"stop"}]}`)), "complete");
    t.equal(ending(event(`{"choices":[{"index":0,${holding("")},"finish_reason" : "${finish}"}]}`)), "complete");
    t.equal(ending(event('{"choices":[{"finish_reason":null},{"finish_reason":"length"}]}')), "complete");
    t.equal(ending(event("[DONE]")), "complete");
    t.equal(ending(new Frame("event", Buffer.from("data:[DONE]\r\n\r\n"))), "complete");
  });

  t.test(`${folder}: an error chunk, named or not, and the finish reason error are failures`, async (t) => {
    t.equal(ending(event('{"error":{"message":"no","code":500}}')), "error");
    t.equal(ending(event('{"error" : "no"}')), "error");
    t.equal(ending(new Frame("event", Buffer.from('event: error\ndata: {"error":{"message":"no"}}\n\n'))), "error");
    t.equal(ending(event('{"choices":[{"finish_reason":"error"}],"error":{"code":502}}')), "error");
    t.equal(ending(event('{"choices":[{"finish_reason":"error"}]}')), "error");
    t.equal(ending(event('{"id":"1","error":{"code":400},"choices":[{"finish_reason":null}]}')), "error");
  });

  t.test(`${folder}: an event or object named error is one, whatever its content`, async (t) => {
    for (const name of ["event: error\n", "event:error\r\n", "id: 7\nevent: error\n"])
      for (const data of ['{"message":"no","code":500}', '{"detail":"no"}', "no", "{}", '"no"'])
        t.equal(ending(new Frame("event", Buffer.from(`${name}data: ${data}\n\n`))), "error", name + data);
    t.equal(ending(new Frame("event", Buffer.from("\ufeffevent: error\ndata: {}\n\n"), 3)), "error");
    t.equal(ending(new Frame("event", Buffer.from("data: {}\nevent: error\n\n"))), "error");
    t.equal(ending(event('{"object":"error","message":"no","code":400}')), "error");
    t.equal(ending(event('{"message":"no", "object" : "error"}')), "error");
    t.equal(ending(event('{"choices":[],"x_groq":{"id":"req_1","error":"over capacity"}}')), "error");
    t.equal(ending(new Frame("event", Buffer.from("event: error\n\n"))), undefined);
    t.equal(ending(new Frame("event", Buffer.from('event: message\ndata: {"message":"error"}\n\n'))), undefined);
  });

  t.test(`${folder}: nothing else ends it`, async (t) => {
    for (const data of [
      `{"choices":[{"index":0,${holding("Hi")},"finish_reason":null}]}`,
      `{"choices":[{"index":0,${holding("Hi")},"finish_reason":""}]}`,
      `{"choices":[{"index":0,${holding("Hi")}}]}`,
      '{"choices":[],"usage":{"prompt_tokens":1}}',
      `{"choices":[{${holding("data: [DONE]")},"finish_reason":null}],"error":null}`,
      `{"choices":[{${holding("a")},"finish_reason":null}],"error":""}`,
      `{"object":"chat.completion.chunk","choices":[{${holding("error")},"finish_reason":null}],"type":"error"}`,
      '{"choices":[],"x_groq":{"id":"req_1","error":null}}',
      "not json",
    ]) {
      t.equal(ending(event(data)), undefined, data);
    }
    t.equal(ending(new Frame("event", Buffer.from(": ping\n\n"))), undefined);
  });

  t.test(`${folder}: text that looks like an end is text`, async (t) => {
    const text = '"finish_reason":"stop","error":{},"usage":{}';
    const frame = event(`{"choices":[{"index":0,${holding(text)},"finish_reason":null}]}`);
    t.equal(ending(frame), undefined);
    t.equal(holdsUsage(frame), false);
  });

  t.test(`${folder}: every recorded stream ends as its vendor ended it`, async (t) => {
    const streams = recorded(folder).filter(({ kinds, status }) => status < 300 && kinds.includes("stream"));
    const wrong = streams.filter(({ id, body }) => {
      const endings = eventsIn(body).map(ending);
      return endings.findLast((found) => found !== undefined) !== (FAILED.has(id) ? "error" : "complete");
    });
    t.same(
      wrong.map(({ id }) => id),
      [],
    );
  });
}

t.test("a member of that name inside an argument object is not an end either", async (t) => {
  const data = '{"choices":[{"delta":{"x":{"finish_reason":"stop","error":{}}},"finish_reason":null}]}';
  for (const { protocol } of Object.values(CHUNKED)) t.equal(protocol.ending(event(data)), undefined);
});

t.test("in a stream an error is one chunk, and no [DONE]", async (t) => {
  t.equal(
    streamError(new GatewayError("upstream_truncated", { message: "Broken off." })).toString(),
    'data: {"error":{"message":"Broken off.","type":"server_error","param":null,"code":"upstream_truncated"}}\n\n',
  );
});

for (const [folder, { holding, stream }] of Object.entries(CHUNKED)) {
  for (const [name, Sdk] of Object.entries(SDKS)) {
    t.test(`${folder}: ${name} keeps what came before and throws the error`, async (t) => {
      const chunk = `{"choices":[{"index":0,${holding("Hel")},"finish_reason":null}]}`;
      const fault = streamError(new GatewayError("upstream_truncated", { message: "Broken off." }));
      for (const before of [[], [chunk]]) {
        const client = receiving(Sdk, before.map((data) => `data: ${data}\n\n`).join("") + fault);
        const { items, error } = await collect(await stream(client, "m"));
        t.match(error, { code: "upstream_truncated", type: "server_error", message: "Broken off." });
        t.ok(error instanceof Error);
        t.same(
          items,
          before.map((data) => JSON.parse(data)),
        );
      }
    });
  }
}

t.test("both fail, and request usage, in the same way", async (t) => {
  for (const { protocol } of Object.values(CHUNKED)) {
    t.equal(protocol.streamError, streamError);
    t.equal(protocol.includeUsage, includeUsage);
  }
});

t.test("usage is requested where a stream does not request it itself", async (t) => {
  t.ok(includeUsage.missing({ stream: true }));
  t.ok(includeUsage.missing({ stream: true, stream_options: { include_usage: false } }));
  t.ok(includeUsage.missing({ stream: true, stream_options: null }));
  t.notOk(includeUsage.missing({ stream: true, stream_options: { include_usage: true } }));
  t.ok(includeUsage.missing({ stream: true, usage: { include: true } }), "not every server knows that");
  t.notOk(includeUsage.missing({ stream: false }));
  t.notOk(includeUsage.missing({}));
  t.notOk(includeUsage.missing(undefined));
});

t.test("the client's own stream options stay", async (t) => {
  const member = (options: unknown) => includeUsage.member({ stream: true, stream_options: options });
  t.same(member({ include_obfuscation: false, include_usage: false }), {
    name: "stream_options",
    json: '{"include_obfuscation":false,"include_usage":true}',
  });
  for (const none of [undefined, null, "text"]) t.same(member(none).json, '{"include_usage":true}');
});

t.test("only the chunk without choices that has usage is added", async (t) => {
  t.ok(includeUsage.extra(event('{"choices":[],"usage":{"prompt_tokens":1}}')));
  t.notOk(includeUsage.extra(event('{"choices":[],"prompt_filter_results":[{"prompt_index":0}]}')));
  t.notOk(includeUsage.extra(event('{"choices":[],"usage":null}')));
  t.notOk(includeUsage.extra(event('{"choices":[{"index":0}],"usage":{"prompt_tokens":1}}')));
  t.notOk(includeUsage.extra(event('{"usage":{"prompt_tokens":1}}')));
  t.notOk(includeUsage.extra(event("[DONE]")));
});
