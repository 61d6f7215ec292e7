import t from "tap";
import { knownClients, loadClients } from "../../src/loader/clients.ts";

type Values = Record<"address" | "key" | "model", string>;
const { importLink } = (await import(new URL("../../pages/common/import-link.js", import.meta.url).href)) as {
  importLink(client: object, values: Values): string | undefined;
};

const VALUES = { address: "http://127.0.0.1:8080", key: "gw_key+/=&?", model: "acme/sage" };
const client = (id: string) => knownClients().find((each) => each.id === id) ?? {};
/** What the program reads from a parameter of its link. */
const read = (url: string | undefined, name: string) =>
  JSON.parse(Buffer.from(new URL(url ?? "").searchParams.get(name) ?? "", "base64").toString()) as unknown;

t.test("Cherry Studio gets address and key by a link, for which it needs the key", async (t) => {
  const url = importLink(client("cherry-studio"), VALUES);
  t.match(url, /^cherrystudio:\/\/providers\/api-keys\?v=1&data=[\w%]+$/);
  t.same(read(url, "data"), {
    ...{ id: "127.0.0.1-8080", name: "127.0.0.1-8080", type: "openai" },
    ...{ baseUrl: VALUES.address, apiKey: VALUES.key },
  });
  t.equal(importLink(client("cherry-studio"), { ...VALUES, key: "" }), undefined);
});

t.test("Chatbox gets address and model by a link, and the key only if it was typed", async (t) => {
  const of = (key: string) =>
    read(importLink(client("chatbox"), { ...VALUES, address: "https://gw.example", key }), "config");
  const settings = {
    apiHost: "https://gw.example",
    apiPath: "/v1/chat/completions",
    models: [{ modelId: "acme/sage" }],
  };
  const provider = { id: "gw.example", name: "gw.example", type: "openai", urls: { website: "https://gw.example" } };
  t.same(of(""), { ...provider, settings });
  t.same(of("gw_ä"), { ...provider, settings: { ...settings, apiKey: "gw_ä" } });
});

t.test("other clients have no link", async (t) => {
  t.equal(importLink(client("cursor"), VALUES), undefined);
});

t.test("a link that is no program's own is refused: the key would be sent to a website", async (t) => {
  for (const url of ["https://chat.example/?settings={{json}}", "javascript://%0a{{json}}", "app://no-settings"]) {
    const folder = t.testdir({
      "odd.yaml": `name: Odd\nkind: app\nprotocol: openai-chat\nlink: { url: "${url}", json: { a: b } }\n`,
    });
    t.throws(() => loadClients(folder), { message: /own scheme/ }, url);
  }
});
