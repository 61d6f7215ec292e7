import type { IncomingMessage, ServerResponse } from "node:http";
import t from "tap";
import { asking } from "../support/gateway.ts";
import { startProcess } from "../support/process.ts";
import { json, startVendor } from "../support/vendor.ts";

/** Requests, one after the other: at first what V8 has not compiled keeps more. */
const REQUESTS = 6000;
/** Collections that are looked at. */
const LAST = 60;
/** The part of what is allocated that a collection of the young may find in use: what runs, and nothing of what has run. */
const KEPT = 0.03;

const IMAGE = Buffer.concat([Buffer.from("\x89PNG\r\n\x1a\n", "latin1"), Buffer.alloc(6000, 7)]).toString("base64");
const TEXT = "Hello ".repeat(100);
const CHAT = "/v1/chat/completions";
const REQUEST_KINDS: [what: string, path: string, request: { messages: [{ content: unknown }]; stream?: boolean }][] = [
  ["a text", CHAT, { messages: [{ content: TEXT }] }],
  [
    "an image",
    CHAT,
    { messages: [{ content: [{ type: "image_url", image_url: { url: `data:image/png;base64,${IMAGE}` } }] }] },
  ],
  ["a translated stream", "/v1/messages", { messages: [{ content: TEXT }], stream: true }],
];

const CHOICE = { index: 0, finish_reason: "stop" };
const whole = json({ id: "x", object: "chat.completion", choices: [{ ...CHOICE, message: { content: "ok" } }] });
const chunk = { id: "x", object: "chat.completion.chunk", choices: [{ ...CHOICE, delta: { content: "ok" } }] };
const streamed = (_request: IncomingMessage, response: ServerResponse) => {
  response.writeHead(200, { "content-type": "text/event-stream" });
  response.end(`data: ${JSON.stringify(chunk)}\n\ndata: [DONE]\n\n`);
};

for (const [what, path, request] of REQUEST_KINDS)
  t.test(`the memory of a request with ${what} is freed without a full garbage collection`, async (t) => {
    const vendor = await startVendor(t, request.stream ? streamed : whole);
    const yaml = `providers: { up: { url: "${vendor.url}/v1", protocol: openai-chat } }
models: { m: { targets: [up:m] } }
limits: { default: { tpm: 100G } }
`;
    const gateway = await startProcess(t, yaml, {
      node: ["--trace-gc", "--trace-gc-nvp", "--max-semi-space-size=2", "--no-allocation-site-pretenuring"],
    });
    const messages = request.messages.map((message) => ({ role: "user", ...message }));
    const body = JSON.stringify({ model: "m", max_tokens: 10, ...request, messages });
    for (let i = 0; i < REQUESTS; i++) {
      const answer = await fetch(gateway.url + path, { method: "POST", headers: asking(), body });
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
