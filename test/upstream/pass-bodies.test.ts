import { once } from "node:events";
import { createServer, get, type IncomingMessage } from "node:http";
import type { AddressInfo } from "node:net";
import { mock } from "node:test";
import { brotliCompressSync, gzipSync } from "node:zlib";
import t, { type Test } from "tap";
import { Redactor } from "../../src/core/redactor.ts";
import { MAX_ERROR_BYTES } from "../../src/upstream/error-body.ts";
import { readErrorBody } from "../../src/upstream/pass-bodies.ts";

const SECRET = "a-credential-0123456789";
const redactor = new Redactor([SECRET]);
const proxy = {
  origin: "http://proxy.test:1",
  address: "http://proxy.test:1/",
  host: "proxy.test",
  port: 1,
  secure: false,
  authorization: "",
};
const direct = { target: new URL("http://provider.test/") };

/** What becomes of the connection behind a body. */
type End = "whole" | "cut" | "open";

/** A response as Node's client has it when its head is in, and a promise of the end of its connection. */
async function answered(t: Test, body: Buffer | string, headers: Record<string, string> = {}, end: End = "whole") {
  let left: Promise<unknown> | undefined;
  const server = createServer(({ socket }, response) => {
    left = once(socket, "close");
    response.writeHead(401, headers);
    if (end === "whole") response.end(body);
    else response.write(body, () => end === "cut" && response.destroy());
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  t.teardown(() => server.close());
  const request = get({ port: (server.address() as AddressInfo).port, host: "127.0.0.1", agent: false });
  request.on("error", () => {});
  const [answer] = (await once(request, "response")) as [IncomingMessage];
  return Object.assign(answer, { left });
}

t.test("an error is read completely, decompressed, and cleaned", async (t) => {
  const text = `{"error":"${SECRET}"}`;
  const cases: [Buffer | string, Record<string, string>][] = [
    [text, {}],
    [gzipSync(text), { "content-encoding": "gzip" }],
    [brotliCompressSync(text), { "content-encoding": "br" }],
    [text, { "content-encoding": "identity" }],
  ];
  for (const [body, headers] of cases)
    t.equal(String(await readErrorBody(await answered(t, body, headers), 401, direct, redactor)), '{"error":"***"}');
});

t.test("an unreadable body is no error of the provider's", async (t) => {
  const failing = async (code: string, ...args: [Buffer | string, Record<string, string>?, End?]) =>
    t.rejects(readErrorBody(await answered(t, ...args), 401, direct, redactor), { code }, code);
  await failing("upstream_truncated", '{"err', {}, "cut");
  await failing(
    "upstream_truncated",
    gzipSync("x".repeat(1000)).subarray(0, 12),
    { "content-encoding": "gzip" },
    "cut",
  );
  await failing("upstream_invalid", "no gzip", { "content-encoding": "gzip" });
  await failing("upstream_invalid", "x", { "content-encoding": "gzip, br" });
  await failing("upstream_refused", "x".repeat(MAX_ERROR_BYTES + 1));
  await failing("upstream_refused", Buffer.from(`{"error":"${SECRET}"}`, "utf16le"));
});

t.test("through a proxy that forwards requests itself, only JSON is taken for the provider's error", async (t) => {
  const through = { ...direct, proxy };
  const page = "<html>squid</html>";
  for (const body of [page, "", '"text"', "bad gateway"])
    await t.rejects(
      readErrorBody(await answered(t, body), 503, through, redactor),
      { code: "upstream_refused", status: 503, message: /proxy http:\/\/proxy\.test:1 in front of it, answered 503/ },
      body,
    );
  t.equal(String(await readErrorBody(await answered(t, '{"error":1}'), 503, through, redactor)), '{"error":1}');
  const tunnel = { target: new URL("https://provider.test/"), proxy };
  t.equal(
    String(await readErrorBody(await answered(t, page), 503, tunnel, redactor)),
    page,
    "a tunnel adds no content itself",
  );
});

t.test("an error that arrives slowly is aborted after ten seconds, compressed or not", async (t) => {
  for (const [begin, headers] of [
    ['{"err', {}],
    [gzipSync("x").subarray(0, 12), { "content-encoding": "gzip" }],
  ] as const) {
    const answer = await answered(t, begin, headers, "open");
    mock.timers.enable({ apis: ["setTimeout"] });
    const refused = t.rejects(readErrorBody(answer, 500, direct, redactor), {
      code: "upstream_refused",
      status: 500,
      message: /not whole 10 s later/,
    });
    mock.timers.tick(10_000);
    mock.timers.reset();
    await refused;
    await answer.left;
  }
});
