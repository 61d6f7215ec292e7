import { once } from "node:events";
import { readFileSync, writeFileSync } from "node:fs";
import { Agent, createServer, type IncomingMessage, request, type ServerResponse } from "node:http";
import { type AddressInfo, connect, type Socket } from "node:net";
import { join } from "node:path";
import t, { type Test } from "tap";
import { Networks } from "../../src/core/networks.ts";
import { ClientConnection, Connections, isForwardingHeader } from "../../src/downstream/connections.ts";
import { Downstream } from "../../src/downstream/server.ts";
import { HeaderList } from "../../src/wire/headers.ts";
import { talk } from "../support/connection.ts";
import { asking, KEY, startGateway } from "../support/gateway.ts";
import { EVERY_CASE } from "../support/sample.ts";
import { until } from "../support/until.ts";
import { rawUpstream } from "../support/upstream.ts";

const MODELS = 'providers: { demo: { url: "demo:" } }\nmodels: { echo: { targets: [demo:echo] } }\n';
const FINE = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}";
const BODY = '{"model":"any","messages":[{"role":"user","content":"hi"}]}';

t.test("the client is the rightmost address that is no trusted proxy's", async (t) => {
  const connections = new Connections({ perAddress: 9, trust: new Networks(["127.0.0.1", "10.0.0.0/8", "fd00::/8"]) });
  const client = (peer: string, proxy: boolean, ...told: string[]) => {
    const headers = new HeaderList(told.flatMap((value) => ["X-Forwarded-For", value]));
    const connection = Object.assign(Object.create(ClientConnection.prototype), {
      address: peer,
      proxy,
    }) as ClientConnection;
    return connections.clientAddress(connection, headers);
  };
  for (const [told, address] of [
    [[], "127.0.0.1"],
    [["1.1.1.1"], "1.1.1.1"],
    [["9.9.9.9, 1.1.1.1"], "1.1.1.1"],
    [["9.9.9.9", "1.1.1.1, 10.1.1.1"], "1.1.1.1"],
    [["1.1.1.1, fd00::1,  ::ffff:10.0.0.9"], "1.1.1.1"],
    [["1.1.1.1:5060"], "1.1.1.1"],
    [["[2001:db8::1]:443"], "2001:db8::1"],
    [["2001:db8::1"], "2001:db8::1"],
    [["9.9.9.9, unknown"], "127.0.0.1"],
    [["9.9.9.9, , 10.0.0.1"], "10.0.0.1"],
    [["10.0.0.2, 10.0.0.1"], "10.0.0.2"],
    [[""], "127.0.0.1"],
  ] as const)
    t.equal(client("127.0.0.1", true, ...told), address, told.join(" | "));
  t.equal(client("8.8.8.8", false, "1.1.1.1"), "8.8.8.8", "no other address is trusted");
});

t.test("forwarding headers about the client are removed", async (t) => {
  for (const name of ["x-forwarded-for", "x-forwarded-host", "forwarded", "x-real-ip"]) t.ok(isForwardingHeader(name));
  for (const name of ["x-forward", "host", "x-api-key"]) t.notOk(isForwardingHeader(name));
});

t.test("the address is in the log and available to plugins, and no forwarding header goes upstream", async (t) => {
  const heads: string[] = [];
  const upstream = await rawUpstream((socket, { head }) => {
    heads.push(head);
    socket.write(FINE);
  });
  t.teardown(() => upstream.close());
  const plugin =
    "export default class Where { access(exchange) { exchange.notices.push('address ' + exchange.address); } }";
  const yaml = (trust: string) =>
    `${trust}providers: { up: { url: "${upstream.origin.origin}/v1", speaks: [openai-chat], forward: ["x-*", forwarded] } }
models: { any: { targets: [up:vendor] } }
plugins: { where: { from: ./where.ts } }
chains: { llm: [sse, auth, where, models, rewrite, usage] }
`;
  for (const [trust, address] of [
    ["", "127.0.0.1"],
    ["trust: [127.0.0.0/8]\n", "203.0.113.9"],
  ] as const) {
    const running = await startGateway(t, yaml(trust), { "where.ts": plugin });
    const said = { "x-forwarded-for": "canary, 203.0.113.9", "x-real-ip": "canary", forwarded: "for=canary" };
    const answer = await fetch(`${running.url}/v1/chat/completions`, {
      method: "POST",
      headers: asking({ ...said, "x-forwarded-host": "canary", "x-other": "passes" }),
      body: BODY,
    });
    t.equal(answer.headers.get("gateway-notice"), `address ${address}`);
    await answer.text();
    await fetch(`${running.url}/nowhere`, { headers: said });
    for (const message of ["exchange", "refused"])
      t.equal(running.log.lines.find((line) => line.message === message)?.fields["address"], address, message);
  }
  t.equal(heads.length, 2);
  t.match(heads.join(""), /x-other: passes/i);
  t.notMatch(heads.join(""), /canary|forwarded|203\.0\.113/i);
});

