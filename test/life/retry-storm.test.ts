/** Providers that fail everything, before vendors' clients that try twice more: what reaches the providers. */
import Anthropic from "@anthropic-ai/sdk";
import OpenAI from "openai";
import t, { type Test } from "tap";
import { KEY, type Running, startGateway } from "../support/gateway.ts";
import { httpUpstream, type SeenRequest } from "../support/upstream.ts";

/** Calls of clients, each of which may be up to three requests. */
const CALLS = Number(process.env["GATEWAY_TEST_STORM"] ?? 40);
/** Clients that call at the same time. */
const CLIENTS = 40;
/** More requests go up than have come: so many at most for each. */
const MAX_AMPLIFICATION = 1.1;
/** Tries that are granted within ten seconds however few requests there are; with many they are among the tenth. */
const GRANTED = CALLS < 120 ? 20 : 0;

// All of them at the same time: most of it is waiting.
t.jobs = 6;

const OVERLOADED = '"error":{"message":"Over capacity.","type":"overloaded_error"}';

type Failure = "503" | "500" | "silence" | "reset" | "an error in a 200";

/** A provider that fails so, and how often it was asked. */
async function failing(t: Test, failure: Failure): Promise<{ origin: string; seen: SeenRequest[] }> {
  const upstream = await httpUpstream(({ url }, reply) => {
    if (failure === "silence") return;
    if (failure === "reset") return reply.destroy();
    if (failure === "an error in a 200")
      return reply
        .writeHead(200, { "content-type": "text/event-stream" })
        .end(
          url.endsWith("/messages")
            ? `event: error\ndata: {"type":"error",${OVERLOADED}}\n\n`
            : `data: {${OVERLOADED}}\n\n`,
        );
    return reply.writeHead(Number(failure), { "content-type": "application/json" }).end('{"error":{"message":"no"}}');
  });
  t.teardown(() => upstream.close());
  return { origin: upstream.origin.origin, seen: upstream.seen };
}

/** Calls, and whether any was answered. */
async function storm({ url }: Running): Promise<number> {
  const openai = new OpenAI({ baseURL: `${url}/v1`, apiKey: KEY, maxRetries: 2 });
  const anthropic = new Anthropic({ baseURL: url, apiKey: KEY, maxRetries: 2 });
  const messages = [{ role: "user" as const, content: "x" }];
  const call = (i: number): Promise<unknown> =>
    i % 2 === 0
      ? openai.chat.completions.create({ model: "m", messages, stream: true })
      : anthropic.messages.create({ model: "m", messages, max_tokens: 9 });
  let answered = 0;
  let left = CALLS;
  await Promise.all(
    Array.from({ length: Math.min(CLIENTS, CALLS) }, async () => {
      while (left-- > 0)
        await call(left).then(
          () => answered++,
          () => {},
        );
    }),
  );
  return answered;
}

for (const failures of [
  ["503"],
  ["500", "503"],
  ["silence"],
  ["silence", "silence"],
  ["reset"],
  ["an error in a 200"],
] as const)
  t.test(
    `providers that fail with ${failures.join(" and ")} get no retry storm from the gateway`,
    { buffered: true },
    async (t) => {
      const upstreams = await Promise.all(failures.map((failure) => failing(t, failure)));
      const providers = upstreams.map(
        ({ origin }, i) =>
          `  p${i}: { url: "${origin}/v1", speaks: [openai-chat, anthropic-messages]${failures.some((each) => each === "silence") ? ", timeouts: { first_byte: 1s }" : ""} }`,
      );
      const targets = upstreams.map((_, i) => `p${i}:x`).join(", ");
      const running = await startGateway(
        t,
        `providers:\n${providers.join("\n")}\nmodels: { m: { targets: [${targets}] } }\n`,
      );
      t.equal(await storm(running), 0);
      const requests = running.log.lines.filter(({ message }) => message === "exchange").length;
      const sent = upstreams.reduce((sum, { seen }) => sum + seen.length, 0);
      t.ok(requests >= CALLS, `${requests} requests`);
      t.ok(
        sent <= requests * MAX_AMPLIFICATION + GRANTED,
        `${CALLS} calls, ${requests} requests of clients, ${sent} to the providers`,
      );
      t.comment(
        `${CALLS} calls, ${requests} requests of clients, ${sent} to the providers: ${(sent / requests).toFixed(3)} by us, ${(sent / CALLS).toFixed(2)} in all`,
      );
    },
  );
