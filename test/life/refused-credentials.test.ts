import t, { type Test } from "tap";
import { KEY, type Running, startGateway } from "../support/gateway.ts";
import { httpUpstream, type SeenRequest } from "../support/upstream.ts";

const OTHER = "other-key-0123456789abcdef";
const THIRD = "third-key-0123456789abcdef";
const CONTENT = {
  code: "The caller does not have permission to execute the specified operation",
  error: "Content violates usage guidelines. Team: t, Model: m, Failed check: SAFETY_CHECK_TYPE_BIO",
};

/** A provider that refuses what says BAD so, with two credentials, and a dear one behind it. */
async function gateway(t: Test, status: number, refusal: object) {
  const state = { revoked: false, meanwhile: async () => {} };
  const vendor = await httpUpstream(async (request, reply) => {
    if (request.body.toString().includes("SLOW")) await state.meanwhile();
    const bad = state.revoked || request.body.toString().includes("BAD") || request.url?.includes("organizations");
    reply.writeHead(bad ? status : 200, { "content-type": "application/json" });
    reply.end(JSON.stringify(bad ? refusal : {}));
  });
  const dear = await httpUpstream((_, reply) =>
    reply.writeHead(200, { "content-type": "application/json" }).end('{"dear":true}'),
  );
  t.teardown(() => Promise.all([vendor.close(), dear.close()]));
  const running = await startGateway(
    t,
    `providers:
  vendor: { url: "${vendor.origin.origin}/v1", speaks: [openai-chat, openai-responses, gemini], credential: [$FIRST, $SECOND] }
  dear: { url: "${dear.origin.origin}/v1", speaks: [openai-chat, openai-responses, gemini] }
models:
  m: { targets: [vendor:m], fallback: [d] }
  d: { targets: [dear:m] }
keys: { a: { key: ${KEY} }, b: { key: ${OTHER} }, c: { key: ${THIRD} } }
paths: { /vendors/v/*: { pass: vendor, open: true } }
share: all
`,
    {},
    { FIRST: "first-credential-0123456789", SECOND: "second-credential-0123456789" },
  );
  const post = (key: string, path: string, said: string) =>
    fetch(running.url + path, {
      method: "POST",
      headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
      body: JSON.stringify({ model: "m", messages: [], input: said }),
    });
  const ask = async (key: string, said: string, path = "/v1/chat/completions") => {
    const [before, dearer] = [vendor.seen.length, dear.seen.length];
    const answer = await post(key, path, said);
    const body = await answer.text();
    return { status: answer.status, body, asked: vendor.seen.length - before, dear: dear.seen.length - dearer };
  };
  return { running, vendor, dear, ask, state };
}

const refusals = ({ log }: Running) =>
  log.lines.filter(({ message }) => /does not accept the credential/.test(message));
const shown = (seen: readonly SeenRequest[]) =>
  new Set(seen.map(({ rawHeaders }) => rawHeaders.find((value) => value.startsWith("Bearer "))));

t.test("a request that is refused for its content is sent nowhere else, and puts no credential to rest", async (t) => {
  const flagged = {
    error: { code: 403, message: "… your input was flagged", metadata: { reasons: ["x"], flagged_input: "BAD" } },
  };
  for (const refusal of [CONTENT, flagged]) {
    const { running, vendor, dear, ask } = await gateway(t, 403, refusal);
    for (let i = 0; i < 4; i++)
      t.match(await ask(KEY, "BAD"), { status: 403, body: JSON.stringify(refusal), asked: 1, dear: 0 });
    for (let i = 0; i < 4; i++) t.match(await ask(KEY, "good"), { status: 200, asked: 1, dear: 0 });
    t.equal(shown(vendor.seen.slice(-4)).size, 2, "both credentials are in use");
    t.same([dear.seen.length, refusals(running).length], [0, 0]);
  }
});

t.test("a model that its vendor has retired leads to the fallback", async (t) => {
  const retired = { error: { code: "model_not_found", message: "The model `m` does not exist …", param: null } };
  const { running, ask, state } = await gateway(t, 404, retired);
  state.revoked = true;
  t.match(await ask(KEY, "good"), { status: 200, body: '{"dear":true}', asked: 2, dear: 1 });
  t.match(await ask(KEY, "good"), { status: 200, asked: 0, dear: 1 }, "which is then called at once");
  const reports = running.log.lines.filter(({ message }) => /does not have the model/.test(message));
  t.equal(reports.length, 2, "it is reported for each credential");
});

