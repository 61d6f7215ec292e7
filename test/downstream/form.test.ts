import { readdirSync, readlinkSync } from "node:fs";
import { connect, type Socket } from "node:net";
import t, { type Test } from "tap";
import { Spool } from "../../src/downstream/spool.ts";
import { chunk } from "../support/chunk.ts";
import { asking, KEY, type Running, startGateway } from "../support/gateway.ts";
import { until } from "../support/until.ts";
import { type RawRequest, rawUpstream } from "../support/upstream.ts";

const FORM = { "content-type": "multipart/form-data; boundary=xx" };
const part = (head: string, value: string) => `--xx\r\ncontent-disposition: form-data; ${head}\r\n\r\n${value}\r\n`;
const MODEL = part('name="model"', "painter");
const PROMPT = part('name="prompt"', "a cat");
const file = (bytes: number) => part('name="image"; filename="a.png"', "x".repeat(bytes));
const END = "--xx--\r\n";

/** A gateway with a model whose provider knows it as `vendor`, and what the provider was sent. */
async function painting(t: Test, vendor = "painter", more = "", files: Record<string, string> = {}) {
  const seen: RawRequest[] = [];
  const upstream = await rawUpstream(async (socket, request) => {
    seen.push(request);
    await request.body;
    socket.write("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}");
  });
  t.teardown(() => upstream.close());
  const running = await startGateway(
    t,
    `providers: { up: { url: "${upstream.origin.origin}/v1", speaks: [openai-images] } }\nmodels: { painter: { targets: [up:${vendor}] } }\n${more}`,
    files,
  );
  return { running, seen };
}

/** A connection that sends a form when told; `text` is what came back. */
function form(t: Test, { port }: Running, framing: string) {
  const socket: Socket = connect(port, "127.0.0.1");
  const got = { text: "", closed: false };
  socket.setEncoding("latin1").on("data", (text: string) => (got.text += text));
  socket.on("error", () => {}).on("close", () => (got.closed = true));
  t.teardown(() => socket.destroy());
  socket.write(
    `POST /v1/images/edits HTTP/1.1\r\nhost: a\r\nauthorization: Bearer ${KEY}\r\n${framing}\r\ncontent-type: ${FORM["content-type"]}\r\n\r\n`,
  );
  return Object.assign(got, { socket });
}

const post = (running: Running, body: string, headers: Record<string, string> = FORM) =>
  fetch(`${running.url}/v1/images/edits`, { method: "POST", headers: asking(headers), body });

t.test(
  "a form with its model first is streamed: the provider gets the first bytes before the last are sent",
  async (t) => {
    const { running, seen } = await painting(t);
    const [begin, rest] = [MODEL + PROMPT, file(100_000) + END];
    const client = form(t, running, `content-length: ${begin.length + rest.length}`);
    client.socket.write(begin);
    await until(() => (seen[0]?.received ?? 0) > MODEL.length, "the provider to get the first bytes");
    t.ok((seen[0]?.received ?? 0) < begin.length, "except those that could be a delimiter");
    t.match(seen[0]?.head, new RegExp(`\r\ncontent-length: ${begin.length + rest.length}\r\n`, "i"));
    t.equal(client.text, "");
    client.socket.write(rest);
    t.equal((await seen[0]?.body)?.toString(), begin + rest);
    await until(() => client.text.endsWith("{}"), "the answer");
    t.match(client.text, /^HTTP\/1\.1 200 /);
  },
);

t.test("a form of unknown length is streamed in chunks", async (t) => {
  const { running, seen } = await painting(t);
  const client = form(t, running, "transfer-encoding: chunked");
  client.socket.write(chunk(MODEL));
  client.socket.write(chunk(PROMPT));
  await until(() => (seen[0]?.received ?? 0) > 0, "the provider to get the first bytes");
  client.socket.write(`${chunk(END)}0\r\n\r\n`);
  t.equal((await seen[0]?.body)?.toString(), MODEL + PROMPT + END);
  t.match(seen[0]?.head, /\r\ntransfer-encoding: chunked\r\n/i);
});

t.test("the provider's model name replaces ours, wherever the field is", async (t) => {
  const { running, seen } = await painting(t, "vendors-own-painter");
  for (const order of [MODEL + file(50) + END, file(200_000) + MODEL + END, PROMPT + MODEL + file(200_000) + END]) {
    t.equal((await post(running, order)).status, 200);
    t.equal((await seen.at(-1)?.body)?.toString(), order.replace("\r\npainter\r\n", "\r\nvendors-own-painter\r\n"));
  }
});

