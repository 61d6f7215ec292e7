import t from "tap";
import type { SocketProtocol } from "../../src/core/protocol.ts";
import { handshakeKey, takeSubprotocols } from "../../src/downstream/handshake.ts";
import { HeaderList } from "../../src/wire/headers.ts";

const socketProtocol: SocketProtocol = {
  locate: () => undefined,
  modelParameter: "model",
  keyPrefix: "the-key.",
  otherParameters: [],
  objectParameters: [],
  hiddenPrefixes: ["org."],
  nameMarkers: [],
  namesIn: () => [],
  error: () => "",
  usageReader: () => () => undefined,
};

t.test("a handshake has a version and its own key", async (t) => {
  const key = Buffer.alloc(16, 1).toString("base64");
  const read = (version: string, value: string) =>
    handshakeKey(new HeaderList(["Sec-WebSocket-Version", version, "Sec-WebSocket-Key", value]));
  t.equal(read("13", key), key);
  for (const [version, value] of [
    ["8", key],
    ["13", ""],
    ["13", "short"],
    ["13", `${key}x`],
  ] as const)
    t.throws(() => read(version, value), /no WebSocket handshake/);
  t.throws(() => handshakeKey(new HeaderList()), /no WebSocket handshake/);
});

t.test("keys and account markers are removed from the offered protocols; no header keeps them", async (t) => {
  const read = (...values: string[]) => {
    const headers = new HeaderList(values.flatMap((value) => ["Sec-WebSocket-Protocol", value]));
    const offer = takeSubprotocols(headers, [socketProtocol]);
    t.same(headers.lines, []);
    return offer;
  };
  t.same(read(), { keys: [], protocols: [], defaultProtocol: undefined });
  t.same(read("a, the-key.k1,org.x", " b ,"), { keys: ["k1"], protocols: ["a", "b"], defaultProtocol: "a" });
  t.equal(read("the-key.k1, the-key.k1").keys.length, 2, "the same twice");
  t.throws(() => read("the-key.k1, a", "the-key.k2"), { code: "conflicting_api_keys" });
  t.same(read("the-key.k1"), { keys: ["k1"], protocols: [], defaultProtocol: "the-key.k1" });
});
