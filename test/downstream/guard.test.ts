import type { IncomingMessage } from "node:http";
import t from "tap";
import { guard as check, containsKey } from "../../src/downstream/guard.ts";
import { HeaderList } from "../../src/wire/headers.ts";

/** A request as node's parser hands it over. */
function request(
  url: string,
  lines: string[] = ["Host", "gw.test"],
  method = "POST",
  httpVersion = "1.1",
): IncomingMessage {
  return { url, method, httpVersion, rawHeaders: lines } as IncomingMessage;
}

const LIMITS = { headers: 100, size: 16_384, target: 8192 };
const guard = (message: IncomingMessage, limits = LIMITS): void =>
  check(message, new HeaderList(message.rawHeaders), limits);

t.test("an ordinary request passes", async (t) => {
  guard(request("/v1/chat/completions", ["Host", "gw.test:8080", "Content-Length", "2", "Expect", "100-Continue"]));
  guard(request("/v1beta/models/a%2Fb%3Ax:generateContent?x=%ff?y", ["Host", "[::1]:80"]));
  guard(request("/v1/models", [], "GET", "1.0"));
  t.pass();
});

t.test("headers that two servers could parse differently are refused", async (t) => {
  const refused: [string, string[]][] = [
    ["two hosts", ["Host", "a", "host", "a"]],
    ["two keys", ["Host", "a", "x-api-key", "1", "X-Api-Key", "2"]],
    ["two lengths", ["Host", "a", "Content-Length", "2", "Content-Length", "2"]],
    ["a host with a path", ["Host", "a/b"]],
    ["a host with a fragment", ["Host", "localhost/#@evil"]],
    ["a host with a user", ["Host", "a@evil"]],
    ["a port that is text", ["Host", "a:xyz"]],
    ["no host", ["X", "y"]],
    ["an odd coding", ["Host", "a", "Transfer-Encoding", "gzip, chunked"]],
    ["coding and length", ["Host", "a", "Transfer-Encoding", "chunked", "Content-Length", "2"]],
    ["a signed length", ["Host", "a", "Content-Length", "+2"]],
    ["an odd expectation", ["Host", "a", "Expect", "y 100-continue"]],
  ];
  for (const [name, lines] of refused)
    t.throws(() => guard(request("/v1/x", lines)), { code: "bad_request", status: 400 }, name);
  t.throws(() => guard(request("/v1/x", ["Host", "a", "Transfer-Encoding", "chunked"], "POST", "1.0")), {
    code: "bad_request",
  });
  t.throws(() => guard(request("/v1/x", Array.from({ length: 101 }, (_, i) => [`a${i}`, ""]).flat())), {
    code: "headers_too_large",
  });
});

t.test("an unknown method is checked after ambiguous framing, which ends the connection", async (t) => {
  const doubtful = ["Host", "a", "Transfer-Encoding", "gzip, chunked"];
  t.throws(() => guard(request("/v1/x", doubtful, "TRACE")), { code: "bad_request" });
  t.throws(() => guard(request("/v1/x", ["Host", "a"], "TRACE")), { code: "method_not_allowed" });
});

t.test("request targets that could be ambiguous are refused, not normalised", async (t) => {
  const targets = [
    "http://169.254.0.1/latest",
    "*",
    "evil.test:80",
    "/v1/../admin",
    "/v1/%2e%2e/admin",
    "/v1/.%2E/admin",
    "/v1/./models",
    "/v1/audio/..;/x",
    "/v1/audio/%2e%2e%3bx=1/x",
    "/v1/audio/.;x",
    "/v1/audio/..%20/chat",
    "/v1/audio/%20..%20;x/chat",
    "/v1/audio/..%3fx",
    "/v1/audio/%2e.%23x",
    "/v1/audio%2f.%2E%20",
    "/v1/files/%2e%2e%2fmodels",
    "/a\\..\\b",
    "/v1/%5cadmin",
    "/v1/a%00b",
    "/v1/a%0d%0aX",
    "/v1/%252e",
    "/v1/a%zz",
    "/v1/a#b",
    "/v1/ÿ",
    "/v1/a b",
  ];
  for (const target of targets) t.throws(() => guard(request(target)), { code: "bad_target", status: 400 }, target);
  for (const target of ["/v1/a..b", "/v1/...", "/v1/a%20.%20b", "/v1/.well-known/%3f"]) guard(request(target));
  t.throws(() => guard(request(`/${"a".repeat(8192)}`)), { code: "target_too_long" });
});

t.test("a key in a path is refused, in any encoding; words are no keys", async (t) => {
  const key = `gw_${"a1".repeat(20)}`;
  for (const path of [`/v1/x;key=${key}`, `/v1/${key}/x`, `/v1/%67w_${"a".repeat(40)}`])
    t.throws(() => guard(request(path)), { code: "misplaced_key", status: 400 }, path);
  guard(request(`/v1/x?key=${key}`));
  guard(request("/v1/gw_models/x"));
  t.ok(containsKey("/v1/my%2Dkey-0123456789", ["my-key-0123456789"]));
  t.notOk(containsKey("/v1/models", ["v1", "another-key-0123456789"]));
});

t.test("methods that address a proxy are refused", async (t) => {
  for (const method of ["TRACE", "CONNECT", "PROPFIND"])
    t.throws(() => guard(request("/v1/x", ["Host", "a"], method)), { code: "method_not_allowed" }, method);
});

t.test("more header lines or a longer target than the limits allow are refused with these limits", (t) => {
  const limits = { headers: 3, size: 4096, target: 200 };
  const lines = (count: number) => ["Host", "a", ...Array.from({ length: count - 1 }, (_, i) => [`x${i}`, ""]).flat()];
  guard(request(`/${"a".repeat(199)}`, lines(3)), limits);
  t.throws(() => guard(request("/v1/x", lines(4)), limits), {
    code: "headers_too_large",
    message: /At most 3 header lines and 4096 bytes/,
  });
  t.throws(() => guard(request(`/${"a".repeat(200)}`), limits), {
    code: "target_too_long",
    message: /At most 200 bytes/,
  });
  t.end();
});
