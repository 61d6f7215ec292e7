import t, { type Test } from "tap";
import type { Attempt } from "../../src/core/exchange.ts";
import { refusesCredential } from "../../src/upstream/refused-credential.ts";
import { CHUNKED, client, outgoing, proxied, type Script, whole } from "../support/upstream.ts";

const chunk = (text: string) => `${Buffer.byteLength(text).toString(16)}\r\n${text}\r\n`;
const head = (status: number) => CHUNKED.replace("200", String(status));
const attempt = {
  credential: {},
  protocol: { refusesCredential: (_: number, body: Buffer) => body.includes("unknown") },
} as unknown as Attempt;

async function look(t: Test, script: Script, asked: Attempt = attempt) {
  const { upstream, proxy } = await proxied(t, script);
  const response = await proxy.send(outgoing(upstream.origin), client());
  return { refused: await refusesCredential(response, asked), read: () => whole(response) };
}

t.test("an error is read to its end, however it is cut, and all of it stays to be read", async (t) => {
  for (const [status, text, refused] of [
    [400, "key unknown", true],
    [400, "model missing", false],
    [400, "", false],
    [401, "key unknown", false],
    [500, "key unknown", false],
    [200, "key unknown", false],
    [400, `key unknown${"x".repeat(20_000)}`, false],
  ] as const)
    for (const at of [0, 6]) {
      const found = await look(t, (socket) => {
        const [first, rest] = [text.slice(0, at), text.slice(at)].map((part) => (part === "" ? "" : chunk(part)));
        socket.write(`${head(status)}${first}`);
        setImmediate(() => socket.write(`${rest}0\r\n\r\n`));
      });
      t.equal(found.refused, refused, `${status} ${text.slice(0, 20)}`);
      t.equal((await found.read()).body.toString(), text);
    }
});

t.test("what is not whole, has no end, or was asked without a credential tells nothing", async (t) => {
  t.equal((await look(t, (socket) => socket.end(`${head(400)}${chunk("unknown")}`))).refused, false);
  t.equal((await look(t, (socket) => socket.write(`${head(400)}${chunk("unknown")}`))).refused, false);
  const all: Script = (socket) => socket.write(`${head(400)}${chunk("unknown")}0\r\n\r\n`);
  t.equal((await look(t, all, { protocol: attempt.protocol } as Attempt)).refused, false);
  t.equal((await look(t, all, { ...attempt, protocol: {} } as Attempt)).refused, false);
});