t.test("a form whose model follows its files arrives as it was sent", async (t) => {
  const { running, seen } = await painting(t);
  const body = file(300_000) + PROMPT + MODEL + END;
  t.equal((await post(running, body)).status, 200);
  t.equal((await seen[0]?.body)?.toString(), body);
});

t.test("a form without a model is refused with the field's name, and no provider is called", async (t) => {
  const { running, seen } = await painting(t);
  const refused = await post(running, PROMPT + file(10) + END);
  t.equal(refused.status, 400);
  t.match(await refused.json(), { error: { code: "invalid_field", param: "model", message: /no field "model"/ } });
  for (const body of [MODEL.slice(0, -4), "", MODEL]) {
    const cut = await post(running, body);
    t.equal(cut.status, 400);
    t.match(await cut.json(), { error: { code: "invalid_form", message: /ends before its last delimiter/ } });
  }
  t.equal(seen.length, 0);
});

t.test("a form on a path that names the model needs no field: one is added at its end", async (t) => {
  const { running, seen } = await painting(t, "vendors-own");
  const azure = `${running.url}/openai/deployments/painter/images/edits?api-version=1`;
  const send = (body: string) => fetch(azure, { method: "POST", headers: asking(FORM), body });
  const field = part('name="model"', "vendors-own");
  for (const parts of [PROMPT, PROMPT + file(50), file(300_000), PROMPT + file(300_000) + PROMPT])
    for (const end of [END, `${END}\r\n`, "--xx--"]) {
      t.equal((await send(parts + end)).status, 200);
      t.equal((await seen.at(-1)?.body)?.toString(), parts + field + end);
    }
  const sent = seen.length;
  for (const body of ["--xx--\r\n", "", PROMPT]) t.equal((await send(body)).status, 400);
  t.equal(seen.length, sent);
});

t.test("too many bytes before the model are refused with the fix", async (t) => {
  const { running, seen } = await painting(t, "painter", "body: { limit: 64KiB }\n");
  const refused = await post(running, file(200_000) + MODEL + END);
  t.equal(refused.status, 413);
  t.match(await refused.json(), { error: { code: "body_too_large", message: /Put the field model before the files/ } });
  t.equal(seen.length, 0);
  t.equal((await post(running, MODEL + file(200_000) + END)).status, 200, "after the model its size does not matter");
});

t.test("an invalid or compressed form is refused before it is read", async (t) => {
  const { running, seen } = await painting(t);
  for (const type of ["application/json", "multipart/form-data", "multipart/mixed; boundary=xx"]) {
    const refused = await post(running, MODEL + END, { "content-type": type });
    t.equal(refused.status, 415, type);
    t.match(await refused.json(), { error: { message: /multipart\/form-data with a boundary/ } });
  }
  const packed = await post(running, MODEL + END, { ...FORM, "content-encoding": "gzip" });
  t.equal(packed.status, 415);
  t.match(await packed.json(), { error: { message: /without content-encoding/ } });
  t.equal(seen.length, 0);
});

t.test("a form that stalls before its model is ended", async (t) => {
  const { running } = await painting(t, "painter", "body: { idle: 50ms }\n");
  const client = form(t, running, "content-length: 1000");
  client.socket.write(PROMPT);
  await until(() => client.text.includes("\r\n\r\n"), "the refusal");
  t.match(client.text, /^HTTP\/1\.1 408 /);
});

/** Waits in its phase until the test lets it go. */
const GATE = `export default class Gate {
  access() { const { gate } = globalThis as unknown as { gate: { came(): void; open: Promise<void> } }; gate.came(); return gate.open; }
}`;

t.test("a client that disconnects before or while its body is read is recorded as gone", async (t) => {
  const { promise: open, resolve: go } = Promise.withResolvers<void>();
  let came = 0;
  Object.assign(globalThis, { gate: { came: () => void came++, open } });
  t.teardown(() => Reflect.deleteProperty(globalThis, "gate"));
  const { running, seen } = await painting(
    t,
    "painter",
    "plugins: { gate: { from: ./gate.ts } }\nchains: { llm: [sse, auth, gate, models, rewrite, usage], read: [auth] }\n",
    { "gate.ts": GATE },
  );
  const early = form(t, running, "content-length: 1000");
  await until(() => came === 1, "the first request");
  early.socket.destroy();
  await new Promise((resolve) => setTimeout(resolve, 50));
  go();
  const exchanges = () => running.log.lines.filter(({ message }) => message === "exchange");
  await until(() => exchanges().length === 1, "the first log line");
  const late = form(t, running, "content-length: 1000");
  late.socket.write(PROMPT);
  await until(() => came === 2, "the second request");
  late.socket.destroy();
  await until(() => exchanges().length === 2, "the second log line");
  for (const { fields } of exchanges())
    t.match(fields, { outcome: "aborted", attempts: 0, error: { code: "client_gone" } });
  t.equal(seen.length, 0);
});

