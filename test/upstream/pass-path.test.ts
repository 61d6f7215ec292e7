import t from "tap";
import openaiChat from "../../plugins/protocols/openai-chat/index.ts";
import type { GatewayError } from "../../src/core/errors.ts";
import { Exchange } from "../../src/core/exchange.ts";
import type { Provider } from "../../src/core/marketplace.ts";
import type { Protocol } from "../../src/core/protocol.ts";
import { UploadTickets } from "../../src/objects/upload-tickets.ts";
import { PassPath } from "../../src/upstream/pass-path.ts";
import { HeaderList } from "../../src/wire/headers.ts";
import { Query } from "../../src/wire/query.ts";
import { credentialsOf, providerOf } from "../support/provider.ts";

const tickets = new UploadTickets("a secret of this test");

const minting: Protocol = {
  ...openaiChat,
  name: "minting",
  createsKey: (method, path) => method === "POST" && path === "/keys",
};

interface Case {
  url?: string;
  pattern?: string;
  path: string;
  method?: string;
  query?: string;
  headers?: string[];
  open?: boolean;
  mint?: boolean;
  models?: string[];
  /** Its tokens or its money are limited. */
  measured?: true;
  provider?: Partial<Provider>;
  spoken?: Protocol;
}

/** The attempt that a request on a path makes. */
function attempt({ url = "https://a.test/v1", pattern = "/v1/*", path, spoken = openaiChat, ...more }: Case) {
  const own = { name: "a", url: new URL(url), credentials: credentialsOf("a") };
  const provider = providerOf({ ...own, speaks: [spoken.name], forward: ["x-acme-*"], ...more.provider });
  const { open = false, mint = false } = more;
  const pass = new PassPath(pattern, provider, [spoken], [spoken, minting], {
    open,
    mint,
    tickets,
    unmeasuredLimit: () => (more.measured ? { kind: "key", name: "k", scope: "key:k", limits: { tpm: 1 } } : undefined),
  });
  const match = pass.match(path);
  if (!match) return undefined;
  const exchange = new Exchange({
    ...{ id: "x", time: 0, arrivedAt: 0, method: more.method ?? "GET", path, query: new Query(more.query) },
    ...{ headers: new HeaderList(more.headers), credentials: [], protocol: spoken },
    operation: {
      name: "pass",
      method: "POST",
      body: "none",
      streams: false,
      framing: "sse",
      generates: true,
      upstream: () => "",
    },
  });
  if (more.models) exchange.caller = { id: "k", name: "k", models: more.models };
  return pass.createAttempt(exchange, match.below);
}

const leads = (pattern: string, path: string, url?: string) =>
  attempt({ pattern, path, ...(url ? { url } : {}) })?.path;

t.test("a version at a pattern's start matches the provider's, any other prefix is the gateway's own", async (t) => {
  const cases: [pattern: string, path: string, url: string, upstream: string | undefined][] = [
    ["/v1/audio/*", "/v1/audio/speech", "https://a.test/v1", "/v1/audio/speech"],
    ["/v1/audio/*", "/v1/audio", "https://a.test/v1", "/v1/audio"],
    ["/v1/audio/*", "/v1/audios", "https://a.test/v1", undefined],
    ["/v1/audio/*", "/v1/audio/speech", "https://a.test/openai/v2", "/openai/v2/audio/speech"],
    ["/v1/audio/*", "/v1/audio/speech", "https://a.test", "/v1/audio/speech"],
    ["/v1/moderations", "/v1/moderations", "https://a.test/v1", "/v1/moderations"],
    ["/v1/moderations", "/v1/moderations/x", "https://a.test/v1", undefined],
    ["/v1beta/files/*", "/v1beta/files/a:b", "https://g.test/v1beta", "/v1beta/files/a:b"],
    ["/v1/*", "/v1/anything/at/all", "https://a.test/v1", "/v1/anything/at/all"],
    ["/vendors/a/*", "/vendors/a/audio/speech", "https://a.test/v1", "/v1/audio/speech"],
    ["/vendors/a/*", "/vendors/a/v1/audio/speech", "https://a.test/v1", "/v1/audio/speech"],
    ["/vendors/a/*", "/vendors/a/v1/audio/speech", "https://a.test", "/v1/audio/speech"],
    ["/vendors/a/*", "/vendors/a/v1beta/x", "https://a.test", "/v1beta/x"],
    ["/vendors/a/*", "/vendors/a/v1/models/m", "https://a.test/v1beta", "/v1beta/models/m"],
    ["/vendors/a/*", "/vendors/a/v1beta/models/m", "https://a.test/p/v1", "/p/v1/models/m"],
    ["/vendors/a/*", "/vendors/a/v1/models/m", "https://a.test/p", "/p/v1/models/m"],
    ["/vendors/a/*", "/vendors/a/v1", "https://a.test/v1beta", "/v1beta"],
    ["/vendors/a/*", "/vendors/a", "https://a.test/v1", "/v1"],
    ["/vendors/*", "/vendors/x%2Fy/%41", "https://a.test/v1", "/v1/x%2Fy/%41"],
    ["/v1x/*", "/v1x/y", "https://a.test/v1", "/v1/y"],
  ];
  t.same(
    cases.map(([pattern, path, url]) => leads(pattern, path, url)),
    cases.map(([, , , upstream]) => upstream),
  );
  t.equal(attempt({ path: "/v1/x", query: "a=%20b&c" })?.path, "/v1/x?a=%20b&c");
});

