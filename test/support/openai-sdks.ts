import OpenAI from "openai";
import OpenAI4 from "openai-4";
import type { Test } from "tap";
import type { Protocol } from "../../src/core/protocol.ts";
import { demoAnswer } from "../../src/translation/demo.ts";
import { Demo } from "../../src/upstream/demo.ts";

/** Both generations of the official SDK; tests use methods that are the same in both. */
export const SDKS: Readonly<Record<string, typeof OpenAI>> = {
  "openai 7": OpenAI,
  "openai 4": OpenAI4 as unknown as typeof OpenAI,
};

/** Runs a subtest for each SDK, with a client connected over real sockets to a protocol's demo. */
export async function withSdks(
  t: Test,
  protocol: Protocol,
  check: (t: Test, client: OpenAI) => Promise<void>,
): Promise<void> {
  const demo = new Demo([protocol]);
  const origin = await demo.start();
  t.teardown(() => demo.close());
  for (const [name, Sdk] of Object.entries(SDKS)) {
    await t.test(name, (t) =>
      check(t, new Sdk({ baseURL: new URL("/v1", origin).href, apiKey: "key", maxRetries: 0 })),
    );
  }
}

/** Returns a client of the newer SDK that receives a body as if from a server. */
export function receiving(Sdk: typeof OpenAI, body: string | Buffer, status = 200, type = "text/event-stream"): OpenAI {
  const bytes = new Uint8Array(Buffer.from(body));
  const fetch = async () => new Response(bytes, { status, headers: { "content-type": type } });
  return new Sdk({ apiKey: "key", maxRetries: 0, fetch });
}

/** Returns a protocol's demo response to one request, as for the engine. */
export function demoOf(
  protocol: Protocol,
  path: string,
  body: { model: string; stream?: boolean } & Record<string, unknown>,
) {
  const operation = protocol.locate(path, "", new URLSearchParams())?.operation;
  if (!operation) throw new Error(`No operation at ${path}.`);
  return demoAnswer(protocol, { operation, model: body.model, body, streaming: body.stream === true });
}

/** Collects everything a stream of the SDK yields until it ends or throws. */
export async function collect<T>(stream: AsyncIterable<T>): Promise<{ items: T[]; error: unknown }> {
  const items: T[] = [];
  try {
    for await (const item of stream) items.push(item);
  } catch (error) {
    return { items, error };
  }
  return { items, error: undefined };
}
