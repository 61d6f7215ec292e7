import t from "tap";
import { Attempt } from "../../src/core/attempt.ts";
import { Body } from "../../src/core/body.ts";
import type { Exchange } from "../../src/core/exchange.ts";
import type { Provider } from "../../src/core/marketplace.ts";
import { addCredential, upstreamPath } from "../../src/upstream/address.ts";
import { HeaderList } from "../../src/wire/headers.ts";
import { Query } from "../../src/wire/query.ts";
import { credentialsOf, providerOf } from "../support/provider.ts";
import { COUNT, other, SAY, tiny } from "../support/tiny.ts";

const exchange = { operation: SAY, query: new Query("a=1") } as unknown as Exchange;

function attempt(url: string, provider: Partial<Provider> = {}): Attempt {
  const account = providerOf({ name: "up", url: new URL(url), ...provider });
  const made = new Attempt({
    target: { provider: account, model: "m", weight: 1 },
    protocol: { ...tiny, versionSegment: "/v9", credential: (secret) => ["x-key", secret] },
    method: "POST",
    headers: new HeaderList(["x-key", "the client's"]),
    body: Body.empty,
    startedAt: 0,
  });
  made.credential = account.credentials[0];
  return made;
}

t.test("a bare origin gets the protocol's segment, an address with a path keeps its own", async (t) => {
  t.equal(upstreamPath(exchange, attempt("http://up")), "/v9/say?a=1");
  t.equal(upstreamPath(exchange, attempt("http://up/deep/v2")), "/deep/v2/say?a=1");
});

t.test("the translation's path, and a plugin's, take precedence", async (t) => {
  const translated = Object.assign(attempt("http://up/v1"), { operation: COUNT, query: "" });
  t.equal(upstreamPath(exchange, translated), "/v1/count");
  t.equal(upstreamPath(exchange, Object.assign(translated, { query: "b=2" })), "/v1/count?b=2");
  t.equal(upstreamPath(exchange, Object.assign(translated, { path: "/elsewhere" })), "/elsewhere");
});

t.test("our credential replaces whatever is there, in the configured header", async (t) => {
  const own = attempt("http://up", { credentials: credentialsOf("ours") });
  addCredential(own);
  t.same(own.headers.lines, ["x-key", "secret of ours"]);
  const named = attempt("http://up", { credentials: credentialsOf("ours"), header: "x-other" });
  addCredential(named);
  t.equal(named.headers.get("x-other"), "secret of ours");
  const open = attempt("http://up");
  addCredential(open);
  t.same(open.headers.lines, ["x-key", "the client's"]);
});

t.test("the credential is sent as the protocol spoken upstream requires it", async (t) => {
  const translated = attempt("http://up", { credentials: credentialsOf("ours") });
  translated.protocol = { ...other, credential: (secret) => ["authorization", secret] };
  addCredential(translated);
  t.equal(translated.headers.get("authorization"), "secret of ours");
});
