import { Agent, request } from "node:http";
import t from "tap";
import { asking } from "../support/key.ts";
import { type GatewayProcess, startProcess } from "../support/process.ts";
import { httpUpstream } from "../support/upstream.ts";

/** Sends one request over a connection of its own: the next one reaches the other worker. */
function ask({ url }: GatewayProcess, path: string, body: object): Promise<{ status: number; text: string }> {
  const asked = request(`${url}${path}`, { method: "POST", headers: asking(), agent: new Agent() });
  asked.end(JSON.stringify(body));
  return new Promise((resolve, reject) => {
    asked.once("error", reject).once("response", async (answer) => {
      const pieces: Buffer[] = [];
      for await (const piece of answer) pieces.push(piece);
      resolve({ status: answer.statusCode ?? 0, text: Buffer.concat(pieces).toString() });
    });
  });
}

t.test("two workers respond to an id in a body as one does: unknown 404, an own new one 200", async (t) => {
  let made = 0;
  const upstream = await httpUpstream(({ url }, reply) => {
    reply.setHeader("content-type", "application/json");
    reply.end(JSON.stringify(url.endsWith("/files") ? { id: `file-made${++made}` } : { id: "batch_1" }));
  });
  t.teardown(() => upstream.close());
  const gateway = await startProcess(
    t,
    `workers: 2
linger: off
providers: { up: { url: "${upstream.origin.origin}/v1", speaks: [openai-chat] } }
models: { m: { targets: [up:x] } }
paths: { "/v1/files/*": { pass: up }, "/v1/batches/*": { pass: up } }
`,
  );
  const seen: string[] = [];
  for (let i = 1; i <= 4; i++) {
    const file = await ask(gateway, "/v1/files", { purpose: "batch" });
    t.match(JSON.parse(file.text), { id: `file-made${i}` });
    seen.push(String((await ask(gateway, "/v1/batches", { input_file_id: `file-made${i}` })).status));
  }
  const unknown = await Promise.all([1, 2].map(() => ask(gateway, "/v1/batches", { input_file_id: "file-mistyped" })));
  for (const { status, text } of unknown) seen.push(`${status} ${JSON.parse(text).error.code}`);
  t.same(seen, ["200", "200", "200", "200", "404 object_not_found", "404 object_not_found"]);
  const reached = upstream.seen.filter(({ url }) => url.endsWith("/batches")).map(({ body }) => body.toString());
  t.same(
    reached,
    [1, 2, 3, 4].map((i) => `{"input_file_id":"file-made${i}"}`),
  );
  t.equal(await gateway.end(), 0);
});
