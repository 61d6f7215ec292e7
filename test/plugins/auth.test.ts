import { setTimeout as after } from "node:timers/promises";
import t from "tap";
import Auth from "../../plugins/auth.ts";
import { KEY, type Running, startGateway } from "../support/gateway.ts";

const YAML = `providers: { demo: { url: "demo:" } }
models: { echo: { targets: [demo:echo] } }
`;
const BODY = '{"model":"echo","max_tokens":9,"messages":[{"role":"user","content":"hi"}]}';

const ask = (running: Running, headers: Record<string, string>, path = "/v1/messages", body = BODY) =>
  fetch(running.url + path, { method: "POST", headers: { "content-type": "application/json", ...headers }, body });

t.test("one key is accepted in every protocol, in every place where clients send it", async (t) => {
  const running = await startGateway(t, YAML);
  const places: [Record<string, string>, string?][] = [
    [{ authorization: `Bearer ${KEY}` }],
    [{ "x-api-key": KEY }],
    [{ "x-goog-api-key": KEY }],
    [{}, `/v1/messages?key=${KEY}`],
    [{ authorization: `Bearer ${KEY}`, "x-api-key": KEY }],
    [{ authorization: "Bearer sk-somebody-elses-key", "x-api-key": KEY }],
  ];
  for (const [headers, path] of places)
    t.equal((await ask(running, headers, path)).status, 200, JSON.stringify(headers));
});

t.test("no key and an unknown key are a 401 that describes valid keys and says that retrying is useless", async (t) => {
  const running = await startGateway(t, YAML);
  const none = await ask(running, {});
  t.equal(none.status, 401);
  t.equal(none.headers.get("x-should-retry"), "false");
  t.match(await none.json(), { type: "error", error: { type: "authentication_error", message: /gw_/ } });
  const vendors = await ask(running, { "x-api-key": "sk-ant-api03-abc" }, "/v1/chat/completions");
  t.equal(vendors.status, 401);
  t.match(await vendors.json(), { error: { code: "invalid_api_key", message: /vendor.*gw_/ } });
  const gemini = await ask(running, { "x-goog-api-key": "gw_wrong" }, "/v1beta/models/echo:generateContent");
  t.match(await gemini.json(), { error: { code: 401, status: "UNAUTHENTICATED" } });
});

/** A request of each protocol, by its path. */
const QUESTIONS: Record<string, string> = {
  "/v1/messages": BODY,
  "/v1/messages/count_tokens": BODY,
  "/v1/chat/completions": '{"model":"echo","messages":[{"role":"user","content":"hi"}]}',
  "/v1/responses": '{"model":"echo","input":"hi"}',
  "/v1beta/models/echo:generateContent": '{"contents":[{"role":"user","parts":[{"text":"hi"}]}]}',
};

t.test("on every path a valid key is accepted beside a foreign Authorization header", async (t) => {
  const running = await startGateway(t, `${YAML}plugins: { auth: { failures: 0 } }\n`);
  const theirs = `gw_${"a".repeat(10)}_${"b".repeat(43)}_${"c".repeat(6)}`;
  for (const [path, body] of Object.entries(QUESTIONS))
    for (const authorization of [
      "Bearer sk-ant-oat01-theirs",
      `Bearer ${theirs}`,
      "Basic dTpw",
      "Bearer a b",
      "Bearer",
    ])
      for (const name of ["x-api-key", "x-goog-api-key"]) {
        const { status } = await ask(running, { authorization, [name]: KEY }, path, body);
        t.equal(status, 200, `${path} ${name} ${authorization}`);
        t.equal((await ask(running, { authorization, [name]: "sk-theirs-too" }, path, body)).status, 401);
      }
});

t.test("two different keys of the gateway are refused", async (t) => {
  const running = await startGateway(
    t,
    `${YAML}keys: { a: { key: "key-a-0123456789abcdef" }, b: { key: "key-b-0123456789abcdef" } }\n`,
  );
  for (const [path, body] of Object.entries(QUESTIONS))
    for (const name of ["x-api-key", "x-goog-api-key"]) {
      const keys = { authorization: "Bearer key-a-0123456789abcdef", [name]: "key-b-0123456789abcdef" };
      t.equal((await ask(running, keys, path, body)).status, 400, `${path} ${name}`);
    }
});

