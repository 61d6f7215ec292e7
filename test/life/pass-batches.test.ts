import { createHash } from "node:crypto";
import { GoogleGenAI } from "@google/genai";
import t, { type Test } from "tap";
import { HeaderList } from "../../src/wire/headers.ts";
import { startGateway } from "../support/gateway.ts";
import { httpUpstream } from "../support/upstream.ts";

const MINE = "the-key-that-uploads-0123";
const THEIRS = "the-key-of-others-0123456";
const TWO_DAYS = 48 * 3_600_000;

/** What the vendor reports of a file. */
function described(name: string, content: Buffer) {
  const sha256Hash = Buffer.from(createHash("sha256").update(content).digest("hex")).toString("base64");
  return { file: { name: `files/${name}`, sha256Hash, expirationTime: new Date(Date.now() + TWO_DAYS).toISOString() } };
}

/**
 * A provider that keeps files and runs batches as Gemini does, and a gateway in front of it. It takes bytes that it has already as
 * if they were the same, and answers for a finished upload again.
 */
async function batching(t: Test, { open = false, share = "key" } = {}) {
  let origin = "";
  let made = 0;
  const sessions = new Map<string, { content: Buffer; name: string; answer?: string }>();
  const upstream = await httpUpstream(({ method, url, rawHeaders, body }, reply) => {
    const headers = new HeaderList(rawHeaders);
    reply.setHeader("content-type", "application/json");
    const [, session = ""] = /upload_id=(\w+)/.exec(url) ?? [];
    const upload = sessions.get(session);
    if (headers.has("x-test-fails")) {
      reply.statusCode = 503;
      reply.end("{}");
    } else if (upload) {
      const offset = Number(headers.get("x-goog-upload-offset"));
      upload.content = Buffer.concat([upload.content, body.subarray(Math.max(0, upload.content.length - offset))]);
      const last = headers.get("x-goog-upload-command")?.includes("finalize");
      if (last) upload.answer ??= JSON.stringify(described(upload.name, upload.content));
      reply.setHeader("x-goog-upload-status", last ? "final" : "active").end(last ? upload.answer : "");
    } else if (url.startsWith("/upload/")) {
      const id = `session${++made}`;
      const { file } = JSON.parse(`${body}` || "{}") as { file?: { name?: string } };
      sessions.set(id, { content: Buffer.alloc(0), name: file?.name?.replace("files/", "") ?? `file${made}` });
      reply.setHeader("x-goog-upload-url", `${origin}${url}?upload_id=${id}`);
      reply.setHeader("x-goog-upload-status", "active").end("{}");
    } else reply.end(JSON.stringify(method === "POST" ? { name: `batches/batch${++made}` } : {}));
  });
  t.teardown(() => upstream.close());
  ({ origin } = upstream.origin);
  const { url } = await startGateway(
    t,
    `providers:
  gemini: { url: "${origin}/v1beta", speaks: [gemini], forward: [x-test-fails], shared: [ours] }
models:
  m: { targets: [gemini:m] }
keys: { mine: { key: ${MINE}, group: acme }, theirs: { key: ${THEIRS} }, friend: { key: ${MINE}-friend, group: acme } }
share: ${share}
paths:
  /vendor/*: { pass: gemini, open: ${open} }
`,
  );
  const ask = async (key: string, method: string, path: string, body?: unknown) => {
    const headers = { "x-goog-api-key": key, "content-type": "application/json" };
    const answer = await fetch(`${url}/vendor${path}`, { method, headers, body: body ? JSON.stringify(body) : null });
    return { status: answer.status, text: await answer.text() };
  };
  /** Begins an upload, and returns where it continues. */
  const begin = async (key: string, file: object = {}) => {
    const init = { method: "POST", headers: { "x-goog-api-key": key, "x-goog-upload-command": "start" } };
    const { headers } = await fetch(`${url}/vendor/upload/v1beta/files`, { ...init, body: JSON.stringify({ file }) });
    return `${headers.get("x-goog-upload-url")}`;
  };
  const sendPiece = async (address: string, body: string, headers: Record<string, string>) => {
    const answer = await fetch(address, { method: "POST", body, headers });
    return { status: answer.status, name: /files\/[\w-]+/.exec(await answer.text())?.[0] ?? "" };
  };
  /** Uploads a file in pieces, and returns its name. */
  const upload = async (key: string, pieces: readonly (string | Piece)[], file?: object) => {
    const address = await begin(key, file);
    let [position, name] = [0, ""];
    for (const [i, each] of pieces.entries()) {
      const { body, headers, status = 200 }: Piece = typeof each === "string" ? { body: each } : each;
      const command = i === pieces.length - 1 ? "upload, finalize" : "upload";
      const place = { "x-goog-upload-command": command, "x-goog-upload-offset": `${position}` };
      const answer = await sendPiece(address, body, { ...place, ...headers });
      t.equal(answer.status, status, `piece ${i}`);
      if (status === 200) position += Buffer.byteLength(body);
      ({ name } = answer);
    }
    return name;
  };
  /** Has the vendor run the requests in a file. */
  const run = (key: string, fileName: string) =>
    ask(key, "POST", "/v1beta/models/m:batchGenerateContent", { batch: { inputConfig: { fileName } } });
  return { upstream, url, ask, begin, sendPiece, upload, run };
}

