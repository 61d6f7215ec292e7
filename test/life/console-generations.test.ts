import { readFileSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { join } from "node:path";
import t, { type Test } from "tap";
import { noBrowser } from "../support/browser.ts";
import { consolePage, type StartedConsole, startConsole } from "../support/console.ts";
import { asking, KEY } from "../support/key.ts";
import { listen } from "../support/listen.ts";
import { open, socketUpstream } from "../support/sockets.ts";

/** A provider whose streams do not end. */
async function endless(t: Test): Promise<number> {
  const server = createServer((request, response) => {
    request.resume();
    response.writeHead(200, { "content-type": "text/event-stream" });
    const timer = setInterval(
      () => response.write('data: {"choices":[{"index":0,"delta":{"content":"on "}}]}\n\n'),
      50,
    );
    response.on("close", () => clearInterval(timer));
  });
  return listen(t, server);
}

/** Has the gateway reload its file with one thing changed. */
async function reload({ folder, gateway }: StartedConsole): Promise<void> {
  const file = join(folder, "gateway.yaml");
  writeFileSync(file, readFileSync(file, "utf8").replace("name: First", "name: Second"));
  t.match(await gateway.reload(), { generation: 2 });
}

t.test(
  "a stream and a WebSocket that keep an old generation alive are named, and closed once drain is over",
  { skip: noBrowser },
  async (t) => {
    const provider = await socketUpstream(t);
    const started = await startConsole(
      t,
      `drain: 8s
providers:
  talker: { url: "http://127.0.0.1:${await endless(t)}/v1", protocol: openai-chat }
  vendor: { url: "http://127.0.0.1:${provider.port}/v1", speaks: [openai-responses], websocket: true }
models:
  slow: { name: First, targets: [talker:x] }
  voice: { targets: [vendor:v] }
paths: { /v1/realtime: { protocol: openai-realtime }, /v1/chat/completions: { protocol: openai-chat } }
keys: { phone: { key: ${KEY} } }
`,
    );
    const { url } = started;
    const { closed } = await open(`${url.replace("http", "ws")}/v1/realtime?model=voice`, [], {
      authorization: `Bearer ${KEY}`,
    });
    const streams = [..."123"].map(async () => {
      const body = { model: "slow", stream: true, messages: [{ role: "user", content: "Tell me a story." }] };
      const answer = await fetch(`${url}/v1/chat/completions`, {
        method: "POST",
        headers: asking(),
        body: JSON.stringify(body),
      });
      const text = answer.text().catch((error: Error) => error.message);
      return { id: answer.headers.get("x-request-id"), text };
    });
    const answers = await Promise.all(streams);
    const page = await consolePage(t, started, "/config");
    await reload(started);
    const row = page
      .getByRole("table", { name: "Generations" })
      .locator("tbody tr")
      .filter({ has: page.getByRole("rowheader", { name: "1", exact: true }) });
    await row.getByText("WebSocket of phone").waitFor();
    t.match(await row.innerText(), /^1\b[\s\S]*4:/, "the exchanges that keep it alive are counted");
    t.match(await row.innerText(), /WebSocket of phone, voice, for /);
    t.match(await row.innerText(), /stream of phone, slow, for /);
    const links = await row
      .getByRole("link")
      .evaluateAll((all) => all.map((link) => (link as unknown as { pathname: string }).pathname));
    for (const { id } of answers) t.ok(links.includes(`/requests/${id}`), "and leads to its page");
    await closed;
    for (const { text } of answers) t.notMatch(await text, /\[DONE\]/);
    await row.waitFor({ state: "detached" });
    await started.gateway.stores.ledger.flush();
    const ended = await started.gateway.stores.ledger.recent(4);
    t.same(
      ended.map(({ outcome }) => outcome),
      Array.from({ length: 4 }, () => "interrupted"),
    );
  },
);
