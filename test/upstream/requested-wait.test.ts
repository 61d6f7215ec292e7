import t, { type Test } from "tap";
import type { Protocol } from "../../src/core/protocol.ts";
import { requestedWait } from "../../src/upstream/requested-wait.ts";
import { HeaderList } from "../../src/wire/headers.ts";
import { chunk } from "../support/chunk.ts";
import { startGateway } from "../support/gateway.ts";
import { asking } from "../support/key.ts";
import { proxied } from "../support/proxied.ts";
import { CHUNKED, client, httpUpstream, outgoing, type Script, whole } from "../support/upstream.ts";

const protocol = { retryAfter: (body: Buffer) => Number(body) } as unknown as Protocol;

async function look(t: Test, script: Script, lines: readonly string[] = [], asked = protocol) {
  const { upstream, proxy } = await proxied(t, script);
  const response = await proxy.send(outgoing(upstream.origin), client());
  const seconds = await requestedWait(response, new HeaderList([...lines]), asked);
  return { seconds, read: () => whole(response) };
}

const limited =
  (body: string, end = "0\r\n\r\n", status = 429): Script =>
  (socket) =>
    socket.write(`${CHUNKED.replace("200", String(status))}${chunk(body)}${end}`);

t.test("a wait is read from the headers, or else from an error's body, all of which stays to be read", async (t) => {
  const found = await look(t, limited("48"));
  t.equal(found.seconds, 48);
  t.equal((await found.read()).body.toString(), "48");
  t.equal((await look(t, limited("48"), ["retry-after", "3"])).seconds, 3);
  t.equal((await look(t, limited("48", "0\r\n\r\n", 503))).seconds, 48);
});

t.test(
  "a body that is no error, too long or not whole in time, or of a protocol without waits tells none",
  async (t) => {
    t.equal((await look(t, limited("48", "0\r\n\r\n", 200))).seconds, undefined);
    t.equal((await look(t, limited(`${" ".repeat(17_000)}48`))).seconds, undefined);
    t.equal((await look(t, limited("48", ""))).seconds, undefined);
    t.equal((await look(t, limited("48"), [], {} as Protocol)).seconds, undefined);
  },
);

/** What a client gets of Gemini, which first refuses a request for some time. */
async function refusedFor(t: Test, retryDelay: string) {
  let asked = 0;
  const upstream = await httpUpstream((_, reply) => {
    const error = {
      code: 429,
      message: "Quota exceeded.",
      status: "RESOURCE_EXHAUSTED",
      details: [{ "@type": "type.googleapis.com/google.rpc.RetryInfo", retryDelay }],
    };
    const [status, body] = asked++ === 0 ? [429, { error }] : [200, { candidates: [] }];
    reply.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(body));
  });
  t.teardown(() => upstream.close());
  const { url, gateway } = await startGateway(
    t,
    `providers: { up: { url: "${upstream.origin.origin}/v1beta", protocol: gemini, credential: secret-0123456789 } }\nmodels: { m: { targets: [up:x] } }\n`,
  );
  const { status } = await fetch(`${url}/v1beta/models/m:generateContent`, {
    method: "POST",
    headers: asking(),
    body: '{"contents":[]}',
  });
  const { upstreams, marketplace } = gateway.generation;
  const [target] = marketplace.models[0]?.targets ?? [];
  const { remaining = 0 } = (target && upstreams.health.report(target).credentials[0]) ?? {};
  return { status, asked, remaining };
}

t.test("a short wait in the body of Gemini's error is waited for; a long one rests the credential", async (t) => {
  t.match(await refusedFor(t, "0.3s"), { status: 200, asked: 2 });
  const { status, remaining } = await refusedFor(t, "40s");
  t.equal(status, 429);
  t.ok(remaining > 1000, `${remaining} ms, more than where no wait is told`);
});
