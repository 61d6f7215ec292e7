import t, { type Test } from "tap";
import { asking, startGateway } from "../../support/gateway.ts";
import { httpUpstream } from "../../support/upstream.ts";

async function twoTargets(t: Test) {
  const upstream = await httpUpstream();
  t.teardown(() => upstream.close());
  const { url } = await startGateway(
    t,
    `providers: { up: { url: "${upstream.origin.origin}", speaks: [openai-responses, anthropic-messages] } }
models: { m: { targets: [{ to: up:a, weight: 1 }, { to: up:b, weight: 1 }] } }
`,
  );
  /** Which of the two served a request. */
  return async (path: string, headers: Record<string, string>, more = "") => {
    const answer = await fetch(url + path, {
      method: "POST",
      headers: asking(headers),
      body: `{"model":"m"${more}}`,
    });
    await answer.text();
    return (JSON.parse(upstream.seen.at(-1)?.body.toString() ?? "{}") as { model: string }).model;
  };
}

const SESSIONS: Record<string, (name: string) => [path: string, headers: Record<string, string>, body?: string]> = {
  "a header of Claude Code": (name) => ["/v1/messages", { "x-claude-code-session-id": name }],
  "metadata.user_id": (name) => ["/v1/messages", {}, `,"metadata":{"user_id":"{\\"session_id\\":\\"${name}\\"}"}`],
  "a header of Codex": (name) => ["/v1/responses", { session_id: name }],
  "an affinity header": (name) => ["/v1/responses", { "x-session-affinity": name }],
  prompt_cache_key: (name) => ["/v1/responses", {}, `,"prompt_cache_key":"${name}"`],
};

for (const [way, session] of Object.entries(SESSIONS)) {
  t.test(`requests that name one session by ${way} go to one target, other sessions to others`, async (t) => {
    const ask = await twoTargets(t);
    const served = new Set<string>();
    for (let i = 0; i < 24; i++) {
      const first = await ask(...session(`session ${i}`));
      served.add(first);
      t.equal(await ask(...session(`session ${i}`)), first);
    }
    t.same([...served].sort(), ["a", "b"]);
  });
}

t.test("metadata that is nothing to go by is no session and no error", async (t) => {
  const ask = await twoTargets(t);
  for (const metadata of ["null", "7", '"text"', "[]", '{"user_id":7}', '{"user_id":""}'])
    t.match(await ask("/v1/messages", {}, `,"metadata":${metadata}`), /^[ab]$/, metadata);
});