t.test("a refusal for an unknown reason concerns one caller only", async (t) => {
  for (const status of [401, 403]) {
    const { running, vendor, dear, ask } = await gateway(t, status, { error: { message: "no" } });
    for (let i = 0; i < 5; i++) {
      t.match(await ask(KEY, "BAD"), { status: 200, body: /dear/ });
      for (const key of [OTHER, THIRD])
        for (let j = 0; j < 2; j++) t.match(await ask(key, "good"), { status: 200, body: "{}", asked: 1, dear: 0 });
      t.equal(shown(vendor.seen.slice(-4)).size, 2, "both credentials are in use");
    }
    t.equal(dear.seen.length, 5);
    t.ok(refusals(running).every(({ message }) => /for this key/.test(message)));
  }
});

t.test("a request is sent to a provider once for each credential, whoever else succeeds meanwhile", async (t) => {
  const { vendor, dear, ask, state } = await gateway(t, 403, { error: { message: "no" } });
  state.meanwhile = async () => {
    for (let i = 0; i < 2; i++) await ask(OTHER, "good");
  };
  t.match(await ask(KEY, "BAD SLOW"), { status: 200, body: /dear/ });
  t.equal(vendor.seen.filter(({ body }) => body.includes("SLOW")).length, 2);
  t.equal(dear.seen.length, 1);
});

t.test(
  "a revoked credential is disabled once a second caller is refused, and at once if there is one caller",
  async (t) => {
    const { running, vendor, ask, state } = await gateway(t, 401, { error: { message: "no" } });
    for (const key of [KEY, OTHER, THIRD]) for (let i = 0; i < 2; i++) t.match(await ask(key, "good"), { asked: 1 });
    state.revoked = true;
    t.match(await ask(KEY, "good"), { status: 200, asked: 2, dear: 1 });
    t.match(await ask(KEY, "good"), { status: 200, asked: 0, dear: 1 });
    t.match(await ask(OTHER, "good"), { status: 200, asked: 2, dear: 1 });
    for (const key of [KEY, OTHER, THIRD]) t.match(await ask(key, "good"), { status: 200, asked: 0, dear: 1 });
    t.equal(vendor.seen.length, 10);
    const lines = refusals(running);
    t.same(
      lines.map(({ level, message }) => [level, /for this key/.test(message)]),
      [true, true, false, false].map((alone) => ["error", alone]),
    );
  },
);

t.test("a call that a restricted credential may not make leaves it to all others", async (t) => {
  const limited = { error: { message: "You have insufficient permissions for this operation. Missing scopes: x." } };
  const { ask } = await gateway(t, 401, limited);
  for (const key of [KEY, OTHER]) t.match(await ask(key, "BAD", "/v1/responses"), { status: 200, dear: 1 });
  const { running, ask: passing } = await gateway(t, 401, limited);
  for (const key of [KEY, OTHER]) t.match(await passing(key, "BAD", "/vendors/v/files"), { status: 401, asked: 1 });
  t.equal(refusals(running).length, 0);
});

t.test("an unknown path below a vendor's address puts nothing to rest; a known one, for its caller", async (t) => {
  const { running, vendor, ask } = await gateway(t, 401, { error: { message: "no" } });
  for (const key of [KEY, OTHER, KEY, OTHER])
    t.match(await ask(key, "x", "/vendors/v/organizations/invites"), { status: 401, asked: 1 });
  for (let i = 0; i < 2; i++) t.match(await ask(THIRD, "good"), { status: 200, asked: 1, dear: 0 });
  t.equal(shown(vendor.seen.slice(-2)).size, 2);
  t.same([...new Set(refusals(running).map(({ level }) => level))], ["warn"]);
  for (let i = 0; i < 3; i++) await ask(KEY, "BAD", "/vendors/v/files");
  t.match(await ask(OTHER, "good"), { status: 200, asked: 1, dear: 0 });
  for (let i = 0; i < 3; i++) await ask(THIRD, "BAD", "/vendors/v/files");
  t.match(await ask(THIRD, "good"), { status: 200, asked: 0, dear: 1 });
});
