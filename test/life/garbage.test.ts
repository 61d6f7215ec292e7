import type { IncomingMessage, ServerResponse } from "node:http";
import { gzipSync } from "node:zlib";
import t from "tap";
import { asking } from "../support/key.ts";
import { startProcess } from "../support/process.ts";
import { startVendor } from "../support/vendor.ts";

/** Requests, one after the other: what a start leaves is collected within the first 200. */
const REQUESTS = 500;
/** Collections that are looked at: the last ones. */
const LAST = 30;
/** The part of what is allocated that a collection of the young may find in use: what runs, and nothing of what has run. */
const KEPT = 0.03;
/** Without compilers: compiled code allocates less among old objects. */
const FLAGS = ["--no-opt", "--no-maglev", "--no-allocation-site-pretenuring"];

const IMAGE = Buffer.concat([Buffer.from("\x89PNG\r\n\x1a\n", "latin1"), Buffer.alloc(6000, 7)]).toString("base64");
const IMAGE_PART = { type: "image_url", image_url: { url: `data:image/png;base64,${IMAGE}` } };
const TEXT = "Hello ".repeat(100);
const CHAT = "/v1/chat/completions";

interface RequestKind {
  path?: string;
  content?: unknown;
  stream?: boolean;
  /** Whether request and answer are compressed. */
  compressed?: boolean;
}
const REQUEST_KINDS: Record<string, RequestKind> = {
  "a request with a text": {},
  "a request with an image": { content: [IMAGE_PART] },
  "a translated request": { path: "/v1/messages" },
  "a translated stream": { path: "/v1/responses", stream: true },
  "a compressed request": { compressed: true },
  "a compressed stream": { compressed: true, stream: true },
  "a request on a pass path": { path: "/v1/moderations" },
};

const CHOICE = { index: 0, finish_reason: "stop" };
const WHOLE = { id: "x", object: "chat.completion", choices: [{ ...CHOICE, message: { content: "ok" } }] };
const CHUNK = { id: "x", object: "chat.completion.chunk", choices: [{ ...CHOICE, delta: { content: "ok" } }] };

const answerOf =
  ({ stream, compressed }: RequestKind) =>
  (_request: IncomingMessage, response: ServerResponse) => {
    const body = stream ? `data: ${JSON.stringify(CHUNK)}\n\ndata: [DONE]\n\n` : JSON.stringify(WHOLE);
    response.setHeader("content-type", stream ? "text/event-stream" : "application/json");
    if (compressed) response.setHeader("content-encoding", "gzip");
    response.end(compressed ? gzipSync(body) : body);
  };

for (const [what, kind] of Object.entries(REQUEST_KINDS))
  t.test(`the memory of ${what} is freed without a full garbage collection`, async (t) => {
    const { path = CHAT, content = TEXT, stream = false, compressed } = kind;
    const vendor = await startVendor(t, answerOf(kind));
    const yaml = `providers: { up: { url: "${vendor.url}/v1", protocol: openai-chat } }
models: { m: { targets: [up:m] } }
paths: { /v1/moderations: { pass: up, use: [auth, limits, usage], open: true } }
limits: { default: { tpm: 100G } }
`;
    const gateway = await startProcess(t, yaml, {
      node: [...FLAGS, "--trace-gc", "--trace-gc-nvp", "--max-semi-space-size=2"],
    });
    const messages = [{ role: "user", content }];
    const request = {
      model: "m",
      stream,
      ...(path === "/v1/responses" ? { input: messages } : { messages, max_tokens: 10 }),
    };
    const json = JSON.stringify(request);
    const body = compressed ? gzipSync(json) : json;
    const headers = { ...asking(), ...(compressed && { "content-encoding": "gzip" }) };
    for (let i = 0; i < REQUESTS; i++) {
      const answer = await fetch(gateway.url + path, { method: "POST", headers, body });
      if (answer.status !== 200) t.fail(`status ${answer.status}`);
      await answer.text();
    }
    const [first] = /^\[\d+:0x[0-9a-f]+:0\]/m.exec(gateway.text) ?? [];
    const collections = gateway.text
      .split("\n")
      .filter((line) => first !== undefined && line.startsWith(first) && line.includes('"gc":"s"'))
      .map((line) => JSON.parse(line.slice(line.indexOf("{"))) as { allocated: number; new_space_survived: number })
      .slice(-LAST);
    t.equal(collections.length, LAST);
    const sum = (of: "allocated" | "new_space_survived") => collections.reduce((all, each) => all + each[of], 0);
    const part = sum("new_space_survived") / sum("allocated");
    t.ok(part < KEPT, `${collections.length} collections, ${(100 * part).toFixed(1)} % of it was retained`);
  });
