import { Socket } from "node:net";
import t, { type Test } from "tap";
import { startGateway } from "../support/gateway.ts";
import { each, post, vectors } from "../support/raw.ts";
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
function questions(address: string): { path: string; body: string }[] {
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
  }));
}

/** What is left when the marks of other gateways are out. */
const unmarked = (body: string): string =>
  JSON.stringify(JSON.parse(body), (name, value) => (MARKS.includes(name) ? undefined : value));

t.test(
  "whatever address a client names, only the configured provider is connected to",
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
    for (const [i, { address, path }] of asked.entries())
      t.equal(answers[i]?.status, address.includes("-> 302") ? 502 : 200, `${path.split("?", 1)[0]}: ${address}`);
    t.equal(upstream.seen.length, asked.length, "each is a question to the provider, whatever it says");
    const bodies = upstream.seen.map(({ body }) => body.toString().replace('"vendor"', '"any"')).toSorted();
    t.same(bodies, asked.map(({ body }) => unmarked(body)).toSorted(), "any other address is the provider's business");
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
