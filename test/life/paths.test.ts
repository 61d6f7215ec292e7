import t from "tap";
import { KEY, startGateway } from "../support/gateway.ts";
import { entrance, WAYS } from "../support/nginx.ts";
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

const BODY = '{"model":"any","contents":[]}';
const ask = (port: number, target: string, key = `X-Api-Key: ${KEY}\r\n`): Promise<Talk> =>
  send(port, `POST ${target} HTTP/1.1\r\nHost: gw.test\r\n${key}Content-Length: ${BODY.length}\r\n\r\n${BODY}`);

for (const way of WAYS) {
  t.test(`request targets that could lead elsewhere, ${way}`, { skip: !all && "vectors are absent" }, async (t) => {
    const upstream = await httpUpstream();
    t.teardown(() => upstream.close());
    const running = await startGateway(
      t,
      `providers: { up: { url: "${upstream.origin.origin}/v1", credential: provider-secret, speaks: [openai-chat, gemini] } }\nmodels: { any: { targets: [up:vendor] }, gemini-x: { targets: [up:vendor] } }\n`,
    );
    const port = await entrance(t, way, running.port);
    if (port === undefined) return;

    const given = all as Vector[];
    t.equal(given.length, 34);
    const talks = await each(given, ({ target }) => ask(port, target));
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
    const unsigned = await each(given, ({ target }) => ask(port, target, ""));
    for (const [i, { target }] of given.entries())
      t.ok(
        (unsigned[i]?.statuses[0] ?? 0) >= 400,
        `${target}: the same access without a key, got ${unsigned[i]?.statuses}`,
      );
    t.equal(upstream.seen.length, count, "no request without a key is sent upstream");

    t.same(
      (await ask(port, `/v1beta/models/any:generateContent?key=${KEY}&x=1`, "")).statuses,
      [200],
      "a key in the query",
    );
    t.equal(upstream.seen.at(-1)?.url, "/v1/models/vendor:generateContent?x=1");
    const crossed = JSON.stringify([upstream.seen.map(({ url, rawHeaders }) => [url, rawHeaders]), running.log.lines]);
    t.notMatch(crossed, new RegExp(`CANARY|${KEY}`), "no key in the query is sent upstream or logged");
  });
}