interface Piece {
  readonly body: string;
  readonly headers?: Record<string, string>;
  readonly status?: number;
}

const contents = (fileUri: string) => [{ parts: [{ fileData: { fileUri, mimeType: "text/plain" } }] }];
const line = (fileUri: string) => `${JSON.stringify({ key: "1", request: { contents: contents(fileUri) } })}\n`;
const HARMLESS = line("https://example.com/a");
const UNCHECKED = { status: 404, text: /batch\.inputConfig\.fileName: The lines of this file have not been checked/ };

t.test("a batch's file names no object of another key, in however many pieces it is uploaded", async (t) => {
  const { upstream, upload, run } = await batching(t);
  const file = await upload(MINE, ["text"]);
  const text = HARMLESS + line(file) + HARMLESS;
  const cuts = [
    [text],
    [text.slice(0, 190), text.slice(190)],
    Array.from({ length: 20 }, (_, i) => text.slice(i * 40, i * 40 + 40)).filter((piece) => piece !== ""),
    [text, ""],
    [text.trimEnd()],
  ];
  for (const pieces of cuts) {
    const mine = await upload(MINE, pieces);
    const theirs = await upload(THEIRS, pieces);
    t.equal((await run(MINE, mine)).status, 200, `${pieces.length} pieces`);
    const seen = upstream.seen.length;
    t.match(await run(THEIRS, theirs), UNCHECKED, `${pieces.length} pieces`);
    t.equal((await run(THEIRS, mine)).status, 404, "the file itself is another key's");
    t.equal(upstream.seen.length, seen, "the provider is not called");
  }
});

t.test("a file runs however a request names it, and only where its lines were read", async (t) => {
  const { ask, upload, run } = await batching(t);
  const read = await upload(MINE, [HARMLESS]);
  const unread = await upload(MINE, ["a text"]);
  const batch = "/v1beta/models/m:batchGenerateContent";
  for (const [path, body] of [
    [batch, (name: string) => ({ batch: { input_config: { file_name: name } } })],
    [batch, (name: string) => ({ batch: { InputConfig: { FileName: name } } })],
    [batch, (name: string) => ({ batch: { inputConfig: { fileName: name.replace("files/", "") } } })],
    ["/v1beta/models/m:asyncBatchEmbedContent", (fileName: string) => ({ batch: { inputConfig: { fileName } } })],
    ["/v1beta/openai/batches", (name: string) => ({ input_file_id: name })],
    ["/v1beta/openai/batches", (name: string) => ({ input_file_id: name.replace("files/", "") })],
  ] as const) {
    t.equal((await ask(MINE, "POST", path, body(read))).status, 200, path);
    t.match(await ask(MINE, "POST", path, body(unread)), { status: 404, text: /have not been checked/ }, path);
    t.equal((await ask(THEIRS, "POST", path, body(read))).status, 404, path);
  }
  t.equal((await ask(MINE, "POST", `${batch}?batch.inputConfig.fileName=${unread}`, {})).status, 404);
  t.equal((await run(MINE, "files/ours")).status, 200, "what the operator shares");
  const inlined = { requests: { requests: [{ request: { contents: contents(unread) } }] } };
  t.equal((await ask(MINE, "POST", batch, { batch: { inputConfig: inlined } })).status, 200, "named by a request");
  t.equal((await ask(MINE, "POST", batch, { contents: contents(unread) })).status, 200);
  const imports = "/v1beta/models/m:importFile";
  t.equal((await ask(MINE, "POST", imports, { fileName: unread })).status, 200, "read as a document");
});

