import t from "tap";
import { asking, startGateway } from "../support/gateway.ts";
import { httpUpstream } from "../support/upstream.ts";

/** Changes a whole answer as the query says. */
const RESIZE = `import { Frame, type Head, type ResponseExchange } from "model-gateway";
const EDITS = {
  longer: (json) => ({ ...json, extra: "x".repeat(300) }),
  shorter: ({ usage, ...json }) => json,
};
export default class Resize {
  response(exchange: ResponseExchange, head: Head) {
    const how = exchange.query.get("how") ?? "";
    if (how === "nothing") return;
    if (how === "looked at") return () => {};
    if (how === "followed") return (frame: Frame) => frame.kind === "end" ? [new Frame("piece", Buffer.from(" ".repeat(50))), frame] : frame;
    const pieces: Frame[] = [];
    return (frame: Frame) => {
      if (frame.kind !== "end") return void pieces.push(new Frame("piece", Buffer.from(frame.bytes))) ?? [];
      if (how === "kept") return [...pieces, frame];
      const json = JSON.parse(Buffer.concat(pieces.map(({ bytes }) => bytes)).toString());
      return [new Frame("piece", Buffer.from(JSON.stringify(EDITS[how](json)))), frame];
    };
  }
}`;
const OWN = `import type { RouteExchange } from "model-gateway";
export default class Own {
  route(exchange: RouteExchange) { if (exchange.query.get("own")) exchange.answer = { body: '{"usage":{"a":1},"own":true}' }; }
}`;

/** @param padding makes the provider's answer so long that it arrives in many pieces */
const answerOf = (padding: number) =>
  JSON.stringify({
    id: "c",
    object: "chat.completion",
    created: 1,
    model: "x",
    choices: [{ index: 0, message: { role: "assistant", content: `Hi${"i".repeat(padding)}` }, finish_reason: "stop" }],
    usage: { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 },
  });

/** The kinds of whole answers: the provider's bytes, a translation of them, and a plugin's own. */
const KINDS = {
  "as it comes": "/v1/chat/completions?",
  translated: "/v1/messages?",
  own: "/v1/chat/completions?own=1&",
};

for (const padding of [0, 1_000_000])
  t.test(`a stage may change the length of a whole answer, of ${padding} bytes or more, of any kind`, async (t) => {
    const text = answerOf(padding);
    const upstream = await httpUpstream((_, reply) =>
      reply.writeHead(200, { "content-type": "application/json", "content-length": text.length }).end(text),
    );
    t.teardown(() => upstream.close());
    const { url } = await startGateway(
      t,
      `providers: { up: { url: "${upstream.origin.origin}/v1", speaks: [openai-chat] } }
models: { m: { targets: [up:x] } }
plugins: { resize: { from: ./resize.ts }, own: { from: ./own.ts } }
chains: { llm: [sse, auth, resize, models, own, rewrite, usage] }
`,
      { "resize.ts": RESIZE, "own.ts": OWN },
    );
    for (const [kind, path] of Object.entries(KINDS)) {
      const bodies: Record<string, string> = {};
      const ask = async (how: string) => {
        // An answer that is shorter than its length never ends.
        const response = await fetch(`${url}${path}how=${encodeURIComponent(how)}`, {
          method: "POST",
          headers: asking(),
          body: '{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"hi"}]}',
          signal: AbortSignal.timeout(10_000),
        });
        const body = await response.text();
        t.equal(response.status, 200, `${kind}, ${how}`);
        const length = response.headers.get("content-length");
        if (length !== null) t.equal(Number(length), Buffer.byteLength(body), `${kind}, ${how}`);
        bodies[how] = body;
        return length;
      };
      t.ok(await ask("nothing"), `${kind}: without a stage the length is announced`);
      t.ok(await ask("kept"), `${kind}: so is that of an answer which a stage has collected`);
      t.ok(await ask("longer"), kind);
      t.ok(await ask("shorter"), kind);
      if (padding === 0) t.ok(await ask("looked at"), kind);
      await ask("followed");
      const plain = JSON.parse(bodies["nothing"] as string);
      // Each translation has an id of its own.
      const same = (how: string) => JSON.parse(bodies[how] as string);
      t.match(same("kept"), { ...plain, id: plain.id && String }, kind);
      t.match(same("longer"), { extra: /^x{300}$/ }, kind);
      t.notOk("usage" in same("shorter"), kind);
      t.match(bodies["followed"], /\} {50}$/, kind);
    }
  });
