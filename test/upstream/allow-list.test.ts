import t from "tap";
import { AllowList, completeHeaders, requestIdOf } from "../../src/upstream/allow-list.ts";
import { HeaderList, headerValues } from "../../src/wire/headers.ts";

t.test("names pass exactly or by a prefix, and no others, however often they are checked", async (t) => {
  const { allows } = new AllowList(["accept", "x-own-*"]);
  for (let round = 0; round < 2; round++)
    t.same(["accept", "x-own-a", "x-own-", "accept-language", "x-ow"].map(allows), [true, true, true, false, false]);
});

t.test("names beyond the cache are checked all the same", async (t) => {
  const { allows } = new AllowList(["kept-*"]);
  const names = Array.from({ length: 2000 }, (_, i) => (i % 2 === 0 ? `kept-${i}` : `other-${i}`));
  t.same(names.filter(allows).length, 1000);
});

t.test("a provider's id of a request is found under either name", async (t) => {
  t.equal(requestIdOf(new HeaderList(["Request-Id", "a"])), "a");
  t.equal(requestIdOf(new HeaderList(["request-id", "a", "X-Request-Id", "b"])), "b");
  t.equal(requestIdOf(new HeaderList()), undefined);
  t.equal(requestIdOf(new HeaderList(["request-id", "a".repeat(60_000)])), "a".repeat(128), "log lines stay short");
});

t.test("clients are told not to retry where that changes nothing, unless the provider has told them", async (t) => {
  const advised = (status: number, ...lines: string[]) => {
    const headers = new HeaderList(lines);
    completeHeaders(status, headers);
    return headers.get("x-should-retry");
  };
  const statuses = [200, 401, 402, 403, 404, 429, 500];
  t.same(
    statuses.filter((status) => advised(status) === "false"),
    [401, 402, 403, 404],
  );
  t.equal(advised(401, "x-should-retry", "true"), "true");
});

t.test("a 401 has a challenge, as HTTP's clients require it; a provider's own stays", async (t) => {
  const challenges = (status: number, ...lines: string[]) => {
    const headers = new HeaderList(lines);
    completeHeaders(status, headers);
    return headerValues(headers, "www-authenticate");
  };
  t.same(challenges(401), ['Bearer realm="model-gateway"']);
  t.same(challenges(401, "WWW-Authenticate", "Basic"), ["Basic"]);
  for (const status of [200, 400, 403, 404]) t.same(challenges(status), []);
});
