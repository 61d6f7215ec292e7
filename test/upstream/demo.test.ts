import { once } from "node:events";
import { connect } from "node:net";
import t, { type Test } from "tap";
import type { DemoAnswer, DemoRequest, Operation, Protocol } from "../../src/core/protocol.ts";
import { loadProtocols } from "../../src/loader/discover.ts";
import { Demo } from "../../src/upstream/demo.ts";
import { Query } from "../../src/wire/query.ts";

/** What stands for the `*` of an open path. */
const RESTS = [
  "echo:generateContent",
  "google/models/echo:generateContent",
  "p/locations/l/publishers/google/models/echo:generateContent",
];
const TURN = { role: "user", content: "hi", parts: [{ text: "hi" }] };
const BODY = { model: "echo", max_tokens: 9, messages: [TURN], contents: [TURN], input: "hi", prompt: "hi" };

async function started(t: Test, protocols: readonly Protocol[]): Promise<string> {
  const demo = new Demo(protocols);
  t.teardown(() => demo.close());
  return (await demo.start()).origin;
}

/** A protocol of one path whose answers the test gives, and what it was asked. */
function scripted(answer: (request: DemoRequest) => DemoAnswer, operation: Partial<Operation> = {}, path = "/talk") {
  const asked: DemoRequest[] = [];
  const protocol = {
    name: "scripted",
    paths: [path],
    locate: (_path: string, rest: string) =>
      rest === "none"
        ? undefined
        : {
            operation: { name: "talk", method: "POST", body: "json", streams: "asked", framing: "sse", ...operation },
            ...(rest === "" ? {} : { model: rest }),
          },
    demo: (request: DemoRequest) => {
      asked.push(request);
      return answer(request);
    },
  };
  return { protocol: protocol as unknown as Protocol, asked };
}

t.test("a request for a stored answer is told that none is stored, with advice", async (t) => {
  const origin = await started(t, await loadProtocols());
  for (const [method, path] of [
    ["GET", "/v1/responses/resp_1?stream=true"],
    ["POST", "/v1/responses/resp_1/cancel"],
  ] as const) {
    const response = await fetch(origin + path, { method });
    t.equal(response.status, 404, path);
    t.match(await response.json(), { error: { message: /keeps no answers.*Send the whole conversation again/ } });
  }
});

const post = (url: string, body: unknown = BODY) =>
  fetch(url, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: typeof body === "string" ? body : JSON.stringify(body),
  });

/** A request that a path of a protocol answers: the place, and the body it takes. */
function request(protocol: Protocol, path: string): { place: string; body: (streaming: boolean) => string | FormData } {
  for (const rest of path.endsWith("*") ? RESTS : [""]) {
    const operation = located(protocol, path, rest);
    if (!operation) continue;
    const form = new FormData();
    form.set("model", "echo");
    return {
      place: path.replace("*", rest),
      body: (stream) => (operation.body === "multipart" ? form : JSON.stringify({ ...BODY, stream })),
    };
  }
  throw new Error(`${path} of ${protocol.name} takes none of the known requests`);
}

function located(protocol: Protocol, path: string, rest: string): Operation | undefined {
  try {
    return protocol.locate(path, rest, new Query())?.operation;
  } catch {
    return undefined;
  }
}

t.test("every path of every protocol is answered, whole and as a stream", async (t) => {
  const protocols = await loadProtocols();
  const origin = await started(t, protocols);
  // What takes nothing but a WebSocket is no path of requests.
  const sockets = (protocol: Protocol, path: string) => protocol.socket?.locate(path, "", new Query()) !== undefined;
  for (const protocol of protocols)
    for (const path of protocol.paths.filter((path) => !sockets(protocol, path))) {
      const { place, body } = request(protocol, path);
      const whole = await fetch(origin + place, { method: "POST", body: body(false) });
      t.equal(whole.status, 200, `${protocol.name} ${place}`);
      t.match(whole.headers.get("content-type"), /^application\/json/);
      t.type(await whole.json(), "object");
      const streamed = await fetch(origin + place, { method: "POST", body: body(true) });
      t.equal(streamed.status, 200, `${protocol.name} ${place}, streamed`);
      t.not(await streamed.text(), "");
    }
});

t.test("other paths are not found", async (t) => {
  const origin = await started(t, [...(await loadProtocols()), scripted(() => whole("x"), {}, "/open/*").protocol]);
  for (const path of ["/", "/v1", "/v1/nowhere", "/v1/chat/completions/more", "/open/none", "/ope"]) {
    const { status, headers } = await post(origin + path);
    t.equal(status, 404, path);
    t.equal(headers.get("content-length") ?? "0", "0", path);
  }
});

const whole = (bytes: string): DemoAnswer => ({
  status: 201,
  headers: { "content-type": "application/json", "x-demo": "1" },
  frames: [{ bytes }],
});
const stream = (...frames: DemoAnswer["frames"]): DemoAnswer => ({
  status: 200,
  headers: { "content-type": "text/event-stream" },
  frames,
});

t.test("a whole answer has its status, headers and bytes, with pauses or not", async (t) => {
  for (const after of [undefined, 5]) {
    const { protocol } = scripted(() => ({
      ...whole(""),
      frames: [{ bytes: '{"a":"ä"}', ...(after === undefined ? {} : { after }) }],
    }));
    const response = await post(`${await started(t, [protocol])}/talk`);
    t.equal(response.status, 201);
    t.equal(response.headers.get("x-demo"), "1");
    t.equal(await response.text(), '{"a":"ä"}');
  }
});

