import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import t from "tap";
import { KEY, startGateway } from "../support/gateway.ts";
import { each, send } from "../support/raw.ts";
import { shared } from "../support/shared.ts";
import { httpUpstream } from "../support/upstream.ts";

/** A message of llhttp's own tests and how its parser reads it, strict or with a leniency that node does not switch on. */
interface Message {
  name: string;
  bytes: string;
  /** Requests whose head a strict reading takes in. */
  heads: number;
  /** Such a message must be refused, unless what it asks for is answered before its body has been looked at. */
  lenient: boolean;
}

const folder = shared("vectors/llhttp-vectors/test/request");

function messages(directory: string): Message[] {
  return readdirSync(directory).flatMap((file) => {
    const sections = readFileSync(join(directory, file), "latin1").split("<!-- meta=").slice(1);
    return sections.map((section, i) => {
      const block = (kind: string) => section.split(`\`\`\`${kind}\n`)[1]?.split("\n```")[0] ?? "";
      const { type } = JSON.parse(section.split(" -->")[0] as string) as { type: string };
      return {
        name: `${file} ${i + 1}`,
        bytes: written(block("http")),
        heads: block("log").split("headers complete").length - 1,
        lenient: type.startsWith("request-lenient"),
      };
    });
  });
}

/** The bytes that a message of these files stands for: a line's end is CRLF unless it is escaped. */
function written(text: string): string {
  const controls: Record<string, string> = { r: "\r", n: "\n", t: "\t", f: "\f" };
  return text
    .replaceAll(/\\\n/g, "")
    .replaceAll("\n", "\r\n")
    .replaceAll(/\\([rntf])/g, (_, letter: string) => controls[letter] as string)
    .replaceAll(/\\x([0-9a-f]{2})/gi, (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16)));
}

/** The same asked of a path that goes upstream, with a key. */
const asked = (bytes: string): string =>
  bytes.replaceAll(
    /^(?:GET|POST|PUT) \S+ HTTP\/1\.1\r\n/gm,
    `POST /v1/chat/completions HTTP/1.1\r\nHost: gw.test\r\nX-Api-Key: ${KEY}\r\n`,
  );

t.test("the parser's own messages, sent to a running gateway", { skip: !folder && "vectors are absent" }, async (t) => {
  const upstream = await httpUpstream();
  t.teardown(() => upstream.close());
  const running = await startGateway(
    t,
    `providers: { up: { url: "${upstream.origin.origin}/v1", speaks: [openai-chat] } }\nmodels: { any: { targets: [up:vendor] } }\n`,
  );
  const all = messages(folder as string);
  t.ok(all.length > 160, `${all.length} messages`);
  const letters = all.flatMap((message) => [
    { ...message, lenient: false },
    { ...message, bytes: asked(message.bytes), name: `${message.name}, asked of us` },
  ]);
  const talks = await each(letters, ({ bytes }) => send(running.port, bytes));
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
  t.same(upstream.seen, [], "none of them is a question");
  t.same((await send(running.port, `GET /v1/models HTTP/1.1\r\nHost: a\r\nX-Api-Key: ${KEY}\r\n\r\n`)).statuses, [200]);
});
