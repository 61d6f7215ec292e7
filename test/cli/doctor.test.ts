import { rmSync, writeFileSync } from "node:fs";
import type { IncomingMessage, ServerResponse } from "node:http";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import t, { type Test } from "tap";
import { type DoctorFinding, runDoctor } from "../../src/cli/doctor.ts";
import { help, USAGE } from "../../src/cli/help/doctor.ts";
import { loadWithExtensions } from "../../src/loaded-config.ts";
import { measureArrivals } from "../../src/setup/arrivals.ts";
import { connectProxy } from "../support/connect-proxy.ts";
import { folderFor } from "../support/folder.ts";
import { asking, KEY, startGateway } from "../support/gateway.ts";
import { captured } from "../support/terminal.ts";
import { json, startVendor } from "../support/vendor.ts";

const LIST = json({ data: [{ id: "a" }, { id: "b" }] });

async function doctor(
  t: Test,
  providers: string,
  args: string[] = [],
  env: Record<string, string> = {},
  more = "",
  target = "demo:slow",
) {
  const folder = folderFor(t);
  writeFileSync(
    join(folder, "gateway.yaml"),
    `${more}providers:\n  demo: { url: "demo:" }\n${providers}models: { crawl: { targets: [${target}] } }\n`,
  );
  const { config, extensions } = await loadWithExtensions({ file: join(folder, "gateway.yaml"), env });
  return captured((io) => runDoctor(args, io, config, extensions.protocolList), { env, folder });
}

t.test("each provider is called with each of its credentials, and what is wrong with one is reported", async (t) => {
  const vendor = await startVendor(t, (request, response) =>
    request.headers.authorization === "Bearer secret-bad-1234"
      ? json({}, 401)(request, response)
      : LIST(request, response),
  );
  const providers = `  one: { url: "${vendor.url}/v1", credential: [$GOOD, $BAD], protocol: openai-chat }
  two: { url: "${vendor.url}/v1", credential: $NONE, protocol: openai-chat }
`;
  const env = { GOOD: "secret-good-1234", BAD: "secret-bad-1234" };
  const { code, text } = await doctor(t, providers, [], env);
  t.equal(code, 1);
  t.match(text, /^ok +provider +one +GOOD: 2 models in \d+ ms$/m);
  t.match(text, /^bad +provider +one +BAD: it does not accept the credential \(401\)$/m);
  t.match(text, /^off +provider +two +NONE is not set$/m);
  t.match(text, /^ok +provider +demo +built in$/m);
  t.notMatch(text, /secret-/);
  const single = await startVendor(t, json({ data: [{ id: "a" }] }));
  const alone = `  one: { url: "${single.url}/v1", protocol: openai-chat }\n`;
  t.match((await doctor(t, alone)).text, /^ok +provider +one +1 model in \d+ ms$/m);
  const { code: well, text: told } = await doctor(
    t,
    `  one: { url: "${vendor.url}/v1", credential: $GOOD, protocol: openai-chat }\n`,
    ["--json"],
    env,
  );
  t.equal(well, 0);
  t.match(
    (JSON.parse(told) as DoctorFinding[]).find(({ what }) => what === "clock"),
    { state: "ok", message: /within \d+ s/ },
  );
});

t.test(
  "an address without its version is reported if models are listed below one; a bare origin needs none",
  async (t) => {
    const vendor = await startVendor(t, (request, response) =>
      (/^\/(?:api\/)?v1\/models/.test(request.url ?? "") ? LIST : json({}, 404))(request, response),
    );
    const one = (path: string) => doctor(t, `  one: { url: "${vendor.url}${path}", protocol: openai-chat }\n`);
    const { code, text } = await one("/api");
    t.equal(code, 1);
    t.match(text, new RegExp(`^bad +provider +one +.*404 here.*write url: ${vendor.url}/api/v1$`, "m"));
    t.match(await one(""), { code: 0, text: /^ok +provider +one +2 models/m });
    t.match(await one("/elsewhere"), {
      code: 0,
      text: /^ok +provider +one +reachable, but lists no models.*end in a version, like \/v1$/m,
    });
  },
);

