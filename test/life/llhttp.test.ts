import t from "tap";
import { KEY, startGateway } from "../support/gateway.ts";
import { gathered } from "../support/gathered.ts";
import { llhttpMessages } from "../support/llhttp.ts";
import { entrance, WAYS } from "../support/nginx.ts";
import { each, send } from "../support/raw.ts";
import { httpUpstream } from "../support/upstream.ts";

/** The same asked of a path that goes upstream, with a key. */
const asked = (bytes: string): string =>
  bytes.replaceAll(
    /^(?:GET|POST|PUT) \S+ HTTP\/1\.1\r\n/gm,
    `POST /v1/chat/completions HTTP/1.1\r\nHost: gw.test\r\nX-Api-Key: ${KEY}\r\n`,
  );

/** How its parser reads each, strict or with a leniency that node does not switch on. */
const all = llhttpMessages("request")?.map(({ name, bytes, type, log }) => ({
  name,
  bytes,
  /** Requests whose head a strict reading takes in. */
  heads: log.split("headers complete").length - 1,
  /** Such a message must be refused, unless what it asks for is answered before its body has been looked at. */
  lenient: type.startsWith("request-lenient"),
}));

/** Behind nginx some are mended before the gateway sees them; what is left is that nothing of them becomes a question. */
for (const way of WAYS)
  gathered(
    t,
    `the parser's own messages, sent to a running gateway ${way}`,
    { skip: !all && "vectors are absent" },
    async (t) => {
      const upstream = await httpUpstream();
      t.teardown(() => upstream.close());
      const running = await startGateway(
        t,
        `providers: { up: { url: "${upstream.origin.origin}/v1", speaks: [openai-chat] } }\nmodels: { any: { targets: [up:vendor] } }\n`,
      );
      const messages = all ?? [];
      t.equal(messages.length, 166);
      const letters = messages.flatMap((message) => [
        { ...message, lenient: false },
        { ...message, bytes: asked(message.bytes), name: `${message.name}, asked of us` },
      ]);
      const port = await entrance(t, way, running.port);
      if (port === undefined) return;
      const talks = await each(letters, ({ bytes }) => send(port, bytes));
      if (way === "directly")
        for (const [i, { name, heads, lenient }] of letters.entries()) {
          const statuses = talks[i]?.statuses ?? [];
          // What is malformed behind the last head is answered too.
          t.ok(statuses.length <= heads + 1, `${name}: ${statuses} to ${heads} requests`);
          t.ok(
            statuses.slice(heads).every((status) => status === 400),
            `${name}: ${statuses}`,
          );
          if (lenient)
            t.notOk(
              statuses.some((status) => status < 400),
              `${name}: refused without that leniency`,
            );
        }
      t.same(upstream.seen, [], "none of them is sent as a request");
      t.same(
        (await send(running.port, `GET /v1/models HTTP/1.1\r\nHost: a\r\nX-Api-Key: ${KEY}\r\n\r\n`)).statuses,
        [200],
      );
    },
  );
