import { connect } from "node:net";
import { startGateway, KEY, MemoryLog } from "./test/support/gateway.ts";
import { httpUpstream } from "./test/support/upstream.ts";
const teardowns: (() => unknown)[] = [];
const t = { teardown: (f: () => unknown) => teardowns.unshift(f) };
const FEW = "a-small-key-0123456789ab";
const reply = (name: string) => (req: any, res: any) => res.writeHead(200, { "content-type": "application/json", "x-request-id": "req_" + name, "set-cookie": "a=b", "cache-control": "public, max-age=3600", "server": "evil", "location": "http://evil", "retry-after": "999999999999" }).end(JSON.stringify({ id: "x", object: "chat.completion", choices: [{ index: 0, finish_reason: "stop", message: { role: "assistant", content: name } }], usage: { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 } }));
const a = await httpUpstream(reply("a"));
const b = await httpUpstream(reply("b"));
const { url, port, log } = await startGateway(t, `
providers:
  a: { url: "${a.origin.origin}/v1", credential: sk-qwertyuiop1234567890asdfgh, speaks: [openai-chat, openai-responses, openai-images, anthropic-messages, gemini, openai-embeddings] }
  b: { url: "${b.origin.origin}/v1", credential: sk-zxcvbnm0987654321lkjhgfdsap, speaks: [openai-chat, openai-responses, openai-images, anthropic-messages, gemini, openai-embeddings] }
models: { cheap: { targets: [a:cheap-v] }, dear: { targets: [b:dear-v], aliases: ["dear-*"] } }
keys: { all: { key: ${KEY} }, few: { key: ${FEW}, models: [cheap], paths: ["/v1/chat/completions", "/v1/images/*", "/v1/messages", "/v1beta/models/cheap*", "/v1/files*", "/v1/models*", "/v1/key"] }, one: { key: one-address-only-0123456789, addresses: [10.0.0.1] } }
paths: { /v1/files/*: { pass: a, open: true } , /vendors/a/*: { pass: a, open: true } }
`, {}, {});
const raw = (bytes: string, wait = 400) => new Promise<string>((resolve) => {
  const s = connect(port, "127.0.0.1", () => s.write(bytes, "latin1"));
  let text = ""; s.setEncoding("latin1").on("data", (d: any) => (text += d)).on("error", () => {}).on("close", () => resolve(text));
  setTimeout(() => s.destroy(), wait);
});
const body = (m: string) => JSON.stringify({ model: m, messages: [{ role: "user", content: "hi" }] });
const req = (line: string, headers: string[] = [], bod = "", key = FEW) => [`${line} HTTP/1.1`, "host: a", ...(key ? [`authorization: Bearer ${key}`] : []), "connection: close", ...headers, ...(bod ? [`content-length: ${Buffer.byteLength(bod)}`] : []), "", bod].join("\r\n");
const first = (x: string) => x.split("\r\n")[0] + " | " + (x.match(/\r\n\r\n([\s\S]{0,160})/)?.[1] ?? "").replace(/\s+/g, " ");
async function probe(name: string, bytes: string, full = false) {
  const [na, nb] = [a.seen.length, b.seen.length];
  const got = await raw(bytes);
  const to = [...a.seen.slice(na).map((r) => "A " + r.method + " " + r.url), ...b.seen.slice(nb).map((r) => "B!! " + r.method + " " + r.url + " " + r.body.toString().slice(0, 80))];
  console.log(`${name}: ${full ? got : first(got)}  => ${to.join("; ") || "-"}`);
}
const J = ["content-type: application/json"];
console.log("--- heads of answers");
await probe("chat", req("POST /v1/chat/completions", J, body("cheap")), true);
await probe("models with ?key", `GET /v1/models?key=${FEW} HTTP/1.1\r\nhost: evil.example\r\nconnection: close\r\n\r\n`, true);
await probe("key page ?key", `GET /v1/key?key=${FEW} HTTP/1.1\r\nhost: evil.example\r\nconnection: close\r\n\r\n`, true);
await probe("greeting, evil host", `GET / HTTP/1.1\r\nhost: evil.example\r\nconnection: close\r\n\r\n`, true);
console.log("--- paths");
for (const p of ["/v1/chat/completions/", "/v1//chat/completions", "/V1/CHAT/COMPLETIONS", "/v1/chat%2fcompletions", "/v1/models/../chat/completions", "/v1/chat/completions;x=1", "/v1/chat/completions?model=dear&stream=true", "http://evil/v1/chat/completions", "/v1/./chat/completions", "/v1/chat/completions%00", "/v1/chat/completions%20", "/chat/completions", "//evil/v1/chat/completions", "/v1/chat/completions#x", "/v1\\chat\\completions", "/openai/deployments/dear/chat/completions", "/v1/engines/dear/completions"])
  await probe(p, req(`POST ${p}`, J, body("cheap")));
