import { Socket } from "node:net";
import t, { type Test } from "tap";
import { KEY, startGateway } from "../support/gateway.ts";
import { each, post, send, vectors } from "../support/raw.ts";
import { httpUpstream } from "../support/upstream.ts";

const addresses = vectors<{ vectors: string[] }>("ssrf-vectors.json")?.vectors;

/** Where this process connects to, as long as the test runs: `host:port` or a path. */
function connections(t: Test): string[] {
  const made: string[] = [];
  const { connect } = Socket.prototype;
  Socket.prototype.connect = function (this: Socket, ...given: unknown[]) {
    const [first] = [given[0]].flat() as [{ host?: string; port?: number; path?: string }];
    made.push(first.path ?? `${first.host}:${first.port}`);
    return Reflect.apply(connect, this, given);
  } as typeof connect;
  t.teardown(() => {
    Socket.prototype.connect = connect;
  });
  return made;
}

/** Members and headers with which other gateways let a client say where its request goes. */
const MARKS = ["api_base", "base_url", "custom_host"];
const MEMBERS = [...MARKS, "baseURL", "endpoint", "url", "proxy", "webhook_url", "region"];
const HEADERS = [
  "x-portkey-custom-host",
  "x-openai-base-url",
  "x-base-url",
  "api-base",
  "x-forwarded-host",
  "x-original-url",
  "x-target-url",
  "forwarded",
  "proxy",
];

/** Questions of three protocols that name an address wherever a client can. */
function questions(address: string): { path: string; body: string; names: boolean }[] {
  const members = Object.fromEntries(MEMBERS.map((name) => [name, address]));
  const query = new URLSearchParams({ api_base: address, base_url: address, url: address }).toString();
  const bodies: Record<string, object> = {
    "/v1/chat/completions": {
      messages: [
        {
          role: "user",
          content: [
            { type: "image_url", image_url: { url: address } },
            { type: "file", file: { file_url: address } },
          ],
        },
      ],
    },
    "/v1/messages": {
      messages: [{ role: "user", content: [{ type: "image", source: { type: "url", url: address } }] }],
      mcp_servers: [{ type: "url", url: address }],
    },
    "/v1beta/models/any:generateContent": {
      contents: [{ parts: [{ fileData: { fileUri: address } }] }],
    },
  };
  return Object.entries(bodies).map(([path, body]) => ({
    path: `${path}?${query}`,
    body: JSON.stringify({ model: "any", ...members, ...body }),
    names: path.startsWith("/v1beta") && !/^[a-z]+:/.test(address),
  }));
}

/** What is left when the marks of other gateways are out. */
const unmarked = (body: string): string =>
  JSON.stringify(JSON.parse(body), (name, value) => (MARKS.includes(name) ? undefined : value));

t.test(
  "whatever address a client sends, only the configured provider is connected to",
  { skip: !addresses && "vectors are absent" },
  async (t) => {
    const trap = await httpUpstream();
    const upstream = await httpUpstream((request, reply) => {
      if (!request.body.includes("-> 302")) reply.setHeader("content-type", "application/json").end("{}");
      else reply.writeHead(302, { location: `${trap.origin}` }).end();
    });
    t.teardown(() => Promise.all([trap.close(), upstream.close()]));
    const running = await startGateway(
      t,
      `providers: { up: { url: "${upstream.origin.origin}/v1", speaks: [openai-chat, anthropic-messages, gemini] } }\nmodels: { any: { targets: [up:vendor] } }\n`,
    );
    const given = addresses as string[];
    t.equal(given.length, 45);
    const made = connections(t);

    const asked = given.flatMap((address) => questions(address).map((question) => ({ address, ...question })));
    const answers = await each(asked, ({ address, path, body }) => {
      const value = Buffer.from(address).toString("latin1");
      return post(running.port, path, body, Object.fromEntries(HEADERS.map((name) => [name, value])));
    });
    for (const [i, { address, path, names }] of asked.entries())
      t.equal(
        answers[i]?.status,
        names ? 400 : address.includes("-> 302") ? 502 : 200,
        `${path.split("?", 1)[0]}: ${address}`,
      );
    const admitted = asked.filter(({ names }) => !names);
    t.equal(asked.length - admitted.length, 6, "a value that is not an address would name a file of the vendor's");
    const bodies = upstream.seen.map(({ body }) => body.toString().replace('"vendor"', '"any"')).toSorted();
    t.same(bodies, admitted.map(({ body }) => unmarked(body)).toSorted(), "any other address is left to the provider");
    t.notMatch(
      upstream.seen.map(({ rawHeaders }) => rawHeaders.join("\n")).join("\n"),
      new RegExp(HEADERS.join("|"), "i"),
      "the headers do not pass",
    );

    const models = await each(given, (address) =>
      post(running.port, "/v1/chat/completions", JSON.stringify({ model: address, messages: [] })),
    );
    for (const [i, { status, body }] of models.entries()) t.equal(status, 404, `as a model: ${given[i]}, got ${body}`);

    const allowed = [running.port, upstream.origin.port].map((port) => `127.0.0.1:${port}`);
    t.same([...new Set(made)].toSorted(), allowed.toSorted(), "where this process has connected to");
    t.equal(trap.connections, 0, "a redirect is not followed");
  },
);