t.test("a file counts as read only if the vendor has the bytes that were", async (t) => {
  const { begin, sendPiece, upload, run } = await batching(t);
  const file = await upload(MINE, ["text"]);
  const bad = HARMLESS + line(file);
  const good = `${HARMLESS.padEnd(bad.length - 1)}\n`;
  const at = (offset: number, command = "upload, finalize") => ({
    "x-goog-upload-command": command,
    "x-goog-upload-offset": `${offset}`,
  });
  for (const [what, pieces] of [
    ["a piece that does not say where it belongs", [[bad, { "x-goog-upload-command": "finalize" }]]],
    ["one at another place", [[bad, at(7)]]],
    [
      "one in the place of another",
      [
        [bad, at(0, "upload")],
        [good, at(0)],
      ],
    ],
    [
      "one for an upload that was finished",
      [
        [bad, at(0)],
        [good, at(0)],
      ],
    ],
  ] as const) {
    const address = await begin(THEIRS);
    let name = "";
    for (const [body, headers] of pieces) ({ name } = await sendPiece(address, body, headers));
    t.match(name, /^files\//, what);
    t.match(await run(THEIRS, name), UNCHECKED, what);
  }
  const failed = { body: HARMLESS, headers: { "x-test-fails": "1" }, status: 503 };
  const repeated = await upload(MINE, [failed, HARMLESS]);
  t.equal((await run(MINE, repeated)).status, 200, "a first piece may be repeated");
  const later = await upload(MINE, [HARMLESS, failed, HARMLESS]);
  t.match(await run(MINE, later), UNCHECKED, "a later one may not");
});

t.test("another file under the name of a deleted one does not run", async (t) => {
  const { ask, upload, run } = await batching(t);
  const theirs = await upload(MINE, ["text"]);
  const name = await upload(THEIRS, [HARMLESS], { name: "files/chosen" });
  t.equal(name, "files/chosen");
  t.equal((await ask(MINE, "DELETE", `/v1beta/${name}`)).status, 404);
  t.equal((await run(THEIRS, name)).status, 200, "another key cannot delete it");
  t.equal((await ask(THEIRS, "DELETE", `/v1beta/${name}`)).status, 200);
  await upload(THEIRS, [HARMLESS + line(theirs)], { name });
  t.match(await run(THEIRS, name), UNCHECKED);
});

t.test("keys of a group run each other's files, and a path that is open runs any of a key's", async (t) => {
  const group = await batching(t, { share: "group" });
  const shared = await group.upload(MINE, [HARMLESS]);
  t.equal((await group.run(`${MINE}-friend`, shared)).status, 200);
  t.equal((await group.run(THEIRS, shared)).status, 404);
  const open = await batching(t, { open: true });
  const unread = await open.upload(MINE, ["a text"]);
  t.equal((await open.run(MINE, unread)).status, 200);
  t.equal((await open.run(THEIRS, unread)).status, 404);
  const all = await batching(t, { share: "all" });
  t.equal((await all.run(THEIRS, await all.upload(MINE, ["a text"]))).status, 200);
});

t.test("the vendor's SDK runs a large file of requests", async (t) => {
  const { url } = await batching(t);
  const client = new GoogleGenAI({ apiKey: MINE, httpOptions: { apiVersion: "v1beta", baseUrl: `${url}/vendor` } });
  const long = JSON.stringify({ key: "1", request: { contents: [{ parts: [{ text: "x".repeat(1000) }] }] } });
  const file = new Blob([`${long}\n`.repeat(9000)], { type: "application/jsonl" });
  const { name = "" } = await client.files.upload({ file, config: { mimeType: "application/jsonl" } });
  const batch = await client.batches.create({ model: "m", src: { fileName: name } });
  t.match(batch.name, /^batches\//);
});