const answers = ({ text }: { text: string }): number => text.split("HTTP/1.1 200").length - 1;

t.test("a reload changes which proxies are trusted, also on connections that they keep", async (t) => {
  const { port, folder, gateway, log } = await startGateway(t, `${MODELS}trust: [127.0.0.1]\n`);
  const file = join(folder, "gateway.yaml");
  const agent = new Agent({ keepAlive: true });
  t.teardown(() => agent.destroy());
  const ask = async () => {
    const headers = asking({ "x-forwarded-for": "1.1.1.1" });
    const asked = request({ port, agent, path: "/v1/models", headers }).end();
    const [response] = (await once(asked, "response")) as [IncomingMessage];
    await once(response.resume(), "end");
    return asked.reusedSocket;
  };
  t.notOk(await ask());
  writeFileSync(file, readFileSync(file, "utf8").replace("trust: [127.0.0.1]", "trust: [10.0.0.0/8]"));
  await gateway.reload();
  t.ok(await ask());
  writeFileSync(file, readFileSync(file, "utf8").replace("trust: [10.0.0.0/8]", "trust: [127.0.0.1]"));
  await gateway.reload();
  t.ok(await ask());
  const seen = log.lines.flatMap(({ message, fields }) => (message === "exchange" ? fields["address"] : []));
  t.same(seen, ["1.1.1.1", "127.0.0.1", "1.1.1.1"]);
});

t.test("the connections of an address are limited, those of a trusted proxy are not", async (t) => {
  const running = await startGateway(t, MODELS);
  const trust = new Networks(["127.0.0.2"]);
  const downstream = new Downstream(() => running.gateway.generation, { keepAlive: 0, head: 0, perAddress: 2, trust });
  const counted: string[] = [];
  downstream.onRefused = (code) => counted.push(code);
  t.teardown(() => downstream.close({ drain: 0 }));
  const { port } = await downstream.listen({ host: "127.0.0.1", port: 0 });
  const greet = "GET / HTTP/1.1\r\nhost: a\r\n\r\n";
  const proxied = Array.from({ length: 20 }, () => talk(t, port, greet, "127.0.0.2"));
  await until(() => proxied.every((client) => answers(client) === 1), "answers to the proxy");
  const direct = [talk(t, port, greet), talk(t, port, greet)];
  await until(() => direct.every((client) => answers(client) === 1), "both answers");
  const third = talk(t, port, greet);
  await until(() => third.closed, "the third connection to close");
  t.equal(third.text, "");
  const refused = { address: "127.0.0.1", error: { code: "too_many_connections" } };
  t.match(running.log.lines.at(-1), { message: "refused", fields: refused });
  t.same(counted, ["too_many_connections"]);
  const other = talk(t, port, greet, "127.0.0.3");
  await until(() => answers(other) === 1, "another address");
});

/** A gateway whose provider answers each request with its number, and when it is let. */
async function counting(t: Test, answer: () => Promise<unknown> = async () => {}) {
  const upstream = await rawUpstream(async (socket, request) => {
    running++;
    most = Math.max(most, running);
    asked.push((await request.body).toString());
    await answer();
    running--;
    socket.write(FINE);
  });
  let running = 0;
  let most = 0;
  const asked: string[] = [];
  t.teardown(() => upstream.close());
  const gateway = await startGateway(
    t,
    `providers: { up: { url: "${upstream.origin.origin}/v1", speaks: [openai-chat] } }\nmodels: { any: { targets: [up:any] } }\n`,
  );
  return { gateway, upstream, asked, most: () => most };
}

