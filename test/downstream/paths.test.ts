import t from "tap";
import { Chain } from "../../src/core/chain.ts";
import type { Provider } from "../../src/core/marketplace.ts";
import type { Operation, Protocol } from "../../src/core/protocol.ts";
import { type Mount, Paths } from "../../src/downstream/paths.ts";
import { UploadTickets } from "../../src/objects/upload-tickets.ts";
import { PassPath } from "../../src/upstream/pass-path.ts";
import { HeaderList } from "../../src/wire/headers.ts";
import { Query } from "../../src/wire/query.ts";

const chain = new Chain("llm", []);
const serving = new Chain("read", [], { name: "models", plugin: {} });
const operation = (name: string): Operation => ({
  name,
  method: "POST",
  body: "json",
  streams: false,
  framing: "sse",
  generates: true,
  upstream: () => "/",
});
const plain = {
  name: "plain",
  isDefault: true,
  paths: ["/v1/talk"],
  locate: (path: string) => (path === "/v1/talk" ? { operation: operation("talk") } : undefined),
  recognises: () => false,
} as unknown as Protocol;
const open = {
  name: "open",
  paths: ["/v1beta/models/*", "/v1/models/*"],
  locate: (_path: string, rest: string) =>
    rest.endsWith(":go") ? { operation: operation("go"), model: rest.slice(0, -3) } : undefined,
  recognises: (path: string, headers: HeaderList, query?: Query) =>
    path.includes(":go") || headers.has("x-open") || query?.get("open") === "1",
} as unknown as Protocol;
const mounts: Mount[] = [
  { pattern: "/v1/talk", chain, protocol: plain },
  { pattern: "/acme/talk", chain, protocol: plain, as: "/v1/talk" },
  { pattern: "/v1/long/talk", chain, protocol: plain, as: "/v1/talk" },
  { pattern: "/v1beta/models/*", chain, protocol: open },
  { pattern: "/v1/models/*", chain, protocol: open },
  { pattern: "/v1/models", chain: serving, serve: true },
];
const paths = new Paths(mounts, [open, plain]);
const find = (method: string, path: string, headers: string[] = []) =>
  paths.find(method, path, new Query(""), new HeaderList(headers));

t.test("exact paths, open paths and served paths that share a prefix are distinguished", async (t) => {
  t.match(find("POST", "/v1/talk"), { protocol: { name: "plain" }, operation: { name: "talk" }, notice: undefined });
  t.match(find("POST", "/v1/models/acme/sage:go"), { protocol: { name: "open" }, pathModel: "acme/sage" });
  t.equal(find("GET", "/v1/models").chain, serving);
  t.equal(find("HEAD", "/v1/models/acme/sage").chain, serving);
  t.match(find("POST", "/acme/talk"), { operation: { name: "talk" } });
});

t.test("a path served by a plugin uses the client's dialect, which headers or the query show", async (t) => {
  const dialect = (query: string, headers: string[]) =>
    paths.find("GET", "/v1/models", new Query(query), new HeaderList(headers)).protocol.name;
  t.equal(dialect("", []), "plain");
  t.equal(dialect("", ["x-open", "1"]), "open");
  t.equal(dialect("open=1", []), "open");
});

t.test("a wrong base address is corrected to the intended one, with a notice", async (t) => {
  const meant: Record<string, string> = {
    "/v1/v1/talk": "/v1/talk",
    "//v1/talk": "/v1/talk",
    "/v1//talk/": "/v1/talk",
    "/talk": "/v1/talk",
    "/v1/v1beta/models/m:go": "/v1beta/models/m:go",
    "/v1beta/v1/models/m:go": "/v1/models/m:go",
    "/v1beta/v1beta/models/m:go": "/v1beta/models/m:go",
    "/vendor/v1/talk": "/v1/talk",
    "/vendor/v1/v1/talk/": "/v1/talk",
    "/v1/vendor/v1/talk": "/v1/talk",
    "/v1/talk/v1/talk": "/v1/talk",
    "/api/vendor/v1/talk": "/v1/talk",
    "/vendor/v1beta/models/m:go": "/v1beta/models/m:go",
  };
  for (const [path, right] of Object.entries(meant)) {
    const found = find("POST", path);
    t.equal(found.path, right, path);
    t.match(found.notice, `${path} read as ${right}`);
  }
});

