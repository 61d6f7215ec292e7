import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import t, { type Test } from "tap";
import { openStores } from "../../src/store/open.ts";
import { CLIENTS, type Client } from "../support/four-clients.ts";
import { gathered } from "../support/gathered.ts";
import { startDeployedNginx } from "../support/nginx.ts";
import { startCollector } from "../support/otlp.ts";
import { startProcess } from "../support/process.ts";
import { each, send, UNTIL_ANSWERED } from "../support/raw.ts";
import { until } from "../support/until.ts";
import { type RawRequest, rawUpstream } from "../support/upstream.ts";
import { PROTOCOLS, type ProtocolName } from "../support/vendor-sdks.ts";
import { startReceiver } from "../support/webhook.ts";

/** How many requests that fail in a provider's words; from 960 on each fault in every direction. */
const COUNT = Number(process.env["GATEWAY_TEST_SECRETS"] ?? 120);
/** Has no divisor in common with the number of faults and directions, and spreads a few evenly over all of them. */
const STRIDE = 593;

const CREDENTIAL = "Canary/credential+0123456789=&<x>";
const SEALING = "canary-sealing-0123456789-abcdef";
const OWN_KEY = "canary-client-key-0123456789abcdef";

const base64 = (text: string): string => Buffer.from(text).toString("base64");
const escaped = (secret: string): string =>
  [...secret].map((letter) => `\\u00${letter.charCodeAt(0).toString(16)}`).join("");

/** The spellings in which a secret can be told. */
const spellings = (secret: string): string[] => [
  ...[secret, encodeURIComponent(secret), JSON.stringify(secret).slice(1, -1), escaped(secret)],
  ...[Buffer.from(secret).toString("hex"), base64(secret), base64(`x${secret}`), base64(`xx${secret}yyy`)],
];

/** By which a secret is found; of base64 the part that does not depend on what is around it. */
const marks = (secret: string): string[] => [
  ...spellings(secret).slice(0, 5),
  ...["", "x", "xx"].map((before) => base64(before + secret).slice(4, -8)),
];

const finder = (secrets: readonly string[]) => {
  const all = secrets.flatMap(marks);
  return (text: string): string[] => all.filter((mark) => text.includes(mark));
};

/** What a provider may say of a credential: what it was shown, to the letter and otherwise. */
const saying = ({ head }: RawRequest): string =>
  `Incorrect API key provided: ${spellings(CREDENTIAL).join(" ")} in ${head.split("\r\n").slice(1, 9).join(", ")}`;
const sized = (status: string, type: string, body: string, more = ""): string =>
  `HTTP/1.1 ${status}\r\ncontent-type: ${type}\r\n${more}content-length: ${Buffer.byteLength(body)}\r\nconnection: close\r\n\r\n${body}`;
const json = (request: RawRequest): string => JSON.stringify({ error: { message: saying(request), code: "invalid" } });
const events = (text: string): string =>
  `HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n${text}`;

/** All the ways in which a provider can repeat what it was shown, but for a whole answer that is none of an error's. */
const FAULTS: readonly ((request: RawRequest) => string)[] = [
  ...["400 Bad", "401 No", "403 No", "404 No", "409 No", "422 No", "429 Slow", "500 Oh", "503 Oh", "529 Oh"].map(
    (status) => (request: RawRequest) => sized(status, "application/json", json(request)),
  ),
  (request) => sized("401 No", "text/plain", saying(request)),
  (request) => sized("502 Bad", "text/html", `<html><b>${saying(request)}</b></html>`),
  (request) => sized("401 No", "application/json", json(request).slice(0, -5)),
  (request) =>
    `${sized("401 No", "application/json", json(request)).replace(/content-length: \d+/, "content-length: 99999")}`,
  (request) => sized("401 No", "application/json", json(request), "content-encoding: gzip\r\n"),
  () =>
    `HTTP/1.1 302 Found\r\nlocation: https://x.test/?key=${encodeURIComponent(CREDENTIAL)}\r\ncontent-length: 0\r\n\r\n`,
  () => `HTTP/1.1 401 ${CREDENTIAL}\r\ncontent-length: 0\r\n\r\n`,
  () => `HTTP/1.1 ${CREDENTIAL}\r\n\r\n`,
  () => `HTTP/1.1 200 OK\r\n${CREDENTIAL}\r\n\r\n`,
  () => `HTTP/1.1 200 OK\r\nx-a: b\r\ntransfer-encoding: ${CREDENTIAL}\r\n\r\n`,
  () => `HTTP/1.1 200 OK\r\ncontent-length: ${CREDENTIAL}\r\n\r\n`,
  () => `HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n${CREDENTIAL}\r\n`,
  () => `HTTP/1.1 103 Hints\r\nx-request-id: ${CREDENTIAL}\r\n\r\n${sized("200 OK", "application/json", "{}")}`,
  () =>
    sized(
      "200 OK",
      `application/json; x="${CREDENTIAL}"`,
      "{}",
      `x-request-id: ${CREDENTIAL}\r\nopenai-version: ${CREDENTIAL}\r\nrequest-id: ${CREDENTIAL}\r\n`,
    ),
  () =>
    `HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\nx-key: ${CREDENTIAL}\r\n\r\n`,
  (request) => events(`data: ${json(request)}\n\n`),
  (request) => events(`event: error\ndata: ${json(request)}\n\n`),
  (request) => events(`data: {"id":"c","choices":[],"candidates":[]}\n\nevent: error\ndata: ${json(request)}\n\n`),
  (request) => sized("200 OK", "text/html", saying(request)),
  () => "",
];