const question = (n: number, more = ""): string => {
  const body = BODY.replace("hi", String(n));
  return `POST /v1/chat/completions HTTP/1.1\r\nhost: a\r\nx-api-key: ${KEY}\r\n${more}content-length: ${body.length}\r\n\r\n${body}`;
};

/** Requests that are sent at once, in several packets. */
const PIPELINED = EVERY_CASE ? 600 : 200;

t.test("pipelined requests are served one after the other, all of them", async (t) => {
  const { gateway, upstream, asked, most } = await counting(t);
  const all = Array.from({ length: PIPELINED }, (_, n) => n);
  const client = talk(t, gateway.port, all.map((n) => question(n)).join(""));
  for (let before = -1; answers(client) < PIPELINED && answers(client) > before; ) {
    before = answers(client);
    await until(() => answers(client) >= Math.min(before + 50, PIPELINED), `more than ${before} answers`);
  }
  t.equal(answers(client), PIPELINED);
  t.same(
    asked.map((body) => Number(/"content":"(\d+)"/.exec(body)?.[1])),
    all,
    "in their order",
  );
  t.equal(most(), 1, "never two at a time");
  t.equal(upstream.connections, 1);
});

t.test(
  "a pipelined request that waits is no request once the connection is closed, or has ended before it",
  async (t) => {
    const { promise: open, resolve: go } = Promise.withResolvers<void>();
    const { gateway, asked } = await counting(t, () => open);
    const gone = talk(t, gateway.port, question(1) + question(2));
    await until(() => asked.length === 1, "the first question");
    gone.socket.resetAndDestroy();
    const last = talk(t, gateway.port, question(3, "connection: upgrade\r\nupgrade: h2c\r\n") + question(4));
    await until(() => asked.length === 2, "the third question");
    go();
    await until(() => last.closed, "its connection to close");
    t.equal(answers(last), 1);
    t.same(asked.length, 2, "neither the second nor the fourth was sent");
  },
);

for (const way of ["FIN", "RST"])
  for (const packets of [false, true])
    t.test(
      `a client that disconnects by ${way} while requests wait is noticed at once, ${packets ? "in packets" : "in one"}`,
      async (t) => {
        const { gateway, upstream, asked } = await counting(t, () => new Promise(() => {}));
        const all = Array.from({ length: 12 }, (_, n) => question(n));
        const { socket } = talk(t, gateway.port, packets ? (all.shift() as string) : all.join(""));
        await until(() => asked.length === 1, "the first question");
        for (const each of packets ? all : []) await new Promise((sent) => socket.write(each, sent));
        await new Promise((later) => setTimeout(later, 20));
        if (way === "FIN") socket.end();
        else socket.resetAndDestroy();
        await until(() => upstream.open === 0, "the provider's connection to close");
        t.equal(asked.length, 1, "none of the others is sent");
      },
    );

t.test("more pipelined requests than may wait end their connection, and no other", async (t) => {
  const { gateway, asked } = await counting(t, () => new Promise(() => {}));
  const flood = talk(t, gateway.port, question(0) + "GET / HTTP/1.1\r\nhost: a\r\n\r\n".repeat(1500));
  await until(() => flood.closed, "the connection to close");
  t.equal(flood.text, "");
  t.ok(asked.length <= 1);
  t.match(
    gateway.log.lines.find(({ message }) => message === "refused"),
    { fields: { address: "127.0.0.1", error: { code: "too_many_pipelined" } } },
  );
  const other = talk(t, gateway.port, "GET / HTTP/1.1\r\nhost: a\r\n\r\n");
  await until(() => answers(other) === 1, "the greeting");
});