t.test("a key created at run time is accepted, until it is revoked or expires", async (t) => {
  const running = await startGateway(t, YAML);
  const { keys } = running.gateway.stores;
  const { key, record } = await keys.create({ name: "ci" });
  t.equal((await ask(running, { "x-api-key": key })).status, 200);
  await keys.revoke(record.id);
  const refused = await ask(running, { "x-api-key": key });
  t.equal(refused.status, 401);
  t.match(await refused.json(), { error: { message: 'The key "ci" was revoked. Ask the operator for a new one.' } });
  const expires = Date.now() - 1000;
  const old = await keys.create({ name: "old", expires });
  const late = await ask(running, { "x-api-key": old.key });
  t.equal(late.status, 401);
  const message = `The key "old" has expired, at ${new Date(expires).toISOString()}. Ask the operator for a new one.`;
  t.match(await late.json(), { error: { message } });
});

t.test("a refused request of a key that is expired, revoked, rotated or disabled is recorded with it", async (t) => {
  const running = await startGateway(t, YAML);
  const { keys, ledger } = running.gateway.stores;
  const made = {
    expired: await keys.create({ name: "expired", expires: Date.now() - 1000 }),
    revoked: await keys.create({ name: "revoked" }),
    rotated: await keys.create({ name: "rotated" }),
    disabled: await keys.create({ name: "disabled" }),
  };
  await keys.revoke("revoked");
  await keys.rotate("rotated", 1);
  await after(5);
  await keys.disable("disabled");
  for (const { key } of Object.values(made)) t.equal((await ask(running, { "x-api-key": key })).status, 401);
  await ledger.flush();
  for (const [name, { record }] of Object.entries(made)) {
    const rows = await ledger.recent(9);
    t.match(
      rows.filter(({ key }) => key === record.id),
      [{ status: 401 }],
      name,
    );
    const lines = running.log.lines.filter(({ fields }) => fields["key"] === record.id);
    t.match(lines, [{ message: "exchange", fields: { status: 401 } }], name);
  }
});

t.test("a secret replaced by a rotation is refused as such, not as an expired key", async (t) => {
  const running = await startGateway(t, YAML);
  const { keys } = running.gateway.stores;
  const { key } = await keys.create({ name: "ci" });
  const rotated = await keys.rotate("ci", 1);
  const until = new Date(rotated?.record.rotating ?? 0).toISOString();
  await after(5);
  const refused = await ask(running, { "x-api-key": key });
  t.equal(refused.status, 401);
  const message = `This secret of the key "ci" was replaced by a rotation, and has not worked since ${until}.`;
  t.ok(((await refused.json()) as { error: { message: string } }).error.message.startsWith(message));
  const next = rotated?.key ?? "";
  t.equal((await ask(running, { "x-api-key": next })).status, 200);
  t.equal(
    (await ask(running, { authorization: `Bearer ${key}`, "x-api-key": next })).status,
    200,
    "beside the new one",
  );
  t.equal(
    (await ask(running, { authorization: `Bearer ${next}`, "x-api-key": key })).status,
    200,
    "behind the new one",
  );
});

t.test("a key with models lists and uses only these", async (t) => {
  const running = await startGateway(
    t,
    `${YAML.replace("models: {", "models: { other: { targets: [demo:echo] },")}keys: { ci: { key: ${KEY}, models: [other] } }\n`,
  );
  const refused = await ask(running, { "x-api-key": KEY });
  t.equal(refused.status, 403);
  t.match(await refused.json(), {
    type: "error",
    error: { type: "permission_error", message: /"ci" may not use the model "echo": its models are other\./ },
  });
  const unknown = await ask(running, { "x-api-key": KEY }, undefined, BODY.replace("echo", "nobody"));
  t.equal(unknown.status, 404, "an unknown name is distinguished from a forbidden one");
  t.equal((await ask(running, { "x-api-key": KEY }, undefined, BODY.replace("echo", "other"))).status, 200);
});

