import { gzipSync } from "node:zlib";
import { GoogleGenAI } from "@google/genai";
import t, { type Test } from "tap";
import { HeaderList } from "../../src/wire/headers.ts";
import { startGateway } from "../support/gateway.ts";
import { httpUpstream } from "../support/upstream.ts";

const MINE = "the-key-that-uploads-0123";
const THEIRS = "the-key-of-others-0123456";

/** What the vendor adds to the address where an upload continues. */
const SESSION = "upload_id=AB_1-x%2F&upload_protocol=resumable";

const headersOf = (rawHeaders: string[]) => Object.fromEntries(new HeaderList(rawHeaders).entries());

/** A provider that takes files as Gemini does, and a gateway in front of it. */
async function uploading(t: Test) {
  let origin = "";
  let made = 0;
  const upstream = await httpUpstream(({ url, rawHeaders }, reply) => {
    const headers = headersOf(rawHeaders);
    const command = headers["x-goog-upload-command"];
    if (command === "start") {
      const address = `${headers["x-test-elsewhere"] === undefined ? origin : "http://elsewhere.test"}/upload/v1beta/files`;
      reply.setHeader("x-goog-upload-url", `${address}?${SESSION}`);
      reply.setHeader("x-goog-upload-status", "active").setHeader("x-goog-upload-chunk-granularity", "8").end();
    } else if (command === undefined) {
      reply.setHeader("content-type", "application/json").end(JSON.stringify({ name: url.replace("/v1beta/", "") }));
    } else {
      const final = `${command}`.includes("finalize");
      reply.setHeader("x-goog-upload-status", final ? "final" : "active");
      reply.setHeader("content-type", "application/json; charset=UTF-8");
      if (final) made++;
      reply.end(final ? JSON.stringify({ file: { name: `files/file${made}`, mimeType: "application/jsonl" } }) : "");
    }
  });
  t.teardown(() => upstream.close());
  ({ origin } = upstream.origin);
  const gateway = await startGateway(
    t,
    `providers:
  gemini: { url: "${origin}/v1beta", credential: provider-secret-0123456789, speaks: [gemini], forward: [x-test-elsewhere] }
models:
  m: { targets: [gemini:m] }
keys: { mine: { key: ${MINE} }, theirs: { key: ${THEIRS} } }
paths:
  /upload/v1beta/*: { pass: gemini }
  /v1beta/files/*: { pass: gemini }
  /vendors/g/*: { pass: gemini }
`,
  );
  return { upstream, ...gateway };
}

t.test("the vendor's SDK uploads a file through the gateway, and it belongs to the key that uploaded it", async (t) => {
  const { upstream, url } = await uploading(t);
  for (const [prefix, name] of [
    ["", "files/file1"],
    ["/vendors/g", "files/file2"],
  ] as const) {
    const seen = upstream.seen.length;
    const options = { apiVersion: "v1beta", baseUrl: url + prefix };
    const client = (apiKey: string) => new GoogleGenAI({ apiKey, httpOptions: options });
    // Larger than a piece.
    const line = `{"key":"a","request":{"contents":[{"parts":[{"text":"${"x".repeat(1000)}"}]}]}}\n`;
    const file = new Blob([line.repeat(9000)], { type: "application/jsonl" });
    const made = await client(MINE).files.upload({ file, config: { mimeType: "application/jsonl", displayName: "d" } });
    t.equal(made.name, name);
    const asked = upstream.seen.slice(seen);
    t.same(
      asked.map(({ url }) => url),
      ["/upload/v1beta/files", ...Array(2).fill(`/upload/v1beta/files?${SESSION}`)],
    );
    const headers = asked.map(({ rawHeaders }) => headersOf(rawHeaders));
    t.match(headers[0], {
      "x-goog-upload-protocol": "resumable",
      "x-goog-upload-header-content-length": `${file.size}`,
    });
    t.match(headers[2], { "x-goog-upload-command": "upload, finalize", "x-goog-upload-offset": `${8 << 20}` });
    for (const each of headers) t.equal(each["x-goog-api-key"], "provider-secret-0123456789");
    t.equal(
      asked.slice(1).reduce((sum, { body }) => sum + body.length, 0),
      file.size,
    );
    t.equal((await client(MINE).files.get({ name })).name, name);
    await t.rejects(client(THEIRS).files.get({ name }), { message: /404/ });
  }
});

t.test("an upload continues at the gateway's own address, and nowhere else", async (t) => {
  const { url } = await uploading(t);
  const start = async (headers: Record<string, string>) => {
    const init = { "x-goog-api-key": MINE, "x-goog-upload-command": "start", ...headers };
    return (await fetch(`${url}/upload/v1beta/files`, { method: "POST", headers: init })).headers;
  };
  const told = await start({});
  const address = `${told.get("x-goog-upload-url")}`;
  t.equal(address.replace(/[^=]+$/, ""), `${url}/upload/v1beta/files?${SESSION}&gateway_upload=`);
  t.equal(told.get("x-goog-upload-status"), "active");
  t.equal(told.get("x-goog-upload-chunk-granularity"), "8");
  t.equal((await start({ "x-test-elsewhere": "1" })).get("x-goog-upload-url"), null);
});

/** Begins an upload, and returns where it continues. */
async function begin(url: string, key: string, path = "/upload/v1beta/files") {
  const headers = { "x-goog-api-key": key, "x-goog-upload-command": "start" };
  const { headers: told } = await fetch(url + path, { method: "POST", headers });
  return new URL(`${told.get("x-goog-upload-url")}`);
}

