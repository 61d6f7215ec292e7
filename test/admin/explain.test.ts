import { writeFileSync } from "node:fs";
import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import t from "tap";
import { startAdmin, TOKEN, VIEWER, WITH_TOKENS } from "./support.ts";

t.test("what would happen to a request is explained, and no provider is called and nothing is recorded", async (t) => {
  const { ask, gateway } = await startAdmin(t);
  const { status, body } = await ask("POST", "/api/explain", {
    body: { path: "/v1/messages", model: "echo", key: "test" },
  });
  t.equal(status, 200);
  t.match(body, {
    protocol: "anthropic-messages",
    model: { id: "echo" },
    caller: { name: "test" },
    targets: [{ target: "demo:echo" }],
    key: "test",
  });
  t.same(await gateway.stores.ledger.recent(1), []);
});

t.test("neither the key nor the body of a request to explain is on a command line", async (t) => {
  const { ask } = await startAdmin(t);
  const commandLines = async () => {
    const all = (await readdir("/proc")).filter((name) => /^\d+$/.test(name));
    return Promise.all(all.map((pid) => readFile(`/proc/${pid}/cmdline`, "utf8").catch(() => "")));
  };
  const seen = new Set<string>();
  let done = false;
  const request = { path: "/v1/messages?key=in-the-query-53", key: "unknown-key-52", body: '{"model":"prompt-51"}' };
  const asking = ask("POST", "/api/explain", { body: request }).finally(() => (done = true));
  while (!done) for (const line of await commandLines()) seen.add(line);
  t.match((await asking).body.error.message, /no key "unknown-key-52"/);
  t.ok(
    [...seen].some((line) => line.includes("arguments-from-stdin")),
    "its process was seen",
  );
  t.notMatch([...seen].join("\n"), /in-the-query-53|unknown-key-52|prompt-51/);
});

t.test("a provider's credential is not shown, also where a plugin has repeated it", async (t) => {
  const twice = `export default class Twice {
  send(_exchange, { headers, credential: { secret } }) { headers.set("x-keys", secret + ", " + secret); }
}`;
  const yaml = `providers: { own: { url: "http://127.0.0.1:9/v1", credential: provider-secret-1234, protocol: openai-chat } }
models: { fast: { targets: [own:small] } }
chains: { llm: [sse, auth, models, rewrite, twice, usage] }
plugins: { twice: { from: ./twice.mjs } }
`;
  const { ask } = await startAdmin(t, yaml, {}, { "twice.mjs": twice });
  const { body } = await ask("POST", "/api/explain", { body: { path: "/v1/chat/completions", model: "fast" } });
  t.match(JSON.stringify(body), '["x-keys","…, …"]');
  t.notMatch(JSON.stringify(body), "provider-secret-1234");
});

t.test("a request that would be refused is explained too; one that cannot be explained has the reason", async (t) => {
  const { ask } = await startAdmin(t);
  const refused = await ask("POST", "/api/explain", { body: { path: "/v1/messages", model: "nothing" } });
  t.equal(refused.status, 200);
  t.match(refused.body, { refused: { status: 404, code: "model_not_found" } });
  const unknown = await ask("POST", "/api/explain", { body: { path: "/v1/messages", key: "nobody" } });
  t.equal(unknown.status, 422);
  t.match(unknown.body.error.message, /no key "nobody"/);
});

t.test("a gateway.yaml that has become invalid is reported with the positions of its mistakes", async (t) => {
  const { ask, folder } = await startAdmin(t);
  writeFileSync(join(folder, "gateway.yaml"), "provders: {}\n");
  const { status, body } = await ask("POST", "/api/explain", { body: { path: "/v1/messages" } });
  t.equal(status, 422);
  t.match(body.error, { code: "refused", message: /gateway\.yaml:1:1 error: /, problems: [{ line: 1, column: 1 }] });
});

t.test("only the accepted members reach the verb", async (t) => {
  const { ask } = await startAdmin(t);
  for (const body of [
    {},
    { path: "--help" },
    { path: "v1" },
    { path: "/v1", config: "/etc/passwd" },
    { path: "/v1", key: 5 },
  ])
    t.equal((await ask("POST", "/api/explain", { body })).status, 400, JSON.stringify(body));
  const option = await ask("POST", "/api/explain", { body: { path: "/v1/messages", body: "@/etc/hostname" } });
  t.equal(option.status, 400, "no file of this machine is read");
});

t.test("a read-only request starts no process", async (t) => {
  // The process that explains reads the file with the variables that this one has.
  Object.assign(process.env, { ADMIN_TOKEN: TOKEN, VIEWER_TOKEN: VIEWER });
  const { ask } = await startAdmin(t, WITH_TOKENS);
  const as = (token: string) => ({ headers: { authorization: `Bearer ${token}` }, body: { path: "/v1/messages" } });
  t.equal((await ask("POST", "/api/explain", as(VIEWER))).status, 403);
  t.equal((await ask("POST", "/api/explain", as(TOKEN))).status, 200);
});
