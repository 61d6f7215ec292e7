import t from "tap";
import { KEY, startGateway } from "../support/gateway.ts";
import { gathered } from "../support/gathered.ts";
import { sendByHttp2 } from "../support/http2-talk.ts";
import { ALL_WAYS, entrance } from "../support/nginx.ts";
import { each, send, type Talk, vectors } from "../support/raw.ts";
import { httpUpstream } from "../support/upstream.ts";

interface Vector {
  target: string;
  /** In words, like `404 or same route, same ACL`. */
  expect: string;
}

const all = vectors<Vector[]>("path-vectors.json");

/** Where this gateway is kinder than the vectors ask: a client's usual mistakes in its base address, with a notice. */
const FORGIVEN: Record<string, string> = {
  "//v1/chat/completions": "404: an empty first segment is read as none",
  "/v1//chat/completions": "404: a doubled slash is read as one",
  "/v1/chat/completions/": "404 or same route: a slash at the end is dropped",
};

/** Statuses that an expectation allows; a literal miss is a model that nobody has. */
function allowed({ target, expect }: Vector): number[] {
  if (target in FORGIVEN || /^allow|^key used/.test(expect)) return [200];
  const words = { 200: /canonicalise/, 400: /400/, 404: /40[34]|miss/ };
  return Object.entries(words).flatMap(([status, word]) => (word.test(expect) ? [Number(status)] : []));
}

/** All that a provider of this gateway may ever be asked for. */
const CONFIGURED = [
  "/v1/chat/completions",
  "/v1/chat/completions?x=1?y=2",
  "/v1/models/vendor:generateContent",
  "/v1/models/vendor:streamGenerateContent?alt=sse",
];

const BODY =
  '{"model":"any","contents":[{"role":"user","parts":[{"text":"x"}]}],"messages":[{"role":"user","content":"x"}]}';
const KEYED = `X-Api-Key: ${KEY}\r\n`;
const ask = (port: number, target: string, key = KEYED, by = send): Promise<Talk> =>
  by(port, `POST ${target} HTTP/1.1\r\nHost: gw.test\r\n${key}Content-Length: ${BODY.length}\r\n\r\n${BODY}`);

for (const way of ALL_WAYS) {
  t.test(`request targets that could lead elsewhere, ${way}`, { skip: !all && "vectors are absent" }, async (t) => {
    const upstream = await httpUpstream();
    t.teardown(() => upstream.close());
    const running = await startGateway(
      t,
      `providers: { up: { url: "${upstream.origin.origin}/v1", credential: provider-secret, speaks: [openai-chat, gemini] } }\nmodels: { any: { targets: [up:vendor] }, gemini-x: { targets: [up:vendor] } }\n`,
    );
    const port = await entrance(t, way, running.port);
    if (port === undefined) return;
    const by = way === "by HTTP/2 behind nginx" ? sendByHttp2 : send;

    const given = all as Vector[];
    t.equal(given.length, 34);
    const talks = await each(given, ({ target }) => ask(port, target, KEYED, by));
    for (const [i, vector] of given.entries()) {
      const { statuses, text } = talks[i] as Talk;
      const { target } = vector;
      const wanted = allowed(vector);
      t.ok(wanted.length > 0, `${target}: "${vector.expect}" is understood`);
      t.ok(statuses.length === 1 && wanted.includes(statuses[0] ?? 0), `${target}: ${vector.expect}, got ${statuses}`);
      if (target in FORGIVEN)
        t.match(text, `gateway-notice: ${target} read as /v1/chat/completions;`, `${target}: ${FORGIVEN[target]}`);
    }
    for (const { url } of upstream.seen) t.ok(CONFIGURED.includes(url), url);
    t.equal(
      upstream.seen.length,
      talks.filter(({ statuses }) => statuses[0] === 200).length,
      "one request for each 200",
    );

    const count = upstream.seen.length;
    const unsigned = await each(given, ({ target }) => ask(port, target, "", by));
    for (const [i, { target }] of given.entries())
      t.ok(
        (unsigned[i]?.statuses[0] ?? 0) >= 400,
        `${target}: the same access without a key, got ${unsigned[i]?.statuses}`,
      );
    t.equal(upstream.seen.length, count, "no request without a key is sent upstream");

    t.same(
      (await ask(port, `/v1beta/models/any:generateContent?key=${KEY}&x=1`, "", by)).statuses,
      [200],
      "a key in the query",
    );
    t.equal(upstream.seen.at(-1)?.url, "/v1/models/vendor:generateContent?x=1");
    const crossed = JSON.stringify([upstream.seen.map(({ url, rawHeaders }) => [url, rawHeaders]), running.log.lines]);
    t.notMatch(crossed, new RegExp(`CANARY|${KEY}`), "no key in the query is sent upstream or logged");
  });
}

/** What the provider speaks, and the paths on which it may be asked then. */
const SPOKEN: Record<string, RegExp> = {
  "openai-chat, gemini":
    /^\/v1\/(?:chat\/completions(?:\?x=1\?y=2)?|models\/vendor:(?:generate|streamGenerate)Content(?:\?alt=sse)?)$/,
  "openai-chat": /^\/v1\/chat\/completions(?:\?x=1\?y=2)?$/,
  "openai-responses": /^\/v1\/responses$/,
  "anthropic-messages": /^\/v1\/messages$/,
  gemini: /^\/v1\/models\/vendor:(?:generateContent|streamGenerateContent\?alt=sse)$/,
};
const OWN = `export default class Own {
  access(exchange) { exchange.headers.set("x-own", "1"); }
  async request(exchange) { await exchange.body; }
  send(exchange, attempt) { attempt.headers.set("x-own", "2"); }
  response() { return (frame) => frame; }
}`;
const CHAINS: Record<string, string> = {
  "the default plugins": "",
  "as few plugins as possible": "chains: { llm: [auth, models, rewrite] }\n",
  "a plugin of the operator's":
    "plugins: { own: { from: ./own.ts } }\nchains: { llm: [sse, auth, scrub, own, models, limits, rewrite, usage] }\n",
};

for (const [speaks, may] of Object.entries(SPOKEN))
  for (const [plugins, chains] of Object.entries(CHAINS))
    gathered(
      t,
      `the same where the provider speaks ${speaks}, with ${plugins}`,
      { skip: !all && "vectors are absent" },
      async (t) => {
        const upstream = await httpUpstream();
        t.teardown(() => upstream.close());
        const { port } = await startGateway(
          t,
          `providers: { up: { url: "${upstream.origin.origin}/v1", speaks: [${speaks}] } }
models: { any: { targets: [up:vendor] }, gemini-x: { targets: [up:vendor] } }
retry: { attempts: 0 }
health: { failures: 1000000, errors: off }
${chains}`,
          { "own.ts": OWN },
        );
        const talks = await each(all as Vector[], ({ target }) => ask(port, target));
        let sent = 0;
        for (const [i, vector] of (all as Vector[]).entries()) {
          const status = talks[i]?.statuses[0] ?? 0;
          // What the provider answers is none of the protocol's answers: 502 where it must be translated.
          const passed = status === 200 || status === 502;
          if (passed) sent++;
          const wanted = allowed(vector);
          t.ok(wanted.includes(passed ? 200 : status), `${vector.target}: ${vector.expect}, got ${status}`);
        }
        t.equal(upstream.seen.length, sent, "one request for each that was let in");
        for (const { url } of upstream.seen) t.match(url, may);
      },
    );
