import t from "tap";
import { attentionOf } from "../../src/admin/now.ts";
import type { AdminSubject } from "../../src/admin/served.ts";
import { asking } from "../support/gateway.ts";
import { startAdmin } from "./support.ts";

t.test("a budget that is nearly spent, a ledger that waits and a failed reload need somebody", async (t) => {
  const yaml = `providers: { demo: { url: "demo:" } }
models: { echo: { targets: [demo:echo], price: { input: 1000, output: 1000 }, output: 100, context: 1k } }
limits: { groups: { acme: { budget: { amount: $0.001, soft: true } } } }
keys: { test: { key: test-key-0123456789abcdef, group: acme } }
`;
  const { gateway, url } = await startAdmin(t, yaml);
  t.same(await attentionOf(gateway), []);
  const body = '{"model":"echo","max_tokens":5,"messages":[{"role":"user","content":"hi"}]}';
  const response = await fetch(`${url}/v1/chat/completions`, { method: "POST", headers: asking(), body });
  await response.text();
  t.match(await attentionOf(gateway), [
    { kind: "budget", name: "group acme", message: /% of its budget \(total, soft\)/ },
  ]);
  const waiting = {
    config: gateway.config,
    stores: gateway.stores,
    reloads: { last: { time: 1, problem: "gateway.yaml:1:1 it is broken" } },
    readiness: () => ({ ready: true, parts: { store: "waiting" } }),
    askAll: gateway.askAll.bind(gateway),
  } as unknown as AdminSubject;
  t.match(
    (await attentionOf(waiting)).map(({ kind }) => kind),
    ["reload", "ledger", "budget"],
  );
});
