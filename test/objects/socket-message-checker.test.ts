import t, { type Test } from "tap";
import type { ObjectAccess } from "../../src/objects/objects.ts";
import { SocketMessageChecker } from "../../src/objects/socket-message-checker.ts";
import { KEY, startGateway } from "../support/gateway.ts";
import { open, socketUpstream } from "../support/sockets.ts";
import { until } from "../support/until.ts";

const FEW = "a-key-of-one-model-01234";
const KEYS = `keys: { all: { key: ${KEY} }, few: { key: ${FEW}, models: [talk, write] } }\n`;

/** A gateway whose provider keeps what it is told, and answers each message by itself. */
async function talking(t: Test, more = "") {
  const upstream = await socketUpstream(t);
  const running = await startGateway(
    t,
    `providers: { a: { url: "http://127.0.0.1:${upstream.port}/v1", speaks: [openai-chat], websocket: true, shared: [pmpt_shared] } }
models: { talk: { targets: [a:vendor-talk] }, write: { targets: [a:vendor-write] }, dear: { targets: [a:vendor-dear] } }
${KEYS}${more}`,
  );
  const call = (key: string) =>
    open(`ws://127.0.0.1:${running.port}/v1/realtime?model=talk`, [], { authorization: `Bearer ${key}` });
  const rejected = () => running.log.lines.filter(({ fields }) => fields["outcome"] === "rejected").length;
  return { upstream, call, rejected };
}

const session = (more: object): string => JSON.stringify({ type: "session.update", session: more });
const transcribing = (model: string) => session({ audio: { input: { transcription: { model } } } });

t.test("a prompt that another key made is refused on a socket, and never reaches the provider", async (t) => {
  const { upstream, call, rejected } = await talking(t);
  for (const said of [
    session({ prompt: { id: "pmpt_theirs" } }),
    JSON.stringify({ type: "response.create", response: { prompt: { id: "pmpt_theirs" } } }),
    '{"type":"session.update","session":{"prompt":{"id":"pmpt_shared","id":"pmpt_theirs"}}}',
    '{"type":"session.update","session":{"pr\\u006fmpt":{"id":"pmpt_theirs"}}}',
    session({ prompt: { ID: "pmpt_theirs" } }),
    session({ audio: { output: { voice: { id: "voice_theirs" } } } }),
    session({ tools: [{ type: "mcp", tunnel_id: "tunnel_theirs" }] }),
    session({ pRompt: { id: "pmpt_theirs" } }),
    session({ prompt: [{ id: "pmpt_theirs" }] }),
    session({ prompt: { id: "pmpt_shared", variables: { a: { type: "input_file", File_id: "file-theirs" } } } }),
    '{"type":"response.create","Re\u017fponse":{"prompt":{"id":"pmpt_theirs"}}}',
  ]) {
    const { socket, messages, closed } = await call(KEY);
    socket.send('{"type":"hello"}');
    await until(() => messages.length === 1, "the first message to come back");
    socket.send(said);
    t.equal(await closed, 1008, said);
    t.match(JSON.parse(messages[1] ?? ""), { type: "error", error: { code: /^(?:object_not_found|invalid_json)$/ } });
  }
  await until(() => rejected() === 11, "eleven lines that say so");
  t.same(new Set(upstream.messages), new Set(['{"type":"hello"}']));
});

t.test("the same for one that arrives in fragments, in chunks or as bytes", async (t) => {
  const { upstream, call } = await talking(t);
  const said = session({ prompt: { id: "pmpt_theirs" } });
  const ways: Record<string, (socket: Awaited<ReturnType<typeof call>>["socket"]) => void> = {
    fragments(socket) {
      socket.send(said.slice(0, 20), { fin: false });
      socket.send(said.slice(20), { fin: true });
    },
    "as bytes": (socket) => socket.send(Buffer.from(said)),
    "behind another": (socket) => {
      socket.send('{"type":"hello"}');
      socket.send(said);
    },
  };
  for (const [name, send] of Object.entries(ways)) {
    const { socket, closed } = await call(KEY);
    send(socket);
    t.equal(await closed, 1008, name);
  }
  t.same(
    upstream.messages.filter((message) => message.includes("pmpt")),
    [],
  );
});

t.test("frames that cannot be parsed are not passed on", async (t) => {
  const { upstream, call } = await talking(t);
  const { socket, closed } = await call(KEY);
  // Not masked, which a lenient server takes.
  const raw = (socket as unknown as { _socket: { write(bytes: Buffer): void } })._socket;
  const text = Buffer.from(session({ prompt: { id: "pmpt_theirs" } }));
  raw.write(Buffer.concat([Buffer.from([0x81, text.length]), text]));
  t.equal(await closed, 1008);
  t.same(upstream.messages, []);
});

