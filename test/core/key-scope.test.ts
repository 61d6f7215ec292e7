import t from "tap";
import { checkCaller, modelNotAllowed } from "../../src/core/key-scope.ts";

const key = { id: "k", name: "ci" };
const from = (address: string, path = "/v1/messages", method = "POST") => ({ time: 1000, address, path, method });

t.test("a key without a scope is valid from any address, on any path", async (t) => {
  t.doesNotThrow(() => checkCaller(key, from("")));
});

t.test("a key is valid only from its addresses", async (t) => {
  const scoped = { ...key, addresses: ["10.0.0.0/8", "fd00::/8"] };
  for (const address of ["10.0.0.1", "10.255.1.1", "fd12::1"])
    t.doesNotThrow(() => checkCaller(scoped, from(address)), address);
  for (const address of ["11.0.0.1", "::1", ""])
    t.throws(
      () => checkCaller(scoped, from(address)),
      { code: "key_not_allowed", status: 403, message: /"ci".*its addresses are 10\.0\.0\.0\/8, fd00::\/8\./ },
      address,
    );
  t.throws(() => checkCaller({ ...key, addresses: [] }, from("10.0.0.1")), { message: /its addresses are none/ });
});

t.test("a key is valid only on its paths", async (t) => {
  const scoped = { ...key, paths: ["/v1/chat/*", "/v1/models"] };
  for (const path of ["/v1/chat/completions", "/v1/models"])
    t.doesNotThrow(() => checkCaller(scoped, from("", path)), path);
  for (const path of ["/v1/messages", "/v1/models/x", "/v1/chat"])
    t.throws(() => checkCaller(scoped, from("", path)), { status: 403, message: /its paths are \/v1\/chat\/\*/ }, path);
});

t.test("a path may be limited to one method for a key", async (t) => {
  const scoped = { ...key, paths: ["GET /v1/files/*", "POST /v1/messages", "/v1/models"] };
  for (const [method, path] of [
    ["GET", "/v1/files/f1"],
    ["POST", "/v1/messages"],
    ["DELETE", "/v1/models"],
  ] as const)
    t.doesNotThrow(() => checkCaller(scoped, from("", path, method)), `${method} ${path}`);
  for (const [method, path] of [
    ["DELETE", "/v1/files/f1"],
    ["HEAD", "/v1/files/f1"],
    ["GET", "/v1/messages"],
    ["GET", "/v1/models/x"],
  ] as const)
    t.throws(() => checkCaller(scoped, from("", path, method)), {
      status: 403,
      message: `The key "ci" may not use ${method} on the path ${path}: its paths are GET /v1/files/*, POST /v1/messages, /v1/models.`,
    });
  t.throws(() => checkCaller({ ...key, paths: ["GET *"] }, from("", "/v1/files")));
  t.doesNotThrow(() => checkCaller({ ...key, paths: ["*"] }, from("", "/v1/files")));
});

t.test("a caller is refused from the time at which it expires", async (t) => {
  t.doesNotThrow(() => checkCaller({ ...key, expires: 1001 }, from("")));
  for (const expires of [1000, 1])
    t.throws(() => checkCaller({ ...key, expires }, from("")), {
      code: "revoked_api_key",
      message: `The key "ci" has expired, at ${new Date(expires).toISOString()}.`,
    });
});

t.test("a refusal lists what is allowed, of a long list the first entries", async (t) => {
  const models = Array.from({ length: 11 }, (_, i) => `m${i}`);
  t.match(modelNotAllowed({ ...key, models }, "x"), {
    status: 403,
    param: "model",
    message: 'The key "ci" may not use the model "x": its models are m0, m1, m2, m3, m4, m5, m6, m7 and 3 more.',
  });
});
