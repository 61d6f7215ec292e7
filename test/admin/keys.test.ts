import t from "tap";
import { keyStoreUnavailable } from "../../src/store/cached-keys.ts";
import { plainEntry } from "../support/plain-entry.ts";
import { startAdmin, YAML } from "./support.ts";

t.test(
  "a key is created, shown once, changed, rotated, disabled and revoked, and each change is in the audit trail",
  async (t) => {
    const { ask, url } = await startAdmin(t);
    const body = { name: "ci", group: "acme/research", models: ["echo"], tags: { team: "search" } };
    const made = await ask("POST", "/api/keys", { body });
    t.equal(made.status, 201);
    t.match(made.body, { secret: /^gw_/, key: { name: "ci", group: "acme/research", source: "store" } });
    t.equal(made.body.key.hash, undefined);
    const { id } = made.body.key;
    const opens = async (secret: string) => {
      const response = await fetch(`${url}/v1/models`, { headers: { authorization: `Bearer ${secret}` } });
      await response.text();
      return response.status;
    };
    t.equal(await opens(made.body.secret), 200);
    t.equal((await ask("POST", "/api/keys", { body: { name: "ci" } })).status, 409);
    const limited = await ask("PATCH", `/api/keys/${id}`, { body: { rpm: 300, budget: ["$5/day"] } });
    t.match(limited.body.key, { rpm: 300, budget: ["$5/day"] });
    t.match((await ask("PATCH", `/api/keys/${id}`, { body: { rpm: null } })).body.key, {
      rpm: undefined,
      budget: ["$5/day"],
    });
    t.equal((await ask("PATCH", `/api/keys/${id}`, { body: { budget: "much" } })).status, 400);
    t.match((await ask("PATCH", `/api/keys/${id}`, { body: { models: null, owner: "ann" } })).body.key, {
      owner: "ann",
      models: undefined,
    });
    const rotated = await ask("POST", `/api/keys/${id}/rotate`, { body: { overlap: "0s" } });
    t.equal(await opens(made.body.secret), 401);
    t.equal(await opens(rotated.body.secret), 200);
    t.equal((await ask("POST", `/api/keys/${id}/disable`)).status, 200);
    t.equal(await opens(rotated.body.secret), 401);
    t.equal((await ask("POST", `/api/keys/${id}/enable`)).status, 200);
    t.equal(await opens(rotated.body.secret), 200);
    t.match((await ask("GET", "/api/keys/ci")).body.key, { id, name: "ci" });
    const { groups } = (await ask("GET", "/api/groups")).body;
    t.match(groups, [
      { group: "acme", keys: ["ci"] },
      { group: "acme/research", keys: ["ci"] },
    ]);
    t.equal((await ask("DELETE", `/api/keys/${id}`)).status, 204);
    t.equal(await opens(rotated.body.secret), 401);
    t.equal((await ask("POST", `/api/keys/${id}/rotate`)).status, 409);
    const { entries } = (await ask("GET", "/api/audit")).body;
    t.same(
      entries.map(({ action }: { action: string }) => action),
      [
        "keys.revoke",
        "keys.enable",
        "keys.disable",
        "keys.rotate",
        "keys.edit",
        "keys.edit",
        "keys.edit",
        "keys.create",
      ],
    );
    t.notMatch(JSON.stringify(entries), /gw_/);
    const page = (await ask("GET", "/api/audit?limit=4")).body;
    t.equal((await ask("GET", `/api/audit?limit=4&before=${page.next}`)).body.entries.length, 4);
  },
);

t.test(
  "keys of gateway.yaml are listed and cannot be changed here; an invalid field is named in the error",
  async (t) => {
    const { ask } = await startAdmin(t);
    t.match((await ask("GET", "/api/keys")).body.keys, [{ id: "test", source: "file" }]);
    t.notMatch(JSON.stringify((await ask("GET", "/api/keys")).body), /hash/);
    t.match((await ask("POST", "/api/keys/test/disable")).body.error, { code: "conflict", message: /gateway\.yaml/ });
    t.equal((await ask("GET", "/api/keys/none")).status, 404);
    for (const [field, body] of [
      ["name", { group: "acme" }],
      ["group", { name: "x", group: "/acme" }],
      ["addresses.0", { name: "x", addresses: ["nowhere"] }],
      ["paths.0", { name: "x", paths: ["v1"] }],
      ["overlap", { overlap: 5 }],
    ] as const) {
      const path = field === "overlap" ? "/api/keys/test/rotate" : "/api/keys";
      const { status, body: answer } = await ask("POST", path, { body });
      t.equal(status, 400);
      t.match(answer.error.message, field);
    }
  },
);