t.test("a missing or unusable secret beside a ledger in use is reported before the next start", async (t) => {
  const running = await startGateway(
    t,
    'providers: { demo: { url: "demo:" } }\nmodels: { echo: { targets: [demo:echo] } }\n',
  );
  const file = join(running.folder, "gateway.yaml");
  const body = JSON.stringify({ model: "echo", messages: [{ role: "user", content: "hi" }] });
  await (await fetch(`${running.url}/v1/chat/completions`, { method: "POST", headers: asking(), body })).text();
  await running.gateway.stores.ledger.flush();
  const asked = async () => {
    const { config, extensions } = await loadWithExtensions({ file, env: {} });
    return captured((io) => runDoctor([], io, config, extensions.protocolList), { folder: running.folder });
  };
  t.match(await asked(), { code: 0, text: /^(?!.*secret)/s });
  rmSync(join(running.folder, "gateway.db.secret"));
  t.match(await asked(), { code: 1, text: /^bad +secret +\S+gateway\.db\.secret +it is missing; the next start/m });
  writeFileSync(join(running.folder, "gateway.db.secret"), "hello\n");
  t.match(await asked(), { code: 1, text: /^bad +secret +\S+gateway\.db\.secret +.* contains no secret/m });
});

t.test("a wrong clock and a host that DNS does not resolve are reported", async (t) => {
  const late = await startVendor(t, (request, response) => {
    response.setHeader("date", new Date(Date.now() - 3_600_000).toUTCString());
    LIST(request, response);
  });
  const { code, text } = await doctor(
    t,
    `  one: { url: "${late.url}/v1", protocol: openai-chat }\n  two: { url: "https://nobody.invalid/v1", protocol: openai-chat }\n`,
  );
  t.equal(code, 1);
  t.match(text, /^bad +clock +360\d s ahead of the providers'/m);
  t.match(text, /^bad +dns +nobody\.invalid +not found: /m);
});

t.test(
  "a stream that is too short to tell, or no model for it, is a test without a result: it has not passed",
  async (t) => {
    const quick = await startVendor(t, (_request, response) => {
      response.writeHead(200, { "content-type": "text/event-stream" });
      response.end(`data: ${JSON.stringify({ choices: [{ index: 0, delta: { content: "six words" } }] })}\n\n`);
    });
    const { code, text } = await doctor(t, "", ["--url", quick.url, "--key", KEY]);
    t.equal(code, 1);
    t.match(
      text,
      /^unknown +front .*not conclusive: the whole answer of crawl took only \d+ ms; name a model .*demo:slow$/m,
    );
    const without = await doctor(t, "", ["--url", quick.url, "--key", KEY], {}, "", "demo:echo");
    t.equal(without.code, 1);
    t.match(without.text, /^unknown +front .*not tested: gateway.yaml has no model with the target slow.*--model$/m);
    t.match(without.text, /^ok +provider +demo /m, "all else is tested");
    t.match(USAGE, /1 one failed or has no result/);
  },
);

t.test("stores and the identity provider are checked where they are configured", async (t) => {
  const issuer = await startVendor(t, (request, response) =>
    request.url === "/.well-known/openid-configuration"
      ? json({ issuer: issuer.url, authorization_endpoint: `${issuer.url}/authorize` })(request, response)
      : json({}, 404)(request, response),
  );
  const more = (url: string) =>
    `admin: { listen: "127.0.0.1:0", oidc: { issuer: "${url}", client_id: gw, url: "http://127.0.0.1:9090", roles: { admin: [ops] } } }
store: { limits: "redis://127.0.0.1:1" }
`;
  const { code, text } = await doctor(t, "", [], {}, more(issuer.url));
  t.equal(code, 1);
  t.match(text, /^bad +store +limits +store: limits: 127\.0\.0\.1:1 does not answer .*ECONNREFUSED/m);
  t.match(text, /^ok +sign-in +http:\/\/127\S+ +usable, in \d+ ms$/m);
  const away = await doctor(t, "", [], {}, more("http://127.0.0.1:1"));
  t.match(away.text, /^bad +sign-in +http:\/\/127\.0\.0\.1:1\/ +\S/m);
});

t.test("a provider behind a proxy is asked through it, and its name is left to the proxy", async (t) => {
  const proxy = await connectProxy(t, {
    answer: (socket) => socket.end('HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n{"data":[{"id":"a"}]}'),
  });
  const env = { http_proxy: proxy.address };
  const { text } = await doctor(t, '  far: { url: "http://far.invalid/v1", protocol: openai-chat }\n', [], env);
  t.match(text, /^ok +provider +far +1 model in/m);
  t.notMatch(text, /^\w+ +dns/m);
});

t.test("TLS on a plain port, and an unreachable port, are explained", async (t) => {
  const vendor = await startVendor(t, LIST);
  const { text } = await doctor(
    t,
    `  one: { url: "${vendor.url.replace("http:", "https:")}/v1", protocol: openai-chat }
  two: { url: "http://127.0.0.1:6000/v1", protocol: openai-chat }
`,
  );
  t.match(text, /^bad +provider +one +it does not use TLS at this port/m);
  t.match(text, /^bad +provider +two +no server listens there/m);
  t.match(await measureArrivals("http://127.0.0.1:6000", "k", "m"), {
    problem: /not tested: fetch, .* blocks that port/,
  });
  t.notMatch(text, /OpenSSL|SSL routines|bad port/);
});

/** A proxy in front of a gateway that hands answers on as they come, or all at once. */
const front = (t: Test, url: string, buffering: boolean) =>
  startVendor(t, async (request: IncomingMessage, response: ServerResponse) => {
    const answer = await fetch(url + request.url, {
      method: "POST",
      headers: { authorization: String(request.headers.authorization), "content-type": "application/json" },
      body: JSON.stringify({ model: "crawl", stream: true, messages: [{ role: "user", content: "one two three" }] }),
    });
    response.writeHead(answer.status, { "content-type": "text/event-stream" });
    const pieces: Uint8Array[] = [];
    for await (const piece of answer.body ?? []) buffering ? pieces.push(piece) : response.write(piece);
    await sleep(1);
    response.end(Buffer.concat(pieces));
  });

t.test("a proxy in front that buffers streams is detected", async (t) => {
  const running = await startGateway(
    t,
    'providers: { demo: { url: "demo:" } }\nmodels: { crawl: { targets: [demo:slow] } }\n',
  );
  const good = await front(t, running.url, false);
  const bad = await front(t, running.url, true);
  const at = (url: string, key = KEY) => doctor(t, "", ["--url", url, "--key", key]);
  const [passing, buffering] = await Promise.all([at(good.url), at(bad.url)]);
  t.match(passing, { code: 0, text: /^ok +front .*forwards streams at once: first piece after \d+ ms/m });
  t.match(buffering, { code: 1, text: /^bad +front .*buffers streams/m });
  t.match(await at(running.url, "wrong-key"), { code: 1, text: /it answers 401/ });
  t.match(await at("http://127.0.0.1:1"), {
    code: 1,
    text: /bad +front .*(?:blocks that port|no server listens there)/,
  });
  await t.rejects(doctor(t, "", ["--url", running.url]), { message: /needs a gateway key/ });
  for (const option of ["--key", "--model"])
    await t.rejects(doctor(t, "", [option, "x"]), { message: `${option} is for the test of --url, which is missing` });
  for (const url of ["gw", "ftp://gw", "gw.example.com:443"])
    await t.rejects(doctor(t, "", ["--url", url, "--key", "k"]), { message: /not a URL/ });
  t.match(USAGE, /--url URL/);
  t.match(help, /^doctor /);
});

t.test(
  "a SQLite file is tested where it is, or will be: whether it can be written, and the room on its disk",
  async (t) => {
    t.match((await doctor(t, "")).text, /^ok +store +ledger +\S+gateway\.db: [\d,]+ MiB free$/m);
    const below = await doctor(t, "", [], {}, 'store: { ledger: "sqlite:./gateway.yaml/gateway.db" }\n');
    t.match(below, { code: 1, text: /^bad +store +ledger +\S+ cannot be created: \S+gateway\.yaml is no folder$/m });
  },
);

t.test("a folder of the journal that cannot be used is found before its rows wait in memory", async (t) => {
  const store = "instances: 1\nstore: { ledger: 'postgres://me@127.0.0.1:1/no', journal: ./gateway.yaml/journal }\n";
  t.match(await doctor(t, "", [], {}, store), {
    code: 1,
    text: /^bad +store +journal +ENOTDIR.*gateway\.yaml.*; let this user read and write that folder$/m,
  });
  t.notMatch((await doctor(t, "")).text, /store +journal/);
});