/** Requests that are wrong in themselves, with a key in every place where one may stand. */
function wrong(key: string): string[] {
  const body = '{"model":"nobody","messages":[]}';
  const head = (line: string, ...lines: string[]) =>
    `${line} HTTP/1.1\r\nHost: gw.test\r\n${lines.map((each) => `${each}\r\n`).join("")}`;
  const posted = (path: string, text: string, ...lines: string[]) =>
    `${head(`POST ${path}`, "content-type: application/json", ...lines)}content-length: ${Buffer.byteLength(text)}\r\n\r\n${text}`;
  const coded = encodeURIComponent(key);
  const basic = Buffer.from(`user:${key}`).toString("base64");
  const places = [
    ...[`authorization: Bearer ${key}`, `authorization: ${key}`, `authorization: Basic ${basic}`, `x-api-key: ${key}`],
    ...[`x-goog-api-key: ${key}`, `api-key: ${key}`, `cookie: key=${key}`, `proxy-authorization: Bearer ${key}`],
    ...[`x-request-id: ${key}`, `user-agent: ${key}`, `idempotency-key: ${key}`, `x-forwarded-for: ${key}`],
  ];
  return [
    ...places.flatMap((place) => [
      ...[
        "/v1/chat/completions",
        "/v1/messages",
        "/v1/responses",
        "/v1beta/models/nobody:generateContent",
        "/v1/files",
      ].map((path) => posted(path, body, place)),
      ...[
        posted("/nowhere", body, place),
        posted("/v1/chat/completions", "{", place),
        `${head("GET /v1/models", place)}\r\n`,
      ],
      ...[`${head("DELETE /v1/chat/completions", place)}\r\n`, `${head("GET /v1/models", place, "bad header")}\r\n`],
      ...[`${head("GET /v1/models", place, `${place.split(":")[0]}: another`)}\r\n`],
      `${head("GET /v1/realtime?model=nobody", place, "connection: Upgrade", "upgrade: websocket", "sec-websocket-version: 13", "sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==", `sec-websocket-protocol: openai-insecure-api-key.${key.replaceAll(/[^\w-]/g, "")}`)}\r\n`,
      `${head("GET /v1/models", place, `x-long: ${"x".repeat(17_000)}`)}\r\n`,
    ]),
    ...["key", "$key", "api_key", "access_token", "token"].flatMap((name) => [
      posted(`/v1beta/models/nobody:generateContent?${name}=${coded}`, "{}"),
      posted(`/v1beta/models/all:generateContent?${name}=${coded}&${name}=${coded}`, "{}"),
      posted(`/nowhere?${name}=${coded}`, "{}"),
      `${head(`GET /v1/files?${name}=${coded}`)}\r\n`,
      `GET /v1/models?${name}=${coded}\r\n\r\n`,
      `${head(`GET /v1/models?${name}=${coded}`, "content-length: x")}\r\n`,
      `${head(`CONNECT a:1?${name}=${coded}`)}\r\n`,
    ]),
    `${head(`GET http://user:${coded}@gw.test/v1/models`)}\r\n`,
    // In a path a key is known by its shape; one of the operator's own choice looks like any name.
    ...(key.startsWith("gw_") ? ["/v1/files/", "/v1/responses/", "/"] : []).map(
      (path) => `${head(`GET ${path}${coded}`)}\r\n`,
    ),
    `${coded} / HTTP/1.1\r\n\r\n`,
  ];
}