t.test(
  "a key is used on its paths, from its addresses, with models of its patterns; otherwise a 403 lists what it allows",
  async (t) => {
    const running = await startGateway(
      t,
      `trust: [127.0.0.1]
providers: { demo: { url: "demo:" } }
models: { echo: { targets: [demo:echo] }, echo-2: { targets: [demo:echo] }, other: { targets: [demo:echo] } }
keys:
  ci:
    key: ${KEY}
    models: [echo*]
    paths: [/v1/chat/*, /v1/models, /v1beta/models/echo:generateContent]
    addresses: [10.0.0.0/8, "2001:db8::/32"]
`,
    );
    const from = (address: string, path: string, body?: string) =>
      fetch(running.url + path, {
        method: body === undefined ? "GET" : "POST",
        headers: { "x-forwarded-for": address, "x-api-key": KEY, "content-type": "application/json" },
        ...(body === undefined ? {} : { body }),
      });
    const chat = (model: string) => BODY.replace("echo", model);
    for (const address of ["10.1.2.3", "2001:db8::7", "::ffff:10.9.9.9"])
      t.equal((await from(address, "/v1/chat/completions", chat("echo-2"))).status, 200, address);
    const listed = (await (await from("10.1.2.3", "/v1/models")).json()) as { data: { id: string }[] };
    t.same(
      listed.data.map(({ id }) => id),
      ["echo", "echo-2"],
      "lists contain the models it may use",
    );
    const cases: [string, string, string, object][] = [
      [
        "11.0.0.1",
        "/v1/chat/completions",
        chat("echo"),
        { error: { message: /from 11\.0\.0\.1: its addresses are 10\.0/ } },
      ],
      [
        "10.1.2.3",
        "/v1/messages",
        chat("echo"),
        {
          type: "error",
          error: { type: "permission_error", message: /path \/v1\/messages: its paths are \/v1\/chat/ },
        },
      ],
      [
        "10.1.2.3",
        "/v1/chat/completions",
        chat("other"),
        { error: { param: "model", code: "key_not_allowed", message: /"other": its models are echo\*/ } },
      ],
      [
        "10.1.2.3",
        "/v1beta/models/echo-2:generateContent",
        "{}",
        { error: { code: 403, status: "PERMISSION_DENIED" } },
      ],
    ];
    for (const [address, path, body, told] of cases) {
      const refused = await from(address, path, body);
      t.equal(refused.status, 403, path);
      t.equal(refused.headers.get("x-should-retry"), "false");
      t.match(await refused.json(), told);
    }
  },
);

t.test("a disabled key is refused as disabled, and works again once it is enabled", async (t) => {
  const running = await startGateway(t, YAML);
  const { keys } = running.gateway.stores;
  const { key } = await keys.create({ name: "ci" });
  await keys.disable("ci");
  const refused = await ask(running, { "x-api-key": key });
  t.equal(refused.status, 401);
  t.match(await refused.json(), {
    error: { message: /^The key "ci" is switched off at the moment\. Ask the operator/ },
  });
  await keys.enable("ci");
  t.equal((await ask(running, { "x-api-key": key })).status, 200);
});

t.test(
  "keys of a disabled group are refused with its name, those of gateway.yaml too, until it is enabled",
  async (t) => {
    const named = "a-key-of-the-operators-own-choice";
    const running = await startGateway(t, `${YAML}keys: { theirs: { key: ${named}, group: acme/research } }\n`);
    const { keys } = running.gateway.stores;
    const { key } = await keys.create({ name: "one", group: "acme" });
    const ungrouped = await keys.create({ name: "two" });
    await keys.disableGroup("acme");
    for (const [secret, name] of [
      [named, "theirs"],
      [key, "one"],
    ] as const) {
      const refused = await ask(running, { "x-api-key": secret });
      t.equal(refused.status, 401);
      t.match(await refused.json(), { error: { message: `The group "acme", to which the key "${name}" belongs, is` } });
    }
    t.equal((await ask(running, { "x-api-key": ungrouped.key })).status, 200);
    await keys.enableGroup("acme");
    for (const secret of [named, key]) t.equal((await ask(running, { "x-api-key": secret })).status, 200);
  },
);