t.test("limits that no plugin would enforce are refused, and no key is created or changed", async (t) => {
  const { ask } = await startAdmin(
    t,
    `providers: { demo: { url: "demo:" }, up: { url: "http://127.0.0.1:9/v1", protocol: openai-chat } }
models: { echo: { targets: [demo:echo] }, unpriced: { targets: [up:x] } }
`,
  );
  const refused = await ask("POST", "/api/keys", { body: { name: "ci", budget: "$5/day" } });
  t.equal(refused.status, 422);
  t.match(refused.body.error.message, /a budget needs prices.*"unpriced"/);
  t.equal((await ask("GET", "/api/keys/ci")).status, 404);
  t.equal((await ask("POST", "/api/keys", { body: { name: "ci", models: ["echo"], budget: "$5/day" } })).status, 201);
  t.equal(
    (await ask("PATCH", "/api/keys/ci", { body: { models: null } })).status,
    422,
    "without models it would be for all",
  );
  t.equal((await ask("PATCH", "/api/keys/ci", { body: { models: null, budget: null } })).status, 200);
  t.equal((await ask("PATCH", "/api/keys/ci", { body: { budget: "$1" } })).status, 422);
  t.equal((await ask("PATCH", "/api/keys/ci", { body: { rpm: 5 } })).status, 200);
});

t.test(
  "of two changes that are based on the same version of a key the second is refused, and changes nothing",
  async (t) => {
    const { ask, gateway } = await startAdmin(t);
    const made = (await ask("POST", "/api/keys", { body: { name: "ci", models: ["echo"] } })).body.key;
    const change = (body: object) => ask("PATCH", "/api/keys/ci", { body });
    t.equal((await change({ models: ["echo", "slow"], version: made.version })).status, 200);
    const late = await change({ models: ["slow"], version: made.version });
    t.equal(late.status, 409);
    t.match(late.body.error, { code: "conflict", message: /ci was changed by somebody else.* Load it again/ });
    const { key } = (await ask("GET", "/api/keys/ci")).body;
    t.same(key.models, ["echo", "slow"]);
    t.equal((await change({ models: ["slow"], version: key.version })).status, 200);
    t.equal((await change({ models: ["echo"] })).status, 200, "without a version nothing is compared");
    const { keys } = gateway.stores;
    const { show } = keys;
    Object.assign(keys, {
      show: async (name: string) => {
        const before = await show.call(keys, name);
        await keys.edit(name, { limits: { concurrency: 5 } });
        return before;
      },
    });
    t.equal((await change({ rpm: 5 })).status, 409, "a limit that another request has set meanwhile is not lost");
    t.match((await show.call(keys, "ci"))?.limits, { concurrency: 5 });
  },
);

t.test("a store that fails is a 503 with the reason, not a conflict", async (t) => {
  const { ask, gateway, log } = await startAdmin(t);
  const { id } = (await ask("POST", "/api/keys", { body: { name: "ci" } })).body.key;
  const { keys } = gateway.stores;
  const fails = () => Promise.reject(new Error("database or disk is full"));
  Object.assign(keys, { create: fails, edit: fails, rotate: fails, disable: fails, revoke: fails });
  const failed = { status: 503, body: { error: { code: "unavailable", message: /database or disk is full/ } } };
  t.match(await ask("POST", "/api/keys", { body: { name: "other" } }), failed);
  t.match(await ask("PATCH", `/api/keys/${id}`, { body: { owner: "ann" } }), failed);
  t.match(await ask("POST", `/api/keys/${id}/rotate`), failed);
  t.match(await ask("POST", `/api/keys/${id}/disable`), failed);
  t.match(await ask("DELETE", `/api/keys/${id}`), failed);
  const silent = () => Promise.reject(keyStoreUnavailable(new Error("it does not answer")));
  Object.assign(keys, { list: silent, show: silent });
  t.match(await ask("GET", "/api/keys"), { status: 503, body: { error: { message: /it does not answer/ } } });
  t.match(await ask("GET", "/api/keys/ci"), { status: 503, body: { error: { message: /it does not answer/ } } });
  const told = log.lines.filter(({ level }) => level === "error").map(({ fields }) => String(fields["cause"]));
  t.equal(told.length, 7, "each is in the log, with its stack");
  t.match(told[0], /database or disk is full.*\n +at /s);
});

