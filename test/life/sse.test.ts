import { request } from "node:http";
import t from "tap";
import { byteChunk } from "../support/chunk.ts";
import { asking, startGateway } from "../support/gateway.ts";
import { entrance, WAYS } from "../support/nginx.ts";
import { each, vectors } from "../support/raw.ts";
import { rawUpstream } from "../support/upstream.ts";

interface Vector {
  name: string;
  stream: string;
}

const all = vectors<Vector[]>("sse-vectors.json");

const HEAD = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";

/** Streams that end as this protocol's streams must; all others are cut with an error. */
const TERMINATED = ["done", "done-nospace"];
/** No event at all: that is no answer. */
const WITHOUT = ["event-only"];
const NO_ANSWER = /ended before its first event/;
const BROKEN = /^data: \{"error":\{.*"upstream_truncated".*\}\}\n\n$/;

/** Everything up to the last blank line: an event that has not ended is never passed on. */
const wholeEvents = (stream: string): string => /^[\s\S]*(?:\r\n|\n|\r)(?:\r\n|\n|\r)/.exec(stream)?.[0] ?? "";

/** What a client receives of a vector that the provider sends in pieces. */
function ask(port: number, vector: number, cuts: readonly number[]): Promise<{ body: Buffer; whole: boolean }> {
  return new Promise((resolve, reject) => {
    const path = "/v1/chat/completions";
    const outgoing = request({ port, host: "127.0.0.1", method: "POST", path, headers: asking() }, (response) => {
      const pieces: Buffer[] = [];
      const settle = () => resolve({ body: Buffer.concat(pieces), whole: response.complete });
      response
        .on("data", (piece: Buffer) => pieces.push(piece))
        .on("end", settle)
        .on("error", settle);
    });
    outgoing.on("error", reject).end(JSON.stringify({ model: "any", stream: true, vector, cuts }));
  });
}

for (const way of WAYS) {
  t.test(
    `event streams of every kind pass the whole chain byte for byte, wherever they are split, ${way}`,
    { skip: !all && "vectors are absent" },
    async (t) => {
      const given = (all as Vector[]).map(({ name, stream }) => ({ name, stream, bytes: Buffer.from(stream) }));
      t.equal(given.length, 31);
      const upstream = await rawUpstream(async (socket, { body }) => {
        const { vector, cuts } = JSON.parse((await body).toString()) as { vector: number; cuts: number[] };
        const { bytes } = given[vector] as (typeof given)[number];
        socket.write(HEAD);
        for (const [i, from] of [0, ...cuts].entries())
          socket.write(byteChunk(bytes.subarray(from, cuts[i] ?? bytes.length)));
        socket.write("0\r\n\r\n");
      });
      t.teardown(() => upstream.close());
      const running = await startGateway(
        t,
        `providers: { up: { url: "${upstream.origin.origin}/v1", speaks: [openai-chat] } }\nmodels: { any: { targets: [up:any] } }\n`,
      );
      const port = await entrance(t, way, running.port);
      if (port === undefined) return;
      const asked = given.flatMap(({ bytes }, vector) => {
        const cuts = Array.from({ length: bytes.length - 1 }, (_, i) => [i + 1]);
        return [[], ...cuts, cuts.flat()].map((at) => ({ vector, cuts: at }));
      });
      const answers = await each(asked, ({ vector, cuts }) => ask(port, vector, cuts));
      const faults: string[] = [];
      for (const [i, { vector, cuts }] of asked.entries()) {
        const { name, stream } = given[vector] as (typeof given)[number];
        const { body, whole } = answers[i] as (typeof answers)[number];
        const text = body.toString();
        if (WITHOUT.includes(name) && NO_ANSWER.test(text) && whole) continue;
        const wanted = TERMINATED.includes(name) ? stream : wholeEvents(stream);
        const rest = text.slice(wanted.length);
        const ended = TERMINATED.includes(name) ? rest === "" && whole : BROKEN.test(rest) && !whole;
        if (!text.startsWith(wanted) || !ended) faults.push(`${name} cut at ${cuts}: ${JSON.stringify(text)}`);
      }
      t.ok(asked.length > 500, `${asked.length} streams`);
      t.same(faults, []);
    },
  );
}
