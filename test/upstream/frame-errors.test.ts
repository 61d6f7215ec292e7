import t from "tap";
import { asking, startGateway } from "../support/gateway.ts";
import { httpUpstream } from "../support/upstream.ts";

t.test("an error in any shape, and a comment, reach the client without the credential", async (t) => {
  const credential = "Canary-credential-0123456789";
  const told = JSON.stringify(`the key ${credential} is wrong`);
  const errors = [
    `data: {"type":"response.failed","response":{"status":"failed","error":{"message":${told}}}}\n\n`,
    `event: error\ndata: {"type":"error","error":{"type":"api_error","message":${told}}}\n\n`,
    `data: {"error":{"code":500,"message":${told}}}\n\n`,
    `data: {"error": ${told}}\n\n`,
    `{"error":{"message":${told}}}\n\n`,
    `data: {"error":\ndata: {"message":${told}}}\n\n`,
    `data: {"response":{"error"\rdata: :\rdata: ${told}}}\r\r`,
    `event: error\ndata: ${told}\n\n`,
    `event: ERROR\ndata: {"detail":${told}}\n\n`,
    `event: Stream.Error\ndata: {"detail":${told}}\n\n`,
    `data: {"type": "error","code":"invalid","message":${told}}\n\n`,
    `data: {"object":"error","message":${told}}\n\n`,
    `data: error: ${told}\n\n`,
    `data: Error: ${told}\n\n`,
    `<p>error: ${told}</p>\n\n`,
    `: error ${told}\n\n`,
    `: ${told}\r\n\r\n`,
  ];
  const clients = [
    ["openai-chat", "/v1/chat/completions", 'data: {"choices":[{"index":0,"delta":{"content":"a"}}]}'],
    ["openai-responses", "/v1/responses", 'event: response.in_progress\ndata: {"type":"response.in_progress"}'],
    ["anthropic-messages", "/v1/messages", 'event: message_start\ndata: {"type":"message_start"}'],
    ["gemini", "/v1beta/models/m:streamGenerateContent?alt=sse", 'data: {"candidates":[{"content":{"parts":[]}}]}'],
  ] as const;
  const upstream = await httpUpstream(({ body }, reply) => {
    const [, n] = /"input":"(\d+)"/.exec(body.toString()) ?? [];
    reply.writeHead(200, { "content-type": "text/event-stream" }).end(streams[Number(n)]);
  });
  const streams: string[] = [];
  t.teardown(() => upstream.close());
  for (const [protocol, path, start] of clients) {
    const running = await startGateway(
      t,
      `providers: { up: { url: "${upstream.origin.origin}/v1", credential: ${credential}, speaks: [${protocol}] } }
models: { m: { targets: [{ to: "up:v" }] } }
`,
    );
    const read = async (error: string) => {
      const n = streams.push(`${start}\n\n${error}`) - 1;
      const body = JSON.stringify({
        model: "m",
        stream: true,
        max_tokens: 9,
        messages: [],
        input: `${n}`,
        contents: [],
      });
      const response = await fetch(`${running.url}${path}`, { method: "POST", headers: asking(), body });
      let text = "";
      try {
        for await (const piece of response.body ?? []) text += Buffer.from(piece).toString();
      } catch {
        // A stream without its terminal event is broken off.
      }
      t.equal(response.status, 200, `${protocol}: ${text}`);
      t.ok(text.includes("the key *** is wrong"), `${protocol}: ${text}`);
      t.notOk(text.includes(credential), `${protocol}: ${error}`);
    };
    await Promise.all(errors.map(read));
  }
});

t.test("comments are redacted beside data, which passes unchanged whatever words it has", async (t) => {
  const secret = "secret-0-0123456789";
  const said = JSON.stringify({ choices: [{ index: 0, delta: { content: `an error: ${secret}` } }], error: null });
  const stream = (key: string) =>
    `\ufeff: ${key}\ndata: ${said}\n: ${key}\n\n:\n\n: error ${key}\r: ${key}\r\rdata: [DONE]\n\n: ${key}`;
  const upstream = await httpUpstream((_, reply) =>
    reply.writeHead(200, { "content-type": "text/event-stream" }).end(stream(secret)),
  );
  t.teardown(() => upstream.close());
  const { url } = await startGateway(
    t,
    `providers: { up: { url: "${upstream.origin.origin}/v1", credential: ${secret}, speaks: [openai-chat] } }
models: { m: { targets: [up:v] } }
`,
  );
  const body = '{"model":"m","stream":true}';
  const response = await fetch(`${url}/v1/chat/completions`, { method: "POST", headers: asking(), body });
  t.equal(Buffer.from(await response.arrayBuffer()).toString(), stream("***"));
});