console.log("--- models");
for (const m of ["dear", "dear-x", "DEAR", "dear\u0000", " dear", "cheap ", "b:dear-v", "dear-v", "\\u0064ear"]) await probe(`model ${JSON.stringify(m)}`, req("POST /v1/chat/completions", J, body(m).replace("\\\\", "\\")));
for (const extra of ['"model":"dear"', '"Model":"dear"', '"MODEL":"dear"', '"mod\\u0065l":"dear"', '"models":["dear-v"]', '"fallbacks":[{"model":"dear-v"}]', '"extra_body":{"model":"dear"}', '"route":"fallback"', '"provider":{"order":["b"]}', '"n":1000', '"api_base":"http://evil"', '"base_url":"http://evil"'])
  await probe(extra, req("POST /v1/chat/completions", J, body("cheap").replace("{", `{${extra},`)));
for (const p of ["/v1beta/models/dear:generateContent", "/v1beta/models/cheap%2f..%2fdear:generateContent", "/v1beta/models/cheap:generateContent:generateContent", "/v1beta/models/cheap/../dear:generateContent", "/v1beta/models/cheap%3AgenerateContent", "/v1beta/models/cheap:generateContent?model=dear", "/v1beta/models/cheap:generateContent%3Fmodel=dear", "/v1beta/models/cheap%00:generateContent", "/v1beta/publishers/x/models/dear:generateContent", "/v1beta1/projects/p/locations/l/publishers/g/models/dear:generateContent"])
  await probe(p, req(`POST ${p}`, J, '{"model":"models/dear","contents":[{"parts":[{"text":"x"}]}]}'));
console.log("--- headers");
for (const h of ["x-http-method-override: DELETE", "x-original-url: /v1/key", "x-rewrite-url: /admin", "x-forwarded-host: evil", "forwarded: for=10.0.0.1", "openai-organization: org-x", "x-stainless-raw-response: true", "content-type: application/json", "authorization: Bearer " + KEY, "x-api-key: " + KEY, "x-goog-api-key: " + KEY, "api-key: " + KEY, "transfer-encoding: chunked", "content-length: 1", "content-encoding: gzip", "te: trailers", "connection: keep-alive, authorization", "upgrade: h2c", "expect: 200-ok", "host: b", "x-forwarded-for: 10.0.0.1\x1b[31m", "range: bytes=0-1"])
  await probe(h.replace(KEY, "KEY"), req("POST /v1/chat/completions", [...J, h], body("cheap")));
await probe("address by xff", req("GET /v1/models", ["x-forwarded-for: 10.0.0.1", "x-real-ip: 10.0.0.1"], "", "one-address-only-0123456789"));
console.log("--- bodies");
for (const ct of ["text/plain", "application/x-www-form-urlencoded", "application/json; charset=utf-16", "multipart/form-data", "multipart/form-data; boundary=x", "multipart/mixed; boundary=x", "application/xml", "application/json, text/plain", ""]) await probe(`type ${ct}`, req("POST /v1/chat/completions", ct ? [`content-type: ${ct}`] : [], body("cheap")));
await probe("get with body", req("GET /v1/models", J, body("cheap") + "GET /v1/key HTTP/1.1\r\nhost: a\r\n\r\n"));
await probe("PRI", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
await probe("0.9", "GET /\r\n");
await probe("tls", "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03");
console.log("--- pass");
for (const p of ["/v1/files/../chat/completions", "/v1/files/..%2fchat%2fcompletions", "/v1/files/%2e%2e/chat", "/v1/filesx", "/v1/files/file-1", "/v1/files/file-1/content?_method=DELETE", "/v1/files?$httpMethod=DELETE&$httpHeaders=x", "/v1/files//x", "/v1/files/x;y=1", "/vendors/a/../../admin", "/vendors/a/v1/files", "/vendors/a//evil.com/x", "/vendors/a/@evil.com", "/vendors/a"]) for (const m of ["GET", "POST"])
  await probe(`${m} ${p}`, req(`${m} ${p}`, m === "POST" ? [...J, "x-http-method-override: DELETE"] : ["x-http-method-override: DELETE"], m === "POST" ? "{}" : ""));
for (const m of ["DELETE", "PUT", "PATCH", "PROPFIND", "TRACE", "OPTIONS", "HEAD"]) await probe(`${m} models of vendor`, req(`${m} /vendors/a/models/ft-x`));
const { writeFileSync } = await import("node:fs");
writeFileSync("/tmp/attack9/log.json", (log as MemoryLog).lines.map((l) => JSON.stringify(l)).join("\n"));
writeFileSync("/tmp/attack9/seen.json", JSON.stringify([...a.seen, ...b.seen].map((r) => [r.method, r.url, r.rawHeaders.join("|"), r.body.toString().slice(0, 300)]), null, 1));
await a.close(); await b.close();
for (const f of teardowns) await f();
process.exit(0);