t.test("with `anonymous: true` a request without a key passes, one with a wrong key does not", async (t) => {
  const running = await startGateway(t, `${YAML}plugins: { auth: { anonymous: true } }\n`);
  t.equal((await ask(running, {})).status, 200);
  t.equal((await ask(running, { "x-api-key": "gw_wrong" })).status, 401);
});

t.test("a key is never in a log line or an error", async (t) => {
  const running = await startGateway(t, YAML);
  const canary = "gw_canary_0123456789abcdef";
  for (const path of [
    `/v1/messages?key=${canary}`,
    `/v1/nowhere?key=${canary}`,
    `/v1/messages?key=${canary}&key=${canary}2`,
    `/v1/../x?key=${canary}`,
  ]) {
    const answer = await ask(running, { "x-api-key": canary, authorization: `Bearer ${canary}` }, path);
    t.notMatch(await answer.text(), /canary/, path);
    t.ok(answer.status >= 400);
  }
  t.notMatch(JSON.stringify(running.log.lines), /canary/);
});

t.test(
  "an address that tries keys must wait; a valid key is accepted, and a missing one does not count as an attempt",
  async (t) => {
    const running = await startGateway(t, `trust: [127.0.0.1]\n${YAML}plugins: { auth: { failures: 20 } }\n`);
    const from = (address: string, headers: Record<string, string>) =>
      ask(running, { "x-forwarded-for": address, ...headers });
    for (let i = 0; i < 40; i++) t.equal((await from("2001:db8::1", {})).status, 401);
    const statuses: number[] = [];
    // Another address of the same customer's each time.
    for (let i = 0; i < 22; i++)
      statuses.push((await from(`2001:db8::${i}`, { "x-api-key": `guess-${i}-0123456789` })).status);
    t.same(statuses, [...Array<number>(20).fill(401), 429, 429]);
    const refused = await from("2001:db8::1", { "x-api-key": "guess-0123456789abcdef" });
    t.match(await refused.json(), { type: "error", error: { type: "rate_limit_error", message: /wrong keys/ } });
    const wait = Number(refused.headers.get("retry-after"));
    t.ok(wait > 0 && wait <= 60, `${wait} s`);
    t.equal(refused.headers.get("x-should-retry"), "false");
    t.equal((await from("2001:db8::1", { "x-api-key": KEY })).status, 200, "a right key");
    t.equal((await from("2001:db8::1", {})).status, 401, "none");
    t.equal((await from("2001:db8:0:1::1", { "x-api-key": "guess-0123456789abcdef" })).status, 401, "another network");
  },
);

t.test("a caller that an earlier plugin has set is refused while its group is disabled", async (t) => {
  const { gateway } = await startGateway(t, YAML);
  const { keys } = gateway.stores;
  const auth = new Auth(keys, { anonymous: false, failures: 20 });
  const access = async (group: string) =>
    auth.access({ caller: { id: "u", name: "u", group }, credentials: [] } as never);
  await keys.disableGroup("acme");
  await t.rejects(access("acme/research"), /The group "acme".*switched off/);
  await access("other");
});

t.test("an upload continues as the key that began it, and not as another one that is named like its id", async (t) => {
  const { gateway } = await startGateway(t, YAML);
  const { keys } = gateway.stores;
  const auth = new Auth(keys, { anonymous: false, failures: 20 });
  const { record } = await keys.create({ name: "an-id" });
  const exchange = (uploader: string) => ({ uploader, credentials: [], time: Date.now(), caller: undefined });
  const own = exchange(record.id);
  await auth.access(own as never);
  t.match(own.caller, { id: record.id });
  await t.rejects(async () => auth.access(exchange("an-id") as never), { message: /key/ });
});