t.test("a form that waits for its model is stored in an unnamed file, which is closed with the request", async (t) => {
  const { TMPDIR } = process.env;
  process.env["TMPDIR"] = t.testdir();
  t.teardown(() => {
    if (TMPDIR === undefined) delete process.env["TMPDIR"];
    else process.env["TMPDIR"] = TMPDIR;
  });
  const open = () =>
    readdirSync("/proc/self/fd").filter((fd) => {
      try {
        return readlinkSync(`/proc/self/fd/${fd}`).includes("/model-gateway-");
      } catch {
        return false;
      }
    }).length;
  const { running, seen } = await painting(t, "vendors-own-painter");
  const image = file(3_000_000);
  const end = `${MODEL}${file(500_000)}${END}`;
  const client = form(t, running, `content-length: ${image.length + end.length}`);
  client.socket.write(image);
  await until(() => open() === 1, "the file");
  t.equal(seen.length, 0);
  const named = () => readdirSync(process.env["TMPDIR"] as string).some((name) => name.startsWith("model-gateway-"));
  await until(() => !named(), "the file to have no name");
  client.socket.write(end);
  const sent = (image + end).replace("\r\npainter\r\n", "\r\nvendors-own-painter\r\n");
  await until(() => seen.length === 1, "the request");
  t.ok((await seen[0]?.body)?.equals(Buffer.from(sent)));
  t.match(seen[0]?.head, new RegExp(`\r\ncontent-length: ${sent.length}\r\n`, "i"));
  await until(() => open() === 0, "the file to be closed");
  const gone = form(t, running, "content-length: 9000000");
  gone.socket.write(image);
  await until(() => open() === 1, "the second file");
  gone.socket.destroy();
  await until(() => open() === 0, "the second file to be closed");
  t.equal(seen.length, 1);
});

for (const [reason, code, retryAfter] of [
  ["ENOSPC", "overloaded", /^[123](?:\.\d+)?$/],
  ["EDQUOT", "overloaded", /^[123](?:\.\d+)?$/],
  ["EMFILE", "overloaded", /^[123](?:\.\d+)?$/],
  ["EACCES", "internal", null],
] as const)
  t.test(`a form whose file meets ${reason} is refused as ${code}, with the reason in the log`, async (t) => {
    const { write } = Spool.prototype;
    t.teardown(() => Object.assign(Spool.prototype, { write }));
    Spool.prototype.write = () => Promise.reject(Object.assign(new Error(`${reason}: writev`), { code: reason }));
    const { running, seen } = await painting(t);
    const refused = await post(running, file(500_000) + MODEL + END);
    t.equal(refused.status, 503);
    t.match(refused.headers.get("retry-after"), retryAfter);
    t.match(await refused.json(), { error: { code, message: /no room .*Put the field model before the files/ } });
    const lines = () => running.log.lines.filter(({ message }) => message === "exchange");
    await until(() => lines().length > 0, "the log line");
    t.match(lines(), [{ level: "warn", fields: { error: { code, cause: new RegExp(`${reason}: writev`) } } }]);
    t.equal(running.gateway.generation.spools.size, 0);
    t.equal(seen.length, 0);
  });

t.test("a second model after the first never completes the form: the provider's connection is closed", async (t) => {
  const { promise: cut, resolve } = Promise.withResolvers<void>();
  let got = "";
  const upstream = await rawUpstream((socket) => {
    socket.on("data", (bytes: Buffer) => (got += bytes.toString("latin1")));
    socket.on("close", () => resolve());
  });
  t.teardown(() => upstream.close());
  const running = await startGateway(
    t,
    `providers: { up: { url: "${upstream.origin.origin}/v1", speaks: [openai-images] } }\nmodels: { painter: { targets: [up:painter] } }\n`,
  );
  const begin = MODEL + file(400_000);
  const end = MODEL.replace("painter", "another") + END;
  const client = form(t, running, `content-length: ${begin.length + end.length}`);
  client.socket.write(begin);
  await until(() => got.length > 300_000, "the provider to get the first bytes");
  client.socket.write(end);
  await until(() => client.text.includes("occurs twice"), "the refusal");
  t.match(client.text, /^HTTP\/1\.1 400 /);
  await cut;
  t.notMatch(got, /another|--xx--/);
});

