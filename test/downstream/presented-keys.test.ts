import t from "tap";
import { presentedKey, takeKeys } from "../../src/downstream/presented-keys.ts";
import { HeaderList } from "../../src/wire/headers.ts";
import { Query } from "../../src/wire/query.ts";

t.test("a key is found in every place that clients use, and removed from it", async (t) => {
  const headers = new HeaderList([
    "Authorization",
    "bearer  k1 ",
    "X-Api-Key",
    "k2",
    "x-goog-api-key",
    "k1",
    "api-key",
    "k4",
    "Accept",
    "*/*",
  ]);
  const query = new Query("alt=sse&key=k3");
  t.same(takeKeys(headers, query), ["k1", "k2", "k4", "k3"]);
  t.same(headers.lines, ["Accept", "*/*"]);
  t.equal(query.toString(), "alt=sse");
});

t.test("cookies and credentials of other kinds are removed too, and are not used as keys", async (t) => {
  const headers = new HeaderList(["Authorization", "Basic abc", "Cookie", "a=b", "Proxy-Authorization", "Bearer p"]);
  t.same(takeKeys(headers, new Query("")), []);
  t.same(headers.lines, []);
});

t.test("query parameters that would give the provider another method, headers or body type are removed", async (t) => {
  const names = [
    "$ct",
    "$userProject",
    "userProject",
    "%24CT",
    "$httpMethod",
    "%24httpHeaders",
    "_method",
    "X-HTTP-Method-Override",
    "x_http_method",
    "httpMethod",
  ];
  const query = new Query(`alt=sse&${names.map((name) => `${name}=DELETE`).join("&")}&method_of=1`);
  takeKeys(new HeaderList([]), query);
  t.equal(query.toString(), "alt=sse&method_of=1");
});

t.test("keys under other names are removed from the query too, in any spelling; all else stays", async (t) => {
  const names = [
    "key",
    "$key",
    "api_key",
    "apiKey",
    "api-key",
    "API_KEY",
    "x-api-key",
    "access_token",
    "Auth-Token",
    "oauth_token",
    "token",
    "authorization",
  ];
  const query = new Query(
    `a=1&${names.map((name, i) => `${encodeURIComponent(name)}=secret${i}`).join("&")}&page_token=2&keys=3&tokenize=4`,
  );
  t.same(takeKeys(new HeaderList(), query), ["secret0"]);
  t.equal(query.toString(), "a=1&page_token=2&keys=3&tokenize=4");
});

t.test("callers are distinguished by the first of those headers, which stays", async (t) => {
  const headers = new HeaderList(["X-Goog-Api-Key", "k1", "api-key", "k2", "Accept", "*/*"]);
  t.equal(presentedKey(headers), "k1");
  t.equal(headers.lines.length, 6);
  t.equal(presentedKey(new HeaderList(["Accept", "*/*"])), undefined);
});
