import t from "tap";
import type { AdminGateway } from "../../src/admin/admin-gateway.ts";
import { shownProviders } from "../../src/admin/providers.ts";
import type { LiveProvider } from "../../src/admin/questions.ts";
import { asking } from "../support/key.ts";
import { providerOf } from "../support/provider.ts";
import { startAdmin, TOKEN, VIEWER } from "./support.ts";

t.test(
  "the worst state that any of several processes reports is shown, and requests in flight are added up",
  async (t) => {
    const target = { model: "v", serves: ["m"], recent: { requests: 4, failed: 1 }, credentials: [] };
    const of = (target: LiveProvider["targets"][number], state: "ok" | "refused"): LiveProvider => ({
      name: "p",
      credentials: [{ label: "KEY", state }],
      targets: [target],
    });
    const answers = [
      [of({ ...target, state: "closed", in_flight: 2, first_byte: 100 }, "ok")],
      [of({ ...target, state: "open", until: 5, in_flight: 1, first_byte: 300 }, "refused")],
    ];
    const configured = [
      { ...providerOf(), websocket: false },
      { ...providerOf({ name: "q" }), websocket: false, off: "Q_KEY is not set" },
    ];
    const written = { providers: new Map([["p", { health: { failures: 3 } }]]) };
    const subject = {
      config: { providers: configured, written },
      askAll: async () => answers,
    } as unknown as AdminGateway;
    const health = {
      ...{ failures: 5, errors: "50%", requests: 20, window: "30s", slow: "off", open: "30s", longest: "30s" },
    };
    t.same(await shownProviders(subject), [
      {
        name: "p",
        url: "http://up/v1",
        speaks: [],
        health,
        written: { health: { failures: 3 } },
        credentials: [{ label: "KEY", state: "refused" }],
        targets: [
          {
            model: "v",
            serves: ["m"],
            state: "open",
            until: 5,
            in_flight: 3,
            first_byte: 200,
            recent: { requests: 8, failed: 2 },
            credentials: [],
          },
        ],
      },
      {
        name: "q",
        url: "http://up/v1",
        speaks: [],
        off: "Q_KEY is not set",
        health,
        written: {},
        credentials: [],
        targets: [],
      },
    ]);
  },
);

const DOWN = `providers:
  demo: { url: "demo:" }
  down: { url: "http://127.0.0.1:9/v1", protocol: openai-chat, health: { failures: 1 } }
  away: { url: "http://127.0.0.1:9/v1", protocol: openai-chat, credential: $AWAY }
models: { m: { targets: [down:x] }, echo: { targets: [demo:echo, demo:reasoning] } }
paths: { "/down/*": { pass: down } }
admin: { listen: 127.0.0.1:0, token: $ADMIN_TOKEN, viewer: $VIEWER_TOKEN }
`;
const as = (token: string) => ({ headers: { authorization: `Bearer ${token}` } });

/** One request. @returns status, and whether clients shall ask again */
async function call({ url }: { url: string }, model: string, path = "/v1/chat/completions") {
  const body = JSON.stringify({ model, messages: [{ role: "user", content: "hi" }] });
  const answer = await fetch(url + path, { method: "POST", headers: asking(), body });
  await answer.text();
  return [answer.status, answer.headers.get("x-should-retry")];
}

t.test("an admin can end the suspension of a target at once", async (t) => {
  const gateway = await startAdmin(t, DOWN);
  const { ask } = gateway;
  await call(gateway, "m");
  const stateOf = async () => {
    const { providers } = (await ask("GET", "/api/providers", as(TOKEN))).body;
    return providers.find(({ name }: { name: string }) => name === "down").targets[0].state;
  };
  t.equal(await stateOf(), "open");
  t.equal((await ask("POST", "/api/providers/down/try", as(VIEWER))).status, 403);
  t.equal(await stateOf(), "open");
  const asked = await ask("POST", "/api/providers/down/try", { ...as(TOKEN), body: { model: "x" } });
  t.match(asked, { status: 200, body: { provider: { name: "down", targets: [{ state: "half-open" }] } } });
  await call(gateway, "m");
  t.equal(await stateOf(), "open", "it was called, and failed");
  t.equal((await ask("POST", "/api/providers/down/try", as(TOKEN))).body.provider.targets[0].state, "half-open");
  for (const [path, body, status] of [
    ["nobody/try", {}, 404],
    ["down/off", { model: "y" }, 404],
    ["away/on", {}, 409],
    ["down/on", { models: "x" }, 400],
  ] as const)
    t.equal((await ask("POST", `/api/providers/${path}`, { ...as(TOKEN), body })).status, status, path);
  const { entries } = (await ask("GET", "/api/audit", as(TOKEN))).body;
  t.match(
    entries.map(({ who, action, subject }: Record<string, string>) => [who, action, subject]),
    [
      ["admin", "providers.try", "down"],
      ["admin", "providers.try", "down:x"],
    ],
  );
  t.equal(entries.length, 2);
});

t.test("a provider or a target is switched off and on while the gateway runs", async (t) => {
  const gateway = await startAdmin(t, DOWN);
  const { ask } = gateway;
  const turn = (name: string, word: string, model?: string) =>
    ask("POST", `/api/providers/${name}/${word}`, { ...as(TOKEN), body: { model } });
  t.match((await turn("demo", "off", "echo")).body.provider.targets, [{ state: "off", switched_off: true }, {}]);
  for (let i = 0; i < 5; i++) t.same(await call(gateway, "echo"), [200, null], "another target serves");
  t.match((await turn("demo", "off")).body.provider, { switched_off: true, targets: [{}, { state: "off" }] });
  t.same(await call(gateway, "echo"), [503, "false"]);
  await gateway.gateway.reload();
  t.same(await call(gateway, "echo"), [503, "false"], "unchanged after a reload");
  const attention = (await ask("GET", "/api/now", as(TOKEN))).body.attention;
  t.match(
    attention.filter(({ name }: { name: string }) => name.startsWith("demo")),
    [
      { kind: "provider", name: "demo", message: /switched off/ },
      { kind: "target", name: "demo:echo" },
    ],
  );
  t.notOk("switched_off" in (await turn("demo", "on")).body.provider);
  await turn("demo", "on", "echo");
  t.same(await call(gateway, "echo"), [200, null]);
  t.same(await call(gateway, "m", "/down/chat"), [502, null]);
  await turn("down", "off");
  t.same(await call(gateway, "m", "/down/chat"), [503, "false"], "pass-through requests are not sent either");
  t.same(
    (await ask("GET", "/api/audit", as(TOKEN))).body.entries.map(
      ({ action, subject }: Record<string, string>) => `${action} ${subject}`,
    ),
    [
      "providers.off down",
      "providers.on demo:echo",
      "providers.on demo",
      "reload gateway.yaml",
      "providers.off demo",
      "providers.off demo:echo",
    ],
  );
});
