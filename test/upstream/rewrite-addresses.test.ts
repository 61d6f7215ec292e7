import t from "tap";
import { rewriteAddresses } from "../../src/upstream/rewrite-addresses.ts";
import { KEY, startGateway } from "../support/gateway.ts";
import { httpUpstream } from "../support/upstream.ts";

t.test("only addresses that lead back are changed, at the top and in the entries of data", async (t) => {
  const back = (address: string) =>
    address.startsWith("https://v/") ? address.replace("https://v", "http://g") : undefined;
  const told = (body: string) => rewriteAddresses(Buffer.from(body), ["u", "w"], back).toString();
  for (const [body, expected] of [
    ['{ "u" : "https:\\/\\/v/é" ,"n":1.0e2}', '{ "u" : "http://g/é" ,"n":1.0e2}'],
    [
      '{"data":[{"u":null},{"u":"https://v/1","w":"https://v/2"},7]}',
      '{"data":[{"u":null},{"u":"http://g/1","w":"http://g/2"},7]}',
    ],
    ['{"x":{"u":"https://v/1"},"u":"https://other/1"}', undefined],
    ['[{"u":"https://v/1"}]', undefined],
    ['{"u":"https://v/1"', undefined],
    ["", undefined],
  ] as const)
    t.equal(told(body), expected ?? body);
});

t.test("results of a batch are fetched through the gateway", async (t) => {
  let origin = "";
  const batch = (id: string, done = true) =>
    `{"id":"${id}", "results_url": ${done ? `"${origin}/v1/messages/batches/${id}/results"` : null},"n":1.0}`;
  const upstream = await httpUpstream(({ method = "", url = "" }, reply) => {
    if (url.endsWith("/results"))
      return void reply.setHeader("content-type", "application/x-jsonl").end(`{"results_url":"${origin}/v1/x"}\n`);
    if (url.endsWith("/file")) return void reply.setHeader("content-type", "application/json").end(batch("file"));
    reply.setHeader("content-type", "application/json");
    const whole = url.includes("batches/") || method === "POST";
    const body = whole
      ? batch("msgbatch_1", method === "GET")
      : `{"data":[${batch("msgbatch_1")},${batch("msgbatch_2", false)}]}`;
    // In two pieces without a length, and in one with it.
    if (method === "POST") return void reply.setHeader("content-length", Buffer.byteLength(body)).end(body);
    reply.write(body.slice(0, 40));
    setTimeout(() => reply.end(body.slice(40)), 20);
  });
  t.teardown(() => upstream.close());
  ({ origin } = upstream.origin);
  const { url } = await startGateway(
    t,
    `providers:
  vendor: { url: "${origin}/v1", credential: provider-secret-0123456789, speaks: [anthropic-messages] }
  bare: { url: "${origin}", credential: provider-secret-0123456789, speaks: [anthropic-messages] }
share: all
trust: [127.0.0.1]
models:
  m: { targets: [vendor:m] }
paths:
  /v1/messages/batches/*: { pass: vendor }
  /v1/files/*: { pass: vendor }
  /vendors/one/*: { pass: vendor }
  /vendors/bare/*: { pass: bare }
`,
  );
  const ask = async (path: string, headers: Record<string, string> = {}, method = "GET") => {
    const response = await fetch(url + path, { method, headers: { "x-api-key": KEY, ...headers } });
    const text = await response.text();
    t.equal(response.headers.get("content-length") ?? String(Buffer.byteLength(text)), String(Buffer.byteLength(text)));
    return text;
  };
  const host = new URL(url).host;
  const expected = (at: string) =>
    `{"id":"msgbatch_1", "results_url": "${at}/messages/batches/msgbatch_1/results","n":1.0}`;
  t.equal(await ask("/v1/messages/batches/msgbatch_1"), expected(`${url}/v1`));
  t.equal(await ask("/vendors/one/messages/batches/msgbatch_1"), expected(`${url}/vendors/one/v1`));
  t.equal(await ask("/vendors/bare/v1/messages/batches/msgbatch_1"), expected(`${url}/vendors/bare/v1`));
  t.equal(
    await ask("/v1/messages/batches/msgbatch_1", { "x-forwarded-proto": "https" }),
    expected(`https://${host}/v1`),
  );
  const behind = { "x-forwarded-proto": "https", "x-forwarded-host": "ai.example.org" };
  t.equal(await ask("/v1/messages/batches/msgbatch_1", behind), expected("https://ai.example.org/v1"));
  t.equal(await ask("/v1/messages/batches"), `{"data":[${expected(`${url}/v1`)},${batch("msgbatch_2", false)}]}`);
  t.equal(await ask("/v1/messages/batches", {}, "POST"), batch("msgbatch_1", false));
  t.equal(await ask("/v1/files/file"), batch("file"), "a body that is not a batch is unchanged");
  const { results_url: results } = JSON.parse(await ask("/vendors/one/v1/messages/batches/msgbatch_1")) as {
    results_url: string;
  };
  t.equal(await ask(results.slice(url.length)), `{"results_url":"${origin}/v1/x"}\n`);
  t.equal(upstream.seen.at(-1)?.url, "/v1/messages/batches/msgbatch_1/results");
});