t.test("headers are sent upstream by an allow-list, without those that Connection names", async (t) => {
  const headers = ["Connection", "x-acme-one, close", "x-acme-one", "1", "x-acme-two", "2", "Range", "bytes=1-"];
  const sent = attempt({ path: "/v1/x", headers: [...headers, "x-other", "3", "Content-Encoding", "gzip"] })?.headers;
  t.same(
    [...(sent?.entries() ?? [])],
    [
      ["x-acme-two", "2"],
      ["range", "bytes=1-"],
      ["content-encoding", "gzip"],
      ["accept-encoding", "identity"],
    ],
  );
});

/** What an attempt is refused with. */
function refused(asked: Case): GatewayError | undefined {
  try {
    attempt(asked);
    return undefined;
  } catch (thrown) {
    return thrown as GatewayError;
  }
}

t.test("a key limited to some models needs an open path", async (t) => {
  const refusal = { code: "key_not_allowed", status: 403, message: /open: true/ };
  t.match(refused({ path: "/v1/x", models: ["m"] }), refusal);
  t.match(refused({ path: "/v1/x", models: [] }), refusal);
  t.ok(attempt({ path: "/v1/x", models: ["m"], open: true }));
});

t.test("a key limited in tokens or money needs an open path", async (t) => {
  const refusal = { code: "key_not_allowed", status: 403, message: /The key "k" has a limit of tokens.*open: true/s };
  t.match(refused({ path: "/v1/x", measured: true }), refusal);
  t.ok(attempt({ path: "/v1/x", measured: true, open: true }));
});

t.test("a call that creates a vendor's own key needs a path that allows it, in any spelling", async (t) => {
  const refusal = { code: "key_not_allowed", status: 403, message: /mint: true/ };
  for (const path of [
    "/v1/keys",
    "/v1/keys/",
    "/v1//keys",
    "/v1/%6Beys",
    "/v1/KEYS",
    "/v1/keys;x=1",
    "/v1/keys%3bx",
    "/v1/keys%20",
    "/v1/;x/keys",
  ])
    t.match(refused({ path, method: "POST", open: true }), refusal, path);
  t.match(refused({ path: "/all/keys", pattern: "/all/*", method: "POST" }), refusal);
  t.ok(attempt({ path: "/v1/keys", method: "GET" }));
  t.ok(attempt({ path: "/v1/keys/x", method: "POST" }));
  t.ok(attempt({ path: "/v1/keys", method: "POST", mint: true }));
});

t.test("an address at the provider's is rewritten to lead back through the path, and no other is", async (t) => {
  const back = (pattern: string, url: string, address: string) => {
    const provider = providerOf({
      name: "a",
      url: new URL(url),
      credentials: credentialsOf("a"),
      speaks: ["openai-chat"],
    });
    return new PassPath(pattern, provider, [openaiChat], [openaiChat], {
      open: false,
      mint: false,
      tickets,
    }).gatewayAddress(address, "http://g");
  };
  const cases: [pattern: string, url: string, address: string, back: string | undefined][] = [
    ["/v1/files/*", "https://a.test/v1", "https://a.test/v1/files/x?a=%20b", "http://g/v1/files/x?a=%20b"],
    ["/v1/files/*", "https://a.test", "https://a.test/v1/files/x", "http://g/v1/files/x"],
    ["/v1/files", "https://a.test/p/v2", "https://a.test/p/v2/files/x", "http://g/v1/files/x"],
    ["/v/*", "https://a.test/p/v2", "https://a.test/p/v2/files/x", "http://g/v/v2/files/x"],
    ["/v/*", "https://a.test/p", "https://a.test/p/files/x", "http://g/v/files/x"],
    ["/v/*", "https://a.test", "https://a.test/v1beta/x", "http://g/v/v1beta/x"],
    ["/v/*", "https://a.test/p/v2", "https://a.test/q/files/x", undefined],
    ["/v/*", "https://a.test/v1", "https://b.test/v1/files/x", undefined],
    ["/v/*", "https://a.test/v1", "http://a.test/v1/files/x", undefined],
    ["/v/*", "https://a.test/v1", "files/x", undefined],
  ];
  t.same(
    cases.map(([pattern, url, address]) => back(pattern, url, address)),
    cases.map((each) => each[3]),
  );
});

t.test("a path is a vendor's path for models where it begins like one that a protocol lists", async (t) => {
  const provider = providerOf({ name: "a", credentials: credentialsOf("a") });
  const path = new PassPath("/vendors/a/*", provider, [openaiChat], [openaiChat], { open: true, mint: false, tickets });
  for (const below of ["/chat/completions", "/v1/chat/completions", "/files", "/v1/Files/file-1/content", "/models"])
    t.ok(path.isModelApi(below), below);
  for (const below of ["", "/", "/v1", "/organizations/invites", "/v1/organization/files", "/organization/models"])
    t.notOk(path.isModelApi(below), below);
});