t.test("a client of a cloud's deployments, whose query has api-version, names its model in the path", async (t) => {
  const cloud = (path: string, query = "api-version=2026-01-01", method = "POST") =>
    paths.find(method, path, new Query(query), new HeaderList());
  for (const path of ["/vendor/deployments/my%20model/talk", "/v1/vendor/deployments/my%20model/talk/"]) {
    const found = cloud(path);
    t.match(found, { path: "/v1/talk", operation: { name: "talk" }, deployment: "my model" }, path);
    t.equal(found.notice, undefined, "the address is no mistake");
    t.throws(() => find("POST", path), { code: "path_not_found" }, "other clients do not mean that");
  }
  t.strictSame([cloud("/vendor/talk").path, cloud("/vendor/talk").deployment], ["/v1/talk", undefined]);
  t.equal(cloud("/vendor/models", undefined, "GET").chain, serving);
  t.throws(() => cloud("/vendor/deployments/%/talk"), { code: "bad_target" });
  for (const own of ["/acme", "/v1/long"])
    t.throws(() => cloud(`${own}/deployments/m/talk`), { code: "path_not_found" }, "a folder of the operator's own");
  t.throws(() => cloud("/vendor/deployments/x/models/m:go"), { code: "path_not_found" }, "two models in one path");
  t.throws(() => cloud("/vendor/deployments/m/other"), { code: "path_not_found" });
  const others = new Paths(mounts, [open, plain], ["/v1/big/talk"]);
  for (const path of ["/v1/big/talk", "/big/talk"]) {
    t.equal(cloud(path).path, "/v1/talk");
    t.throws(
      () => others.find("POST", path, new Query("api-version=1"), new HeaderList()),
      { code: "path_not_found" },
      "a path that the operator has removed",
    );
  }
});

t.test(
  "for an unknown path the response names the address to configure, for a wrong method the right one",
  async (t) => {
    t.throws(() => find("POST", "/nowhere"), { code: "path_not_found", message: /base address/ });
    t.throws(() => find("GET", "/v1/files/file-1"), {
      code: "path_not_found",
      message: /passed on by whoever runs this gateway, with paths: \{ \/v1\/files\/\*: \{ pass: PROVIDER \} \}/,
    });
    t.throws(() => find("GET", "/v1/talk"), {
      code: "method_not_allowed",
      message: /Use POST/,
      allow: ["POST"],
    });
    t.throws(() => find("POST", "/V1/talk"), { code: "path_not_found" });
  },
);

t.test("a base address that contains a path is named, and so is the path that was begun", async (t) => {
  const bases = { "/v1/long/long/talk": "/v1/long", "/v1/talk/talk": "/v1/talk", "/v1/talk/models": "/v1/talk" };
  for (const [path, base] of Object.entries(bases))
    t.throws(() => find("POST", path), {
      code: "path_not_found",
      message: new RegExp(`base address seems to end in ${base}: set it to this host with /v1 `),
    });
  t.throws(() => find("POST", "/v1/long"), { message: /not served here\. Perhaps \/v1\/long\/talk is meant;/ });
  t.throws(() => find("POST", "/v1"), { message: /Set the client's base address/ });
  t.throws(() => find("POST", "/v1/threads/t-1/talk"), { message: /with paths: \{ \/v1\/threads\/\*/ });
});

t.test("the dialect is that of the clients which send such a request", async (t) => {
  t.equal(paths.dialect("/x", new HeaderList(["X-Open", "1"])).name, "open");
  t.equal(paths.dialect("/x:go", new HeaderList()).name, "open");
  t.equal(paths.dialect("/x", new HeaderList()).name, "plain");
  t.equal(paths.dialect("/x", new HeaderList(), new Query("open=1")).name, "open");
});

t.test(
  "a pass-through path for everything below a version captures neither guessed paths nor those that are off",
  async (t) => {
    const provider = {
      name: "up",
      url: new URL("http://up/v1"),
      speaks: ["plain"],
      forward: [],
    } as unknown as Provider;
    const passes = (pattern: string): Mount => ({
      pattern,
      chain,
      pass: new PassPath(pattern, provider, [plain], [plain, open], {
        open: false,
        mint: false,
        tickets: new UploadTickets(""),
      }),
    });
    const all = new Paths(
      [...mounts, passes("/v1/*"), passes("/v1/audio/*"), passes("/vendor/*")],
      [open, plain],
      ["/v1/off"],
    );
    const at = (path: string) => all.find("GET", path, new Query(""), new HeaderList());
    t.match(at("/v1/other"), { protocol: { name: "plain" }, pass: { below: "/other" } });
    const asking = all.find("GET", "/v1/other", new Query(""), new HeaderList(["x-open", "1"]));
    t.match(asking, { protocol: { name: "open" }, pass: { below: "/other" } }, "errors are in the client's dialect");
    t.match(at("/v1//other/"), { notice: /read as/ });
    t.match(
      at("/audio/speech"),
      { notice: /read as \/v1\/audio\/speech/ },
      "a narrow path is found without its version",
    );
    const vendors = all.find("POST", "/vendor/v1/talk", new Query(""), new HeaderList());
    t.match(
      vendors,
      { pass: { below: "/v1/talk" } },
      "a folder before the version belongs to a passthrough path first",
    );
    for (const path of ["/favicon.ico", "/v2/other", "/v1/off", "/other/v1/off"]) {
      t.throws(() => at(path), { code: "path_not_found" }, path);
      t.equal(all.findSocket(path, new Query("")), undefined, path);
    }
  },
);