const UPGRADE =
  "connection: upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\nsec-websocket-key: AAAAAAAAAAAAAAAAAAAAAA==\r\n";

/** What else a client can ask that may name an address, as bytes: forms, paths that pass, handshakes, and what is translated. */
function others(address: string): string[] {
  const raw = Buffer.from(address).toString("latin1");
  const query = new URLSearchParams({ url: address, model: "gem", base_url: address, call_id: address }).toString();
  const header = `x-target-url: ${raw}\r\nforwarded: host=x\r\norigin: ${raw}\r\nreferer: ${raw}\r\nx-webhook: ${raw}\r\n`;
  const asked = (line: string, type: string, body: string) =>
    `${line} HTTP/1.1\r\nhost: a\r\nx-api-key: ${KEY}\r\nconnection: close\r\n${header}content-type: ${type}\r\ncontent-length: ${body.length}\r\n\r\n${body}`;
  const json = (path: string, body: object) =>
    asked(`POST ${path}`, "application/json", Buffer.from(JSON.stringify(body)).toString("latin1"));
  const part = (name: string) =>
    `--b\r\nContent-Disposition: form-data; name="${name}"\r\n\r\n${name === "model" ? "any" : raw}\r\n`;
  const form = `${["url", "image_url", "model", "webhook_url", "image"].map(part).join("")}--b--\r\n`;
  const said = (content: object[]) => [{ role: "user", content }];
  const tool = { type: "mcp", server_label: "x", server_url: address };
  return [
    asked("POST /v1/images/edits", "multipart/form-data; boundary=b", form),
    asked(`POST /v1/audio/speech?${query}`, "application/octet-stream", raw),
    asked(`POST /v1/audio/${encodeURIComponent(address)}`, "text/plain", raw),
    asked(`GET ${raw}`, "text/plain", ""),
    `GET /v1/realtime?${query} HTTP/1.1\r\nhost: a\r\nx-api-key: ${KEY}\r\n${header}${UPGRADE}\r\n`,
    ...["any", "gem", "ant"].flatMap((model) => [
      json("/v1/responses", {
        model,
        input: said([
          { type: "input_image", image_url: address },
          { type: "input_file", file_url: address },
        ]),
        tools: [tool],
      }),
      json("/v1/chat/completions", { model, messages: said([{ type: "image_url", image_url: { url: address } }]) }),
      json("/v1/messages", {
        model,
        max_tokens: 9,
        messages: said([{ type: "document", source: { type: "url", url: address } }]),
        mcp_servers: [{ type: "url", name: "x", url: address }],
      }),
    ]),
    ...["any", "ant"].map((model) =>
      json(`/v1beta/models/${model}:generateContent`, {
        contents: [{ role: "user", parts: [{ fileData: { fileUri: address, mimeType: "image/png" } }] }],
        tools: [{ urlContext: {} }],
      }),
    ),
  ];
}

t.test(
  "the same in forms, on pass-through paths, in handshakes, and where a request is translated",
  { skip: !addresses && "vectors are absent" },
  async (t) => {
    const upstream = await httpUpstream((_, reply) =>
      reply.writeHead(400, { "content-type": "application/json" }).end('{"error":{"message":"no"}}'),
    );
    t.teardown(() => upstream.close());
    const { origin } = upstream.origin;
    const running = await startGateway(
      t,
      `providers:
  up: { url: "${origin}/v1", speaks: [openai-chat, openai-responses, openai-images], websocket: true }
  gem: { url: "${origin}/v1beta", speaks: [gemini] }
  ant: { url: "${origin}/v1", speaks: [anthropic-messages] }
models: { any: { targets: [up:vendor] }, gem: { targets: [gem:vendor] }, ant: { targets: [ant:vendor] } }
paths: { "/v1/audio/*": { pass: up }, /v1/realtime: { protocol: openai-realtime }, /v1/responses: { protocol: openai-responses }, /v1/chat/completions: { protocol: openai-chat }, /v1/messages: { protocol: anthropic-messages }, "/v1beta/models/*": { protocol: gemini }, /v1/images/edits: { protocol: openai-images } }
`,
    );
    const made = connections(t);
    const asked = (addresses as string[]).flatMap(others);
    const talks = await each(asked, (bytes) => send(running.port, bytes));
    const failed = talks.flatMap(({ statuses }, i) =>
      statuses[0] === undefined || statuses[0] >= 500 ? [asked[i]] : [],
    );
    t.same(failed.slice(0, 3), [], "each is answered, and none is the gateway's failure");
    t.ok(
      upstream.seen.length > asked.length / 3,
      `${upstream.seen.length} of ${asked.length} were sent to the provider`,
    );
    const allowed = [running.port, upstream.origin.port].map((port) => `127.0.0.1:${port}`);
    t.same([...new Set(made)].toSorted(), allowed.toSorted(), "where this process has connected to");
  },
);