t.test("a message in UTF-16, which some parsers take for JSON too, is not passed on", async (t) => {
  const { upstream, call } = await talking(t);
  const { socket, messages, closed } = await call(KEY);
  socket.send(Buffer.from(session({ prompt: { id: "pmpt_theirs" } }), "utf16le"));
  t.equal(await closed, 1008);
  t.match(JSON.parse(messages[0] ?? ""), { error: { code: "invalid_json", message: /zero byte/ } });
  t.same(upstream.messages, []);
});

t.test("a message that is nested too deep, or names too many objects, is not passed on", async (t) => {
  const { upstream, call } = await talking(t);
  const deep = `{"type":"session.update","session":${'{"a":'.repeat(500)}{"model":"m"}${"}".repeat(500)}}`;
  const many = session({ a: Array(101).fill({ prompt: { id: "pmpt_shared" } }) });
  for (const [said, code] of [
    [deep, "invalid_json"],
    [many, "invalid_field"],
    [session({ a: Array(30_000).fill({}), prompt: { id: "pmpt_shared" } }), "invalid_json"],
  ] as const) {
    const { socket, messages, closed } = await call(KEY);
    socket.send(said);
    t.equal(await closed, 1008);
    t.match(JSON.parse(messages[0] ?? ""), { error: { code } });
  }
  t.same(upstream.messages, []);
});

t.test("messages with allowed objects pass byte for byte, and so do all others", async (t) => {
  const { upstream, call } = await talking(t);
  const { socket, messages, closed } = await call(KEY);
  const said = [
    session({ prompt: { id: "pmpt_shared", version: "2" } }),
    transcribing("any-other"),
    '{ "type" : "conversation.item.create", "item": { "content": [{"text":"a \\"model\\" and a \\u00e9"}] } }',
    JSON.stringify({ type: "input_audio_buffer.append", audio: "QUJD".repeat(50_000) }),
    "not JSON at all",
  ];
  for (const each of said) socket.send(each);
  await until(() => messages.length === said.length, "all to come back");
  t.same(upstream.messages, said);
  socket.close(1000);
  t.equal(await closed, 1000);
});

t.test("a key limited to some models may name only these, by the provider's names for them", async (t) => {
  const { upstream, call } = await talking(t, "share: all\n");
  const { socket, messages, closed } = await call(FEW);
  const own = [session({ model: "vendor-talk" }), transcribing("vendor-write")];
  for (const each of own) socket.send(each);
  await until(() => messages.length === 2, "both to come back");
  socket.send(transcribing("vendor-dear"));
  t.equal(await closed, 1008);
  t.match(JSON.parse(messages[2] ?? ""), {
    error: { code: "key_not_allowed", param: "session.audio.input.transcription.model" },
  });
  t.same(upstream.messages, own);
});

t.test("other spellings of names, which some servers read as the same, are refused too", async (t) => {
  const { upstream, call } = await talking(t, "share: all\n");
  for (const said of [
    session({ Model: "vendor-dear" }),
    JSON.stringify({ type: "session.update", SESSION: { model: "vendor-dear" } }),
    session({ audio: { input: { transcription: { modEL: "vendor-dear" } } } }),
    JSON.stringify({ type: "session.update", session: [{ model: "vendor-dear" }] }),
  ]) {
    const { socket, messages, closed } = await call(FEW);
    socket.send(said);
    t.equal(await closed, 1008, said);
    t.match(JSON.parse(messages[0] ?? ""), { error: { code: "key_not_allowed" } });
  }
  t.same(upstream.messages, []);
});

t.test("what is searched for is prepared once for a protocol, not for each of its sockets", async (t) => {
  const protocol = { nameMarkers: ["model", "prompt", "voice"], namesIn: () => [] };
  const parts = [protocol, {}, {}, { share: "own" } as unknown as ObjectAccess, {}] as unknown as ConstructorParameters<
    typeof SocketMessageChecker
  >;
  const bytes = () => process.memoryUsage().arrayBuffers;
  const first = new SocketMessageChecker(...parts);
  const before = bytes();
  const open = Array.from({ length: 200 }, () => new SocketMessageChecker(...parts));
  const grown = bytes() - before;
  t.ok(grown < 1_000_000, `${grown} bytes for 200 sockets`);
  for (const checker of [first, ...open.slice(-1)])
    t.match(checker.findError(Buffer.from('{"model":1,}')), { code: "invalid_json" }, "each searches");
});