t.test(
  "keys of gateway.yaml have their own limits and the file's settings, but the key itself is not shown",
  async (t) => {
    const limits = "rpm: 60, tpm: off, concurrency: 2, budget: [$5/day, { amount: $8.50/month, soft: true }]";
    const { ask } = await startAdmin(
      t,
      `${YAML}keys: { ci: { key: secret-of-ci-0123456789, models: [echo], ${limits} }, bare: { key: secret-of-bare-0123456789 } }\n`,
    );
    const found = (await ask("GET", "/api/keys")).body;
    t.match(found.keys, [
      {
        ...{ name: "ci", rpm: 60, tpm: "off", concurrency: 2, budget: ["$5/day", "$8.50/month soft"] },
        written: { models: ["echo"], rpm: 60, tpm: "off", budget: ["$5/day", { amount: "$8.50/month", soft: true }] },
      },
      { name: "bare", rpm: undefined, budget: undefined },
    ]);
    t.strictSame(found.keys[1].written, {});
    t.notMatch(JSON.stringify(found), /secret-of/);
    t.match((await ask("GET", "/api/keys/ci")).body.key, { rpm: 60, tpm: "off" });
    const { key } = (await ask("POST", "/api/keys", { body: { name: "free", rpm: "off", budget: "off" } })).body;
    t.match(
      key,
      { rpm: "off", budget: ["off"], written: undefined },
      "settings that lift a limit are reported for keys of the store too",
    );
  },
);

t.test("a key that could be used for nothing is refused: of unknown models, or expired already", async (t) => {
  const { ask } = await startAdmin(t);
  const make = async (fields: object) => (await ask("POST", "/api/keys", { body: { name: "ci", ...fields } })).body;
  t.match(await make({ models: ["ecko"] }), { error: { code: "bad_request", message: /^models: .* "echo"\?$/ } });
  t.match(await make({ models: ["echo", "none-*"] }), { error: { message: "models: no model matches none-*." } });
  t.match(await make({ expires: 1_900_000_000 }), {
    error: { message: /^expires: 1970.* has passed; it takes Unix mi/ },
  });
  t.match(await make({ models: ["ec*"], expires: Date.now() + 60_000 }), { key: { models: ["ec*"] } });
});

t.test("groups are a tree with the models that gateway.yaml allows, also without members", async (t) => {
  const groups = "acme: { budget: $100/month }, acme-2: { rpm: 5 }, other/deep: { tpm: 1M }";
  const { ask } = await startAdmin(t, `${YAML}limits: { groups: { ${groups} } }\n`);
  await ask("POST", "/api/keys", { body: { name: "ci", group: "acme/research" } });
  const found = (await ask("GET", "/api/groups")).body.groups;
  t.match(found, [
    { group: "acme", keys: ["ci"], budget: ["$100/month"], written: { budget: "$100/month" } },
    { group: "acme/research", keys: ["ci"], budget: undefined },
    { group: "acme-2", keys: { length: 0 }, rpm: 5, cost: 0 },
    { group: "other", keys: { length: 0 } },
    { group: "other/deep", tpm: 1_000_000, written: { tpm: "1M" } },
  ]);
  t.strictSame([found[1].written, found[3].written], [{}, {}]);
});

t.test("the last use of a key is shown to the hour", async (t) => {
  const { ask, gateway } = await startAdmin(t);
  t.same((await ask("GET", "/api/used")).body, { keys: {} });
  const { id } = (await ask("POST", "/api/keys", { body: { name: "ci" } })).body.key;
  const hour = Date.UTC(2026, 10, 3, 7);
  gateway.stores.ledger.append(plainEntry(hour + 5, { key: id }));
  gateway.stores.ledger.append(plainEntry(hour + 9, { key: "gone" }));
  await gateway.stores.ledger.flush();
  t.same((await ask("GET", "/api/used")).body, { keys: { [id]: hour } }, "only existing keys");
});

t.test("a group is switched off and on, which the audit trail shows, and an unknown one is not found", async (t) => {
  const { ask } = await startAdmin(t);
  const { secret } = (await ask("POST", "/api/keys", { body: { name: "ci", group: "acme/research" } })).body;
  t.ok(secret);
  t.equal((await ask("POST", "/api/groups/acme%2Fresearch/disable")).status, 204);
  const found = (await ask("GET", "/api/groups")).body.groups;
  t.match(found, [{ group: "acme", disabled: undefined }, { disabled: Number }]);
  t.equal((await ask("POST", "/api/groups/acme%2Fresearch/enable")).status, 204);
  t.match((await ask("GET", "/api/groups")).body.groups, [{ group: "acme" }, { disabled: undefined }]);
  t.match(await ask("POST", "/api/groups/none/disable"), {
    status: 404,
    body: { error: { message: /no group none/ } },
  });
  const { entries } = (await ask("GET", "/api/audit")).body;
  t.match(entries, [
    { action: "groups.enable", subject: "acme/research" },
    { action: "groups.disable", subject: "acme/research" },
    { action: "keys.create" },
  ]);
});