/** The text of all files below a folder; bytes as latin1. */
const filesIn = (folder: string): [name: string, text: string][] =>
  readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name))
    .map((file) => [file, readFileSync(file, "latin1")]);

const FOLDER_KEY = "canary of the store";

async function started(t: Test) {
  const provider = { asked: 0 };
  const upstream = await rawUpstream(async (socket, request) => {
    provider.asked++;
    const text = `${request.head}${await request.body}`;
    const fault = FAULTS[Number(/fault-(\d+)/.exec(text)?.[1])];
    socket.end(fault?.(request) ?? sized("200 OK", "application/json", "{}"));
  });
  t.teardown(() => upstream.close());
  const folder = mkdtempSync(join(tmpdir(), "secrets-"));
  const stores = openStores(join(folder, "gateway.db"), [], () => {});
  const { key: stored } = await stores.keys.create({ name: FOLDER_KEY });
  await stores.close();
  const [collector, alerts] = await Promise.all([startCollector(t), startReceiver(t)]);
  const providers = PROTOCOLS.map(
    (name) => `  ${name}: { url: "${upstream.origin.origin}/v1", credential: $CANARY, speaks: [${name}] }`,
  );
  const models = PROTOCOLS.flatMap((name) =>
    FAULTS.map((_, i) => `  ${name}-${i}: { targets: ["${name}:fault-${i}"] }`),
  );
  const yaml = `providers:\n${providers.join("\n")}\nmodels:\n${models.join("\n")}
paths: { "/v1/files/*": { pass: openai-chat, open: true } }
keys: { own: { key: $OWN_KEY } }
envelopes: { key: $SEALING }
log: { level: debug }
retry: { attempts: 0 }
overload: { delay: off }
plugins: { auth: { failures: 1000000 }, opentelemetry: { endpoint: "${collector.url}" } }
chains: { llm: [opentelemetry, sse, auth, scrub, models, limits, rewrite, usage] }
alerts: { webhook: $WEBHOOK }
`;
  const env = { CANARY: CREDENTIAL, OWN_KEY, SEALING, WEBHOOK: alerts.url };
  const gateway = await startProcess(t, yaml, { folder, env });
  return { gateway, stored, folder, collector, alerts, provider };
}

/** A request of a client, in the given direction. */
function asked(from: ProtocolName, to: ProtocolName, fault: number, stream: boolean, place: string): string {
  const client = CLIENTS[from] as Client;
  const path = client.path(`${to}-${fault}`, stream);
  const body = JSON.stringify(client.with(client.ask("Hi", "f"), `${to}-${fault}`, stream));
  const [query, header] = place.startsWith("?") ? [place.slice(1), ""] : ["", `${place}\r\n`];
  const target = query === "" ? path : `${path}${path.includes("?") ? "&" : "?"}${query}`;
  return `POST ${target} HTTP/1.1\r\nHost: gw.test\r\ncontent-type: application/json\r\n${header}content-length: ${Buffer.byteLength(body)}\r\n\r\n${body}`;
}

/** What operators, and their programs, read on the admin side. */
const ADMIN = [
  ...["/readyz", "/metrics", "/openapi.json", "/api/now", "/api/live", "/api/requests?limit=1000", "/api/errors"],
  ...[
    "/api/spend?by=key,model,target",
    "/api/speed?by=target",
    "/api/budgets",
    "/api/keys",
    "/api/used",
    "/api/groups",
  ],
  ...[
    "/api/clients",
    "/api/providers",
    "/api/models",
    "/api/config",
    "/api/config/diff",
    "/api/generations",
    "/api/audit",
  ],
];

