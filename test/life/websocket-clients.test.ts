import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import OpenAI from "openai";
import { OpenAIRealtimeWS } from "openai/realtime/ws";
import t, { type Test } from "tap";
import { CHROMIUM, noBrowser } from "../support/browser.ts";
import { KEY, startGateway } from "../support/gateway.ts";
import { listen } from "../support/listen.ts";
import { entrance, WAYS } from "../support/nginx.ts";
import { overTls, socketUpstream } from "../support/sockets.ts";

const UPGRADE =
  "proxy_http_version 1.1; proxy_set_header Upgrade $http_upgrade; proxy_set_header Connection $http_connection;";

/** What a provider says to what it is asked: its answer in two messages. */
function script(message: string, socket: { send(text: string): void }): undefined {
  const { type } = JSON.parse(message) as { type: string };
  if (type !== "response.create") return;
  const usage = { input_tokens: 12, output_tokens: 3, total_tokens: 15 };
  socket.send(
    JSON.stringify({ type: "response.output_text.delta", event_id: "e1", response_id: "r1", delta: "Hello" }),
  );
  socket.send(
    JSON.stringify({ type: "response.done", event_id: "e2", response: { id: "r1", status: "completed", usage } }),
  );
}

async function talking(t: Test) {
  const upstream = await socketUpstream(t, script);
  const running = await startGateway(
    t,
    `providers: { vendor: { url: "http://127.0.0.1:${upstream.port}/v1", credential: provider-secret-0123456789, speaks: [openai-chat], websocket: true } }
models: { voice: { targets: [vendor:gpt-realtime] } }
`,
  );
  const settled = async () => {
    for (;;) {
      await running.gateway.stores.ledger.flush();
      const entries = await running.gateway.stores.ledger.recent(1);
      if (entries.length > 0) return entries;
      await new Promise((later) => setTimeout(later, 5));
    }
  };
  return { upstream, running, settled };
}

for (const way of WAYS) {
  t.test(`the vendor's own client connects ${way}`, async (t) => {
    const { upstream, running, settled } = await talking(t);
    const port = await entrance(t, way, running.port, UPGRADE);
    if (port === undefined) return;
    const tls = await overTls(t, port);
    const client = new OpenAI({ apiKey: KEY, baseURL: `https://127.0.0.1:${tls}/v1` });
    const realtime = new OpenAIRealtimeWS({ model: "voice", options: { rejectUnauthorized: false } }, client);
    const failed = new Promise((_, reject) => realtime.on("error", reject));
    const opened = once(realtime.socket, "open");
    await Promise.race([opened, failed]);
    const seen: string[] = [];
    realtime.on("response.output_text.delta", ({ delta }) => seen.push(delta));
    const done = new Promise((resolve) => realtime.on("response.done", ({ response }) => resolve(response.usage)));
    realtime.send({ type: "session.update", session: { type: "realtime", instructions: "Be brief." } });
    realtime.send({ type: "response.create" });
    t.match(await Promise.race([done, failed]), { total_tokens: 15 });
    t.same(seen, ["Hello"]);
    realtime.close({ code: 1000, reason: "enough" });
    t.match(await settled(), [{ model: "voice", status: 101, usage: { in: { total: 12 }, out: { total: 3 } } }]);
    t.match(upstream.handshakes[0]?.url, "model=gpt-realtime");
    t.equal(upstream.messages.length, 2);
  });

  t.test(`a browser connects ${way}, with its key in the only place it can set`, { skip: noBrowser }, async (t) => {
    const { upstream, running, settled } = await talking(t);
    const port = await entrance(t, way, running.port, UPGRADE);
    if (port === undefined) return;
    const told = await browse(
      t,
      `const socket = new WebSocket("ws://127.0.0.1:${port}/v1/realtime?model=voice", ["realtime", "openai-insecure-api-key.${KEY}"]);
      const seen = [];
      socket.onopen = () => socket.send(JSON.stringify({ type: "response.create" }));
      socket.onmessage = ({ data }) => {
        seen.push(JSON.parse(data).type);
        if (seen.length === 2) socket.close(4000);
      };
      socket.onclose = ({ code }) => tell({ seen, code, protocol: socket.protocol });`,
    );
    t.same(told, { seen: ["response.output_text.delta", "response.done"], code: 4000, protocol: "realtime" });
    t.match(await settled(), [{ status: 101, usage: { in: { total: 12 } } }]);
    t.equal(upstream.handshakes[0]?.headers["sec-websocket-protocol"], "realtime");
    t.equal(upstream.handshakes[0]?.headers.origin, undefined);
  });
}

/** Runs a script in a headless browser, on a page of its own, and answers what it tells. */
async function browse(t: Test, script: string): Promise<unknown> {
  const { promise, resolve, reject } = Promise.withResolvers<unknown>();
  const page = createServer(async (request, response) => {
    if (request.method === "POST") {
      const pieces = await Array.fromAsync(request as AsyncIterable<Buffer>);
      resolve(JSON.parse(Buffer.concat(pieces).toString()));
    }
    const tell = 'const tell = (what) => fetch("/", { method: "POST", body: JSON.stringify(what) });';
    response.setHeader("content-type", "text/html").end(`<script>${tell}${script}</script>`);
  });
  const address = `http://127.0.0.1:${await listen(t, page)}/`;
  const folder = mkdtempSync(join(tmpdir(), "browser-"));
  const flags = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"];
  const child = spawn(CHROMIUM ?? "chromium", [...flags, `--user-data-dir=${folder}`, address], {
    stdio: "ignore",
    detached: true,
  });
  child.on("error", reject).on("exit", (code) => reject(new Error(`the browser ended with ${code}`)));
  t.teardown(async () => {
    const gone = child.exitCode === null ? once(child, "exit") : undefined;
    // Its helpers are in its group.
    if (child.pid !== undefined && child.exitCode === null) process.kill(-child.pid, "SIGKILL");
    await gone;
    rmSync(folder, { recursive: true, force: true, maxRetries: 5 });
  });
  return promise;
}