t.test("a form that has arrived completely is sent to the next provider when the first one fails", async (t) => {
  const bodies: Buffer[] = [];
  const up = (status: string) =>
    rawUpstream(async (socket, request) => {
      bodies.push(await request.body);
      socket.write(`HTTP/1.1 ${status}\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}`);
    });
  const [first, second] = [await up("503 Not Now"), await up("200 OK")];
  t.teardown(() => Promise.all([first.close(), second.close()]));
  const provider = (origin: URL) => `{ url: "${origin.origin}/v1", speaks: [openai-images] }`;
  const running = await startGateway(
    t,
    `providers: { one: ${provider(first.origin)}, two: ${provider(second.origin)} }
models: { painter: { targets: [one:painter], fallback: [other] }, other: { targets: [two:vendors-own] } }\n`,
  );
  for (const body of [MODEL + PROMPT + END, file(1_000_000) + MODEL + END]) {
    bodies.length = 0;
    t.equal((await post(running, body)).status, 200);
    t.equal(bodies.length, 2);
    t.equal(bodies[0]?.toString(), body);
    t.equal(bodies[1]?.toString(), body.replace("\r\npainter\r\n", "\r\nvendors-own\r\n"));
  }
});

t.test("a field that may name other models is refused: in a form they are neither checked nor renamed", async (t) => {
  const { running, seen } = await painting(t);
  for (const name of [
    "models",
    "models[]",
    "Models",
    "fallbacks[0][model]",
    "extra_body",
    "extraBody.model",
    "preset",
  ]) {
    const field = part(`name="${name}"`, "dear");
    for (const body of [MODEL + PROMPT + field + END, field + MODEL + PROMPT + END]) {
      const answer = await post(running, body);
      t.equal(answer.status, 400, name);
      t.match(await answer.json(), { error: { code: "invalid_field", message: /may name other models/ } });
    }
  }
  t.equal(seen.length, 0);
  for (const name of ["moderation", "background", "model_notes", "user"])
    t.equal((await post(running, MODEL + PROMPT + part(`name="${name}"`, "low") + END)).status, 200, name);
});

t.test("JSON in a field may not name what is kept elsewhere: a vendor may read it there", async (t) => {
  const { running, seen } = await painting(t);
  for (const field of [
    part('name="images"', '[{"file_id":"file-1"}]'),
    part('name="mask"\r\ncontent-type: application/json', '{"\\u0066ile_id":"file-1"}'),
    part('name="mask"; filename="a.json"\r\ncontent-type: application/json', '{"file_id":"file-1"}'),
  ])
    for (const body of [MODEL + PROMPT + field + END, field + MODEL + PROMPT + END]) {
      const answer = await post(running, body);
      t.equal(answer.status, 400);
      t.match(await answer.json(), {
        error: { code: "invalid_field", message: /file_id names what is kept elsewhere/ },
      });
    }
  t.equal(seen.length, 0);
  const large = (bytes: number, more = "") =>
    MODEL + part('name="images"', `[${"1,".repeat(bytes / 2)}1${more}]`) + END;
  t.equal((await post(running, large(400_000))).status, 200);
  t.equal((await post(running, large(400_000, ',{"file_id":"file-1"}'))).status, 400);
  const tooLarge = await post(running, large(600_000));
  t.match([tooLarge.status, await tooLarge.json()], [400, { error: { message: /images cannot be checked/ } }]);
});

t.test("a prompt is a text, also one that looks like JSON; so are other fields and files", async (t) => {
  const { running, seen } = await painting(t);
  for (const field of [
    part('name="prompt"', '{"file_id":"file-1","scene":1,"scene":2}'),
    PROMPT + part('name="style"', "[cinematic] {8k}"),
    PROMPT + part('name="image"', `data:image/png;base64,${"A".repeat(300_000)}`),
    PROMPT + part('name="image"; filename="a.png"', '{"file_id":"file-1"}'),
  ])
    t.equal((await post(running, MODEL + field + END)).status, 200, field.slice(0, 100));
  t.equal(seen.length, 4);
});

t.test("with share: all every key may name what is kept elsewhere in JSON, too", async (t) => {
  const { running } = await painting(t, "painter", "share: all\n");
  t.equal((await post(running, MODEL + part('name="images"', '[{"file_id":"file-1"}]') + END)).status, 200);
});
