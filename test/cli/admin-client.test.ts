import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import t from "tap";
import { requestAdmin } from "../../src/cli/admin-client.ts";

t.test("it sends its token, under a host name that is always accepted", async (t) => {
  const seen: unknown[] = [];
  const server = createServer(({ headers, method, url }, response) => {
    seen.push([method, url, headers.host, headers.authorization]);
    response.end("{}");
  });
  await new Promise<void>((ready) => server.listen(0, "127.0.0.1", ready));
  t.teardown(() => server.close());
  const { port } = server.address() as AddressInfo;
  t.same(await requestAdmin({ host: "0.0.0.0", port }, "token", "/api/now", "POST"), { status: 200, body: {} });
  t.same(seen, [["POST", "/api/now", "localhost", "Bearer token"]]);
});

t.test("another program that listens there is an error in words", async (t) => {
  const server = createServer((_, response) => void response.end("<!doctype html>"));
  await new Promise<void>((ready) => server.listen(0, "127.0.0.1", ready));
  t.teardown(() => server.close());
  const { port } = server.address() as AddressInfo;
  await t.rejects(requestAdmin({ host: "127.0.0.1", port }, undefined, "/api/config/diff"), {
    message: `127.0.0.1:${port} answers with what is no JSON: another program listens there`,
  });
});
