import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import t from "tap";
import { fillPlaceholders, knownClients, loadClients } from "../../src/loader/clients.ts";
import { loadProtocols } from "../../src/loader/discover.ts";
import { PluginError } from "../../src/loader/problems.ts";

const VALUES = { address: "https://gateway.example", key: "gw_key", model: "acme/sage" };

/** Every text of a client. */
const textsOf = (client: ReturnType<typeof loadClients>[number]): string[] => [
  ...client.arguments,
  ...Object.values(client.env),
  ...client.files.map(({ text }) => text),
  ...client.snippets.map(({ text }) => text),
];

t.test("every client uses an existing protocol, and is configured with address, key and model", async (t) => {
  const protocols = new Set((await loadProtocols()).map(({ name }) => name));
  const clients = loadClients();
  t.ok(clients.length > 10);
  for (const client of clients) {
    t.ok(protocols.has(client.protocol), `${client.id} speaks ${client.protocol}`);
    const all = textsOf(client).join("\n");
    for (const name of ["address", "key"])
      t.ok(all.includes(`{{${name}}}`), `${client.id} is configured with the ${name}`);
    const whole = fillPlaceholders(all, VALUES);
    t.notMatch(whole, /\{\{(?!\s)[a-z]+\}\}/, `${client.id}: no placeholder is left`);
    t.ok(whole.includes(VALUES.address) && whole.includes(VALUES.key));
    t.equal(client.command !== undefined, client.kind === "agent", `${client.id}: agents have a command`);
  }
});

t.test("settings in JSON stay valid JSON with any model's name in them", async (t) => {
  for (const client of loadClients()) {
    for (const { language, text } of client.files)
      if (language === "json") t.doesNotThrow(() => JSON.parse(fillPlaceholders(text, VALUES)), client.id);
    for (const value of Object.values(client.env))
      if (value.startsWith('{"')) t.doesNotThrow(() => JSON.parse(fillPlaceholders(value, VALUES)), client.id);
  }
});

t.test("the vendors' own SDKs have code for Java and Go too, that of the common protocol for Rust", async (t) => {
  const languages = new Map(loadClients().map(({ id, snippets }) => [id, snippets.map(({ language }) => language)]));
  const all = ["python", "typescript", "java", "go"];
  for (const id of ["anthropic-sdk", "gemini-sdk"]) t.same(languages.get(id), all, id);
  for (const id of ["openai-sdk", "openai-sdk-responses", "openai-sdk-embeddings"])
    t.same(languages.get(id), [...all, "rust"], id);
});

t.test("chat apps get the address with or without its version, as each of them expects it", async (t) => {
  const addresses = { "open-webui": "/v1", "lobe-chat": "/v1", "cherry-studio": "", chatbox: "", "next-chat": "" };
  const clients = new Map(loadClients().map((client) => [client.id, client]));
  for (const [id, suffix] of Object.entries(addresses)) {
    const client = clients.get(id);
    const told = client ? textsOf(client).map((text) => fillPlaceholders(text, VALUES)) : [];
    t.match(told.join("\n"), new RegExp(`https://gateway\\.example${suffix}$`, "m"), id);
  }
});

t.test("clients come in the configured order", async (t) => {
  const orders = loadClients().map(({ order }) => order);
  t.same(
    orders,
    orders.toSorted((a, b) => a - b),
  );
});

t.test("an invalid file is named with its error", async (t) => {
  const folder = mkdtempSync(join(tmpdir(), "clients-"));
  t.teardown(() => rmSync(folder, { recursive: true }));
  writeFileSync(join(folder, "odd.yaml"), "name: Odd\nkind: toy\nprotocol: acme\n");
  t.throws(() => loadClients(folder), { constructor: PluginError, message: /odd\.yaml.*kind/s });
});

t.test("the bundled ones are read once, however often a configuration is", async (t) => {
  t.equal(knownClients(), knownClients());
  t.same(knownClients(), loadClients());
});
