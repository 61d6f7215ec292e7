import t from "tap";
import { credentials } from "../../src/downstream/credentials.ts";
import { HeaderList } from "../../src/wire/headers.ts";
import { Query } from "../../src/wire/query.ts";

t.test("a key is found in every place that clients use, and taken out of it", async (t) => {
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
  t.same(credentials(headers, query), ["k1", "k2", "k4", "k3"]);
  t.same(headers.lines, ["Accept", "*/*"]);
  t.equal(query.toString(), "alt=sse");
});

t.test("cookies and credentials of another kind go too, and are no keys", async (t) => {
  const headers = new HeaderList(["Authorization", "Basic abc", "Cookie", "a=b", "Proxy-Authorization", "Bearer p"]);
  t.same(credentials(headers, new Query("")), []);
  t.same(headers.lines, []);
});