t.test("a stream's frames arrive in order, the large ones too", async (t) => {
  const large = Buffer.alloc(3 << 20, "y");
  const { protocol } = scripted(() =>
    stream({ bytes: "data: 1\n\n" }, { bytes: large, after: 2 }, { bytes: large }, { bytes: "data: 2\n\n", after: 2 }),
  );
  const response = await post(`${await started(t, [protocol])}/talk`);
  const got = Buffer.from(await response.arrayBuffer());
  t.ok(got.equals(Buffer.concat([Buffer.from("data: 1\n\n"), large, large, Buffer.from("data: 2\n\n")])));
});

t.test("the script gets the model, the parsed body, and whether to stream", async (t) => {
  const { protocol, asked } = scripted(() => whole("{}"), {}, "/models/*");
  const origin = await started(t, [protocol]);
  await post(`${origin}/models/`, { model: "named", stream: true });
  await post(`${origin}/models/acme%2Fsage?alt=sse&x=1`, { stream: false });
  await post(`${origin}/models/`, "no JSON");
  t.match(asked, [
    { model: "named", streaming: true, body: { model: "named", stream: true } },
    { model: "acme%2Fsage", streaming: false, operation: { name: "talk" } },
    { model: "", streaming: false, body: undefined },
  ]);
  const always = scripted(() => whole("{}"), { streams: true });
  await post(`${await started(t, [always.protocol])}/talk`, {});
  t.equal(always.asked[0]?.streaming, true);
});

t.test("a form's model is found among its fields", async (t) => {
  const { protocol, asked } = scripted(() => whole("{}"), { body: "multipart" });
  const form = new FormData();
  form.set("prompt", "model");
  form.set("model", "painter");
  form.set("image", new Blob(["x".repeat(1000)]), "model.png");
  await fetch(`${await started(t, [protocol])}/talk`, { method: "POST", body: form });
  t.match(asked, [{ model: "painter", body: undefined }]);
  // Only so many lines of a field's head are read: a form may repeat the name on each of its lines.
  const body = `--x\r\ncontent-disposition: form-data; name="model"\r\n${"a: b\r\n".repeat(10)}\r\nlong\r\n--x--\r\n`;
  const headers = { "content-type": "multipart/form-data; boundary=x" };
  await fetch(`${await started(t, [protocol])}/talk`, { method: "POST", body, headers });
  t.match(asked[1], { model: "" });
});

t.test("cut closes the connection after the frames before it, without the last chunk", async (t) => {
  for (const [frames, sent] of [
    [[{ bytes: "", cut: true }], ""],
    [[{ bytes: "data: 1\n\n" }, { bytes: "", cut: true, after: 20 }, { bytes: "data: 2\n\n" }], "9\r\ndata: 1\n\n\r\n"],
  ] as const) {
    const { protocol } = scripted(() => stream(...frames));
    const { port } = new URL(await started(t, [protocol]));
    const socket = connect(Number(port), "127.0.0.1", () =>
      socket.write("POST /talk HTTP/1.1\r\nhost: a\r\ncontent-length: 2\r\n\r\n{}"),
    );
    let text = "";
    socket.setEncoding("latin1").on("data", (piece: string) => (text += piece));
    socket.on("error", () => {});
    await once(socket, "close");
    t.match(text, /^HTTP\/1\.1 200 /);
    t.equal(text.slice(text.indexOf("\r\n\r\n") + 4), sent);
  }
});

t.test("the model called cut is interrupted in every protocol that streams", async (t) => {
  const origin = await started(t, await loadProtocols());
  const body = { ...BODY, model: "cut", stream: true };
  for (const path of [
    "/v1/chat/completions",
    "/v1/completions",
    "/v1/responses",
    "/v1/messages",
    "/v1beta/models/cut:streamGenerateContent?alt=sse",
    "/v1beta/models/cut:streamGenerateContent",
  ]) {
    const response = await post(origin + path, body);
    t.equal(response.status, 200, path);
    await t.rejects(response.text(), `${path} does not look complete`);
  }
});

t.test("a script that throws closes its own connection only", async (t) => {
  const { protocol } = scripted(({ model }) => {
    if (model === "bad") throw new Error("no script");
    return whole("{}");
  });
  const origin = await started(t, [protocol]);
  await t.rejects(post(`${origin}/talk`, { model: "bad" }));
  t.equal((await post(`${origin}/talk`, { model: "good" })).status, 201);
});

t.test("a client that disconnects during a pause ends its stream, and close() does not wait for one", async (t) => {
  const { protocol } = scripted(() => stream({ bytes: "data: 1\n\n" }, { bytes: "data: 2\n\n", after: 60 }));
  const demo = new Demo([protocol]);
  const { origin } = await demo.start();
  const leaving = new AbortController();
  const first = await fetch(`${origin}/talk`, { method: "POST", body: "{}", signal: leaving.signal });
  leaving.abort();
  await t.rejects(first.text());
  const second = await post(`${origin}/talk`);
  await demo.close();
  await t.rejects(second.text());
  await t.rejects(post(`${origin}/talk`), "the server is closed");
  await demo.close();
});

t.test("a long stream leaves no listeners behind", async (t) => {
  const warnings = t.capture(process, "emitWarning");
  const frames = Array.from({ length: 40 }, () => ({ bytes: Buffer.alloc(256 * 1024, " ") }));
  const { protocol } = scripted(() => ({ status: 200, headers: {}, frames }));
  const response = await fetch(`${await started(t, [protocol])}/talk`, { method: "POST", body: JSON.stringify(BODY) });
  t.equal((await response.arrayBuffer()).byteLength, 40 * 256 * 1024);
  t.same(warnings(), []);
});
