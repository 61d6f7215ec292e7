import t, { type Test } from "tap";
import type { Attempt } from "../../src/core/attempt.ts";
import { detectNonAnswer } from "../../src/upstream/non-answer.ts";
import type { BodyInspector, UpstreamResponse } from "../../src/upstream/response.ts";
import { chunk } from "../support/chunk.ts";
import { startGateway } from "../support/gateway.ts";
import { asking } from "../support/key.ts";
import { proxied } from "../support/proxied.ts";
import { CHUNKED, client, httpUpstream, outgoing, type Script, whole } from "../support/upstream.ts";

/** What stands in an answer's place, and all of it read afterwards. */
async function look(t: Test, script: Script, array = false, limit = 2000) {
  const { upstream, proxy } = await proxied(t, script);
  const response = await proxy.send(outgoing(upstream.origin), client());
  const attempt: Pick<Attempt, "unreadBytes"> = { unreadBytes: undefined };
  const found = await detectNonAnswer(response, array, limit, attempt);
  return {
    found: typeof found === "object" ? found.text : found,
    cut: attempt.unreadBytes,
    read: () => whole(response),
  };
}

t.test(
  "an answer is distinguished from a page, an empty body and an error, however it is split; all stays readable",
  async (t) => {
    for (const [text, is, array] of [
      ['\n\n {"id":"c","choices":[]}', undefined],
      ['\ufeff{"id":"c"}', undefined],
      ['[{"candidates":[]}]', undefined, true],
      ["[1,2]", "unreadable"],
      ["null", "unreadable"],
      ["<!doctype html>", "unreadable"],
      ["", "empty"],
      [" \n", "empty"],
      ['{ "error": {"message":"busy"} }', '{"error":{"message":"busy"}}'],
      ['{"object":"error","message":"busy"}', '{"object":"error","message":"busy"}'],
      ['{"object":"response","status":"failed","error":{"code":"x"}}', undefined],
      ['{"id":"c","error":null,"text":"\\"error\\":{"}', undefined],
      ['{"error":{"message":"bro', undefined],
      [`{"error":"${"x".repeat(5000)}"}`, undefined],
    ] as const)
      for (const at of [0, 1, 4]) {
        const { found, read } = await look(
          t,
          (socket) => {
            const [head, rest] = [text.slice(0, at), text.slice(at)].map((part) => (part === "" ? "" : chunk(part)));
            socket.write(`${CHUNKED}${head}`);
            setImmediate(() => socket.write(`${rest}0\r\n\r\n`));
          },
          array,
        );
        t.equal(found, is, text.slice(0, 40));
        t.equal((await read()).body.toString(), text);
      }
  },
);

t.test("interrupted, slow or compressed answers are left to their reader", async (t) => {
  t.equal((await look(t, (socket) => socket.end(`${CHUNKED}${chunk(" ")}`))).found, undefined);
  t.equal((await look(t, (socket) => socket.end(`${CHUNKED}${chunk('{"error":{}')}`))).found, undefined);
  t.equal((await look(t, (socket) => socket.write(CHUNKED), false, 30)).found, undefined);
  const packed = "HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: 0\r\n\r\n";
  t.equal((await look(t, (socket) => socket.write(packed))).found, undefined);
});

t.test("line breaks that a server sends while it works are read once each", async (t) => {
  const pieces: Buffer[] = [];
  let inspect: BodyInspector = () => false;
  const peek = (inspector: BodyInspector) => {
    inspect = inspector;
  };
  const found = detectNonAnswer({ peek } as UpstreamResponse, false, 2000, { unreadBytes: undefined });
  let reads = 0;
  const piece = Buffer.from("\n");
  piece.find = (test) => {
    reads++;
    return Buffer.from("\n").find(test);
  };
  for (let i = 0; i < 100; i++) {
    pieces.push(piece);
    inspect(pieces, false, false);
  }
  t.equal(reads, 100);
  pieces.push(Buffer.from("{}"));
  inspect(pieces, true, true);
  t.equal(await found, undefined);
});