/** Sends the last piece of an upload, as some of the vendor's SDKs do without a key. */
async function finish(address: URL, key?: string, more?: Record<string, string>) {
  const headers = { ...(key && { "x-goog-api-key": key }), "x-goog-upload-command": "upload, finalize", ...more };
  const { status } = await fetch(address, { method: "POST", headers, body: "bytes" });
  return status;
}

t.test("an upload belongs to the key that began it", async (t) => {
  const { upstream, url } = await uploading(t);
  const address = await begin(url, MINE);
  const bare = new URL(`${url}/upload/v1beta/files?${SESSION}`);
  const twice = new URL(`${await begin(url, THEIRS)}&upload_id=other`);
  const seen = upstream.seen.length;
  for (const each of [address, bare]) t.equal(await finish(each, THEIRS), 404, `${each}`);
  t.equal(await finish(bare, MINE), 404, "without its ticket its owner is unknown");
  t.equal(await finish(twice, THEIRS), 404, "a second name beside the one that the ticket is for");
  t.equal(upstream.seen.length, seen);
  t.equal(await finish(address, MINE), 200);
});

t.test("a chunk may have the content type that curl gives to every body", async (t) => {
  const { upstream, url } = await uploading(t);
  const curl = { "content-type": "application/x-www-form-urlencoded" };
  t.equal(await finish(await begin(url, MINE), MINE, curl), 200);
  t.equal(`${upstream.seen.at(-1)?.body}`, "bytes");
});

t.test("a chunk that comes without a key is sent for the key that began the upload", async (t) => {
  const { upstream, url, log, gateway } = await uploading(t);
  const address = await begin(url, MINE);
  t.equal(await finish(address), 200);
  const last = upstream.seen.at(-1);
  t.equal(last?.url, `/upload/v1beta/files?${SESSION}`);
  t.equal(headersOf(last?.rawHeaders ?? [])["x-goog-api-key"], "provider-secret-0123456789");
  t.notMatch(JSON.stringify(log.lines), "gateway_upload");
  const file = await fetch(`${url}/v1beta/files/file1`, { headers: { "x-goog-api-key": MINE } });
  t.equal(file.status, 200, "the file is that key's");
  const other = await fetch(`${url}/v1beta/files/file1`, { headers: { "x-goog-api-key": THEIRS } });
  t.equal(other.status, 404);
  const wrong = [
    [/gateway_upload=./, "gateway_upload=x"],
    [/&gateway_upload=.*/, ""],
    [/upload_id=[^&]*/, "upload_id=other"],
    [/\/upload\/v1beta\/files/, "/vendors/g/upload/v1beta/files"],
    [/\/upload\/v1beta\/files.*&/, "/v1beta/files?"],
  ] as const;
  for (const [from, to] of wrong) {
    const changed = new URL(`${address}`.replace(from, to));
    t.equal(await finish(changed), 401, `${changed}`);
  }
  const { key, record } = await gateway.stores.keys.create({ name: "later" });
  const theirs = await begin(url, key);
  t.equal(await finish(theirs), 200);
  const { keys } = gateway.stores;
  const down = t.capture(keys, "show", () => Promise.reject(new Error("ECONNREFUSED")));
  t.equal(await finish(theirs), 503, "its owner is unknown now");
  down.restore();
  await keys.disable(record.id);
  t.equal(await finish(theirs), 401, "switched off");
  await keys.revoke(record.id);
  t.equal(await finish(theirs), 401, "revoked");
});

t.test("the ticket of an upload is valid for uploads alone", async (t) => {
  const { upstream, url } = await uploading(t);
  t.equal(await finish(await begin(url, MINE)), 200);
  const address = `${await begin(url, THEIRS, "/vendors/g/upload/v1beta/files")}`;
  const elsewhere = address.replace("/upload/v1beta/files", "/v1beta/cachedContents");
  const seen = upstream.seen.length;
  const ask = async (headers: Record<string, string>, fileUri: string) => {
    const json = JSON.stringify({ contents: [{ parts: [{ fileData: { fileUri } }] }] });
    const body = headers["content-encoding"] ? gzipSync(json) : json;
    const init = { method: "POST", headers: { ...headers, "content-type": "application/json" }, body };
    return (await fetch(elsewhere, init)).status;
  };
  t.equal(await ask({}, "files/none1"), 401, "it gives no access to other paths of the vendor");
  t.equal(
    await ask({ "x-goog-api-key": THEIRS }, "files/file1"),
    404,
    "bodies there are searched for objects of others",
  );
  const packed = { "x-goog-api-key": THEIRS, "content-encoding": "gzip" };
  t.equal(await ask(packed, "files/file1"), 415, "and must be readable: they are no files");
  t.equal(upstream.seen.length, seen);
});

t.test("an upload below a version that no path covers is refused with the name of the missing path", async (t) => {
  const { url } = await uploading(t);
  const headers = { "x-goog-api-key": MINE, "x-goog-upload-command": "start" };
  const refused = await fetch(`${url}/upload/v1/files`, { method: "POST", headers });
  t.equal(refused.status, 404);
  t.match(await refused.json(), {
    error: { status: "NOT_FOUND", message: /paths: \{ \/upload\/v1\/\*: \{ pass: PROVIDER \} \}/ },
  });
});
