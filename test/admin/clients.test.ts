import t from "tap";
import { startAdmin, YAML } from "./support.ts";

t.test("settings for clients are returned for a new key, with the way to reach each model", async (t) => {
  const { ask } = await startAdmin(t, YAML);
  const { listen, clients } = (await ask("GET", "/api/clients")).body;
  t.match(listen, { host: "127.0.0.1", port: 0 });
  t.ok(
    clients.some(({ id, protocol }: Record<string, string>) => id === "claude" && protocol === "anthropic-messages"),
  );
  const { models } = (await ask("GET", "/api/models")).body;
  t.match(models[0], { id: "echo", protocols: { "openai-chat": "native" }, written: { targets: ["demo:echo"] } });
});