gathered(t, "no secret stands in an answer, a log or a file, whatever is wrong", async (t) => {
  const { gateway, stored, folder, collector, alerts, provider } = await started(t);
  const nginx = await startDeployedNginx(t, gateway.port);
  const found = finder([CREDENTIAL, SEALING, OWN_KEY, stored]);
  const places = [OWN_KEY, stored].flatMap((key) => [
    ...[
      `authorization: Bearer ${key}`,
      `x-api-key: ${key}`,
      `x-goog-api-key: ${key}`,
      `api-key: ${key}`,
      `?key=${key}`,
    ],
  ]);
  const ways = [gateway.port, ...(nginx ? [nginx.port] : [])];

  const directions = PROTOCOLS.flatMap((from) =>
    PROTOCOLS.flatMap((to) =>
      FAULTS.flatMap((_, fault) => [false, true].map((stream) => [from, to, fault, stream] as const)),
    ),
  );
  const all = Array.from({ length: COUNT }, (_, n) => {
    const [from, to, fault, stream] = directions[(n * STRIDE) % directions.length] as (typeof directions)[number];
    const way = ways[Math.floor(n / places.length) % ways.length] as number;
    return {
      name: `${from} to ${to}, fault ${fault}, ${stream}`,
      way,
      bytes: asked(from, to, fault, stream, places[n % places.length] as string),
    };
  });
  let answered = 0;
  await each(all, async ({ name, way, bytes }) => {
    const { statuses, text } = await send(way, bytes, UNTIL_ANSWERED);
    answered += statuses.length;
    t.same(found(text), [], name);
  });
  t.equal(answered, COUNT, "each is answered once");
  const lines = () => gateway.text.split('"msg":"exchange"').length - 1;
  await until(() => lines() >= COUNT, "the log");
  t.equal(provider.asked, COUNT, "each was sent to the provider");

  const mistyped = `${stored.slice(0, -1)}${stored.endsWith("a") ? "b" : "a"}`;
  const mine = finder([mistyped]);
  const step = COUNT < directions.length ? 8 : 1;
  const amiss = [OWN_KEY, stored, mistyped].flatMap(wrong).filter((_, i) => i % step === 0);
  for (const way of ways)
    await each(amiss, async (bytes) => {
      const { text } = await send(way, bytes);
      t.same([...found(text), ...mine(text)], [], bytes.slice(0, 300));
    });

  await alerts.until(1);
  for (const path of ADMIN) {
    const answer = await fetch(gateway.admin + path);
    const text = await answer.text();
    t.equal(answer.status, 200, path);
    t.same([...found(text), ...mine(text)], [], `the admin side's ${path}`);
    if (path === "/metrics") t.match(text, /^gateway_attempts_total\{.* \d+$/m, "there are some");
    if (path.startsWith("/api/requests")) t.match(text, /fault-\d/, "there are some");
  }
  t.equal(await gateway.end(), 0);
  const told = [JSON.stringify(collector.spans), JSON.stringify(alerts.received)] as const;
  for (const [i, what] of ["spans", "alerts"].entries())
    t.same([...found(told[i] as string), ...mine(told[i] as string)], [], what);
  t.ok(collector.spans.length >= COUNT, `${collector.spans.length} spans`);
  if (nginx) {
    // A body that it cannot lay down, as on a full disk, is critical to nginx.
    rmSync(join(nginx.folder, "body"), { recursive: true });
    const large = `POST /v1beta/models/m:generateContent?key=${OWN_KEY} HTTP/1.1\r\nHost: gw.test\r\ncontent-length: 100000\r\n\r\n${"x".repeat(100_000)}`;
    t.same((await send(nginx.port, large, UNTIL_ANSWERED)).statuses, [500]);
    // Nobody listens any more: nginx has something to say of that.
    const list = `GET /v1beta/models?key=${OWN_KEY} HTTP/1.1\r\nHost: gw.test\r\n\r\n`;
    const { statuses } = await send(nginx.port, list, UNTIL_ANSWERED);
    t.same(statuses, [502]);
    await until(() => /GET \/v1beta\/models" 502/.test(filesIn(nginx.folder).join()), "nginx's log");
    for (const [name, text] of filesIn(nginx.folder)) t.same([...found(text), ...mine(text)], [], name);
    t.same([...found(nginx.uses), ...mine(nginx.uses)], [], "nginx's output");
  }
  t.same([...found(gateway.text), ...mine(gateway.text)], [], "the gateway's output");
  const files = filesIn(folder);
  t.ok(files.some(([name]) => name.endsWith("gateway.db")));
  for (const [name, text] of files) t.same([...found(text), ...mine(text)], [], name);

  // The search finds what is there.
  for (const secret of [CREDENTIAL, SEALING, OWN_KEY, stored]) {
    writeFileSync(join(folder, "left.txt"), `x ${Buffer.from(`user:${secret}`).toString("base64")}`);
    t.not(found(filesIn(folder).join()).length, 0, "a secret in a file");
  }
});