/** For each protocol: an answer, and an error that comes in its place. */
const ANSWERS = {
  "openai-chat": [
    "/v1/chat/completions",
    '{"id":"c","choices":[]}',
    '{"error":{"message":"too busy","code":503}}',
    503,
  ],
  "openai-responses": [
    "/v1/responses",
    '{"id":"r","object":"response","output":[],"error":null}',
    '{"error":{"message":"too busy","type":"server_error","code":"server_is_overloaded"}}',
    503,
  ],
  "anthropic-messages": [
    "/v1/messages",
    '{"type":"message","content":[]}',
    '{"type":"error","error":{"type":"overloaded_error","message":"too busy"}}',
    529,
  ],
  gemini: [
    "/v1beta/models/m:generateContent",
    '{"candidates":[]}',
    '{"error":{"code":503,"message":"too busy","status":"UNAVAILABLE"}}',
    503,
  ],
} as const;

// At the same time: most of it is waiting before retries.
t.jobs = Object.keys(ANSWERS).length;
for (const [protocol, [path, fine, error, status]] of Object.entries(ANSWERS))
  t.test(`${protocol}: a success without an answer is a failed attempt, and no 200`, async (t) => {
    const answering = async (text: string, type: string, code = 200) => {
      const upstream = await httpUpstream((_, reply) => reply.writeHead(code, { "content-type": type }).end(text));
      t.teardown(() => upstream.close());
      return `{ url: "${upstream.origin.origin}", speaks: [${protocol}] }`;
    };
    const good = await answering(fine, "application/json");
    for (const [bad, expected, message] of [
      [await answering("<html>Welcome</html>", "text/html; charset=utf-8"), 502, /web page.*url in gateway\.yaml/],
      [await answering("Hello", "text/plain"), 502, /200 with no JSON object \(text\/plain\)/],
      [await answering("", "application/json"), 502, /200 with nothing/],
      [await answering("", "application/json", 204), 502, /204 with nothing/],
      [await answering(error, "application/json"), status, /too busy/],
    ] as const) {
      const targets = "{ targets: [{ to: bad:m, weight: 1000000000 }, good:m] }";
      const yaml = (more: string) =>
        `providers: { bad: ${bad}, good: ${good} }\nmodels: { m: ${more === "" ? targets : "{ targets: [bad:m] }"} }\n${more}`;
      const ask = async (url: string) => {
        const body = JSON.stringify({ model: "m", messages: [], contents: [], input: "x", max_tokens: 9 });
        const answer = await fetch(url + path, { method: "POST", headers: asking(), body });
        return { status: answer.status, text: await answer.text() };
      };
      t.same(await ask((await startGateway(t, yaml(""))).url), { status: 200, text: fine }, "another target is called");
      const only = await startGateway(t, yaml("retry: { attempts: 0 }\n"));
      t.match(await ask(only.url), { status: expected, text: message });
      await only.gateway.stores.ledger.flush();
      t.match(await only.gateway.stores.ledger.recent(1), [{ outcome: "upstream_error", status: expected }]);
    }
  });

t.test("with `first_frame: off` the answer is not checked, and passes unchanged", async (t) => {
  const page = "Welcome";
  const upstream = await httpUpstream((_, reply) => reply.writeHead(200, { "content-type": "text/plain" }).end(page));
  t.teardown(() => upstream.close());
  const provider = `{ url: "${upstream.origin.origin}", protocol: openai-chat }`;
  const yaml = `providers: { p: ${provider} }\nmodels: { m: { targets: [p:m] } }\nretry: { first_frame: off }\n`;
  const { url } = await startGateway(t, yaml);
  const answer = await fetch(`${url}/v1/chat/completions`, {
    method: "POST",
    headers: asking(),
    body: '{"model":"m"}',
  });
  t.same([answer.status, await answer.text()], [200, page]);
});

t.test("how much has come is told of an answer that breaks off, and of no other", async (t) => {
  const text = '{"id":"c"}';
  const broken = await look(t, (socket) => socket.end(`${CHUNKED}${chunk(text)}`));
  t.same(broken.cut, text.length);
  const { cut } = await look(t, (socket) => socket.end(`${CHUNKED}${chunk(text)}0\r\n\r\n`));
  t.equal(cut, undefined);
});
