import t, { type Test } from "tap";
import type { Attempt } from "../../src/core/attempt.ts";
import { effectiveStatus } from "../../src/upstream/effective-status.ts";
import { chunk } from "../support/chunk.ts";
import { proxied } from "../support/proxied.ts";
import { CHUNKED, client, outgoing, type Script, whole } from "../support/upstream.ts";

const head = (status: number) => CHUNKED.replace("200", String(status));
const attempt = {
  credential: {},
  target: { provider: { credentials: [{}] } },
  protocol: {
    refuses: (_: number, body: Buffer) =>
      ["credential", "target", "request", "object", "state", "summary"].find((word) =>
        body.toString().startsWith(word),
      ),
  },
} as unknown as Attempt;

async function look(t: Test, script: Script, asked: Attempt = attempt) {
  const { upstream, proxy } = await proxied(t, script);
  const response = await proxy.send(outgoing(upstream.origin), client());
  return { status: await effectiveStatus(response, asked), read: () => whole(response) };
}

t.test("an error is read to its end, however it is split, and stays readable completely", async (t) => {
  for (const [status, text, meant] of [
    [400, "credential unknown", 401],
    [400, "model missing", 400],
    [400, "", 400],
    [401, "credential unknown", 401],
    [401, "something", 401],
    [401, "target only", 403],
    [403, "something", 403],
    [403, "request flagged", 400],
    [403, "object missing", 400],
    [500, "credential unknown", 500],
    [200, "credential unknown", 200],
    [400, `credential unknown${"x".repeat(20_000)}`, 400],
  ] as const)
    for (const at of [0, 6]) {
      const found = await look(t, (socket) => {
        const [first, rest] = [text.slice(0, at), text.slice(at)].map((part) => (part === "" ? "" : chunk(part)));
        socket.write(`${head(status)}${first}`);
        setImmediate(() => socket.write(`${rest}0\r\n\r\n`));
      });
      t.equal(found.status, meant, `${status} ${text.slice(0, 20)}`);
      t.equal((await found.read()).body.toString(), text);
    }
});

t.test("state, or a summary, that a provider refuses is recorded with the attempt", async (t) => {
  for (const word of ["state", "summary", "request"]) {
    const asked = { ...attempt } as Attempt;
    const found = await look(t, (socket) => socket.write(`${head(400)}${chunk(word)}0\r\n\r\n`), asked);
    t.equal(found.status, 400);
    t.same([asked.refusedState, asked.refusedSummary], [word === "state", word === "summary"]);
  }
});

t.test("an incomplete or endless error, or one without a credential, changes nothing", async (t) => {
  t.equal((await look(t, (socket) => socket.end(`${head(400)}${chunk("credential")}`))).status, 400);
  t.equal((await look(t, (socket) => socket.write(`${head(400)}${chunk("credential")}`))).status, 400);
  const all =
    (status: number, word: string): Script =>
    (socket) =>
      socket.write(`${head(status)}${chunk(word)}0\r\n\r\n`);
  const { credential: _, ...without } = attempt;
  t.equal((await look(t, all(400, "credential"), without as Attempt)).status, 400);
  t.equal((await look(t, all(403, "request"), without as Attempt)).status, 400, "the request is refused all the same");
  t.equal((await look(t, all(404, "target"), without as Attempt)).status, 403, "the model is missing all the same");
  t.equal((await look(t, all(400, "credential"), { ...attempt, protocol: {} } as Attempt)).status, 400);
});

t.test("what one account does not have is requested of the next one, where there is one", async (t) => {
  const two = { ...attempt, target: { provider: { credentials: [{}, {}] } } } as unknown as Attempt;
  const missing: Script = (socket) => socket.write(`${head(403)}${chunk("object")}0\r\n\r\n`);
  t.equal((await look(t, missing, two)).status, 403);
});
