import t from "tap";
import { KEY, startGateway } from "./support/gateway.ts";
import { journalAt } from "./support/journal-at.ts";
import { open, socketUpstream } from "./support/sockets.ts";

const PLUGIN = `
export default class Watch {
  access(exchange) { if (exchange.query.has("answer")) exchange.answer = { status: 418, body: '{"short":"stout"}' }; }
  request(exchange) { if (exchange.requestedModel === "bad") throw new Error("not this model"); }
  send(exchange, attempt) { attempt.headers.set("x-sent", attempt.target.model); }
  done(exchange) { globalThis.socketsWatched = [exchange.status, exchange.outcome]; }
}
`;

t.test("a handshake passes the phases of a request without a body; a plugin may refuse and answer it", async (t) => {
  const upstream = await socketUpstream(t);
  const running = await startGateway(
    t,
    `providers: { a: { url: "http://127.0.0.1:${upstream.port}/v1", speaks: [openai-chat], websocket: true, forward: [x-more] } }
models: { m: { targets: [a:vendor-m] }, bad: { targets: [a:x] } }
plugins: { watch: { from: ./watch.ts } }
paths: { /v1/realtime: { protocol: openai-realtime, use: [auth, watch, models, rewrite, usage] } }
`,
    { "watch.ts": PLUGIN },
  );
  const watched = () => (globalThis as { socketsWatched?: unknown }).socketsWatched;
  const ask = (query: string) =>
    open(`ws://127.0.0.1:${running.port}/v1/realtime?${query}`, [], { "x-api-key": KEY, "x-more": "1" });
  const seen = await ask("model=m");
  t.match(upstream.handshakes[0]?.headers, { "x-sent": "vendor-m", "x-more": "1" });
  seen.socket.close();
  await seen.closed;
  await t.rejects(ask("model=bad"), /^500 /);
  t.same(watched(), [500, "failed"]);
  await t.rejects(ask("model=m&answer=1"), /^418 {"short":"stout"}/);
  t.equal(upstream.handshakes.length, 1);
});

t.test("the journal has a WebSocket before its provider hears of it", async (t) => {
  const upstream = await socketUpstream(t);
  const running = await startGateway(
    t,
    `providers: { a: { url: "http://127.0.0.1:${upstream.port}/v1", speaks: [openai-chat], websocket: true } }
models: { m: { targets: [a:vendor-m] } }
`,
  );
  const asked = journalAt(t, running.folder, "http.client.request.created", upstream.port);
  const seen = await open(`ws://127.0.0.1:${running.port}/v1/realtime?model=m`, [], { "x-api-key": KEY });
  t.same(asked, [{ ended: 0, open: 1 }]);
  seen.socket.close();
  await seen.closed;
});