t.test("an incomplete head after a waiting request does not count against its client", async (t) => {
  const { promise: open, resolve: go } = Promise.withResolvers<void>();
  const { gateway, asked } = await counting(t, () => open);
  const trust = new Networks();
  const limits = { keepAlive: 75_000, head: 500, perAddress: 9, trust };
  const downstream = new Downstream(() => gateway.gateway.generation, limits);
  t.teardown(() => downstream.close({ drain: 0 }));
  const { port } = await downstream.listen({ host: "127.0.0.1", port: 0 });
  const client = talk(t, port, `${question(1)}${question(2)}GET / HT`);
  await until(() => asked.length === 1, "the first question");
  // Node looks once a second.
  await new Promise((resolve) => setTimeout(resolve, 2500));
  t.notOk(client.closed, "the first is still being answered");
  go();
  await until(() => client.closed, "the connection to end");
  t.equal(answers(client), 2, "with both answers");
});

/** A server whose requests wait, and a client connected to it. */
async function pair(t: Test) {
  const connections = new Connections({ perAddress: 9, trust: new Networks() });
  const responses: ServerResponse[] = [];
  const server = createServer((request, response) => {
    connections.get(request.socket).lastResponse = response;
    responses.push(response);
  });
  server.on("connection", (socket: Socket) => connections.accept(socket));
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const client = connect((server.address() as AddressInfo).port, "127.0.0.1");
  const got = { text: "", ended: false };
  client.on("data", (bytes) => (got.text += bytes)).on("end", () => (got.ended = true));
  t.teardown(() => {
    client.destroy();
    server.close();
    server.closeAllConnections();
  });
  await until(() => connections.size === 1);
  return { connections, responses, client, got };
}

t.test("a response is in progress until all of it has been sent", async (t) => {
  const { connections, responses, client } = await pair(t);
  t.notOk(connections.isSending, "nothing was requested");
  client.write("GET / HTTP/1.1\r\nhost: a\r\n\r\n");
  await until(() => responses.length === 1);
  t.ok(connections.isSending);
  client.pause();
  responses[0]?.end(Buffer.alloc(20_000_000));
  await new Promise((later) => setTimeout(later, 50));
  t.ok(connections.isSending, "the client has not read it");
  client.resume();
  await until(() => !connections.isSending);
});

t.test("connections are closed after responses that have not begun yet", async (t) => {
  const { connections, responses, client, got } = await pair(t);
  client.write("GET / HTTP/1.1\r\nhost: a\r\n\r\n");
  await until(() => responses.length === 1);
  connections.closeAfterResponses();
  responses[0]?.end("ok");
  await until(() => got.ended);
  t.match(got.text, /connection: close/i);
  await until(() => connections.size === 0);
});

t.test("an ended connection still delivers what was written, and closes when the client does", async (t) => {
  const { connections, responses, client, got } = await pair(t);
  client.write("GET / HTTP/1.1\r\nhost: a\r\n\r\n");
  await until(() => responses.length === 1);
  responses[0]?.end("all of it");
  connections.end();
  await until(() => got.ended);
  t.match(got.text, /all of it$/);
  await until(() => connections.size === 0);
  t.notOk(connections.isSending);
});

t.test("an idle connection is ended, and one that has a request, or has not had any, is not", async (t) => {
  const { connections, responses, client, got } = await pair(t);
  const ask = () => client.write("GET / HTTP/1.1\r\nhost: a\r\n\r\n");
  connections.endIdle();
  ask();
  await until(() => responses.length === 1);
  connections.endIdle();
  responses[0]?.writeHead(200, { "content-length": 2 }).end("ok");
  await until(() => got.text.endsWith("ok"));
  ask();
  await until(() => responses.length === 2);
  connections.endIdle();
  responses[1]?.writeHead(200, { "content-length": 3 }).end("all");
  await until(() => got.text.endsWith("all"));
  t.notOk(got.ended);
  connections.endIdle();
  await until(() => got.ended);
});

t.test("a destroyed connection closes at once", async (t) => {
  const { connections, client } = await pair(t);
  const closed = once(client, "close");
  connections.destroy();
  await closed;
  await until(() => connections.size === 0);
});
