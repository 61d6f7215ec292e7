import type { Test } from "tap";
import { Body } from "../../src/core/body.ts";
import { requestTexts } from "../../src/core/texts.ts";
import { encodeAnswer } from "../../src/translation/encode-answer.ts";
import type { Event } from "../../src/translation/events.ts";
import { identifyRequest } from "../../src/upstream/demo.ts";
import { SPOKEN } from "./translations.ts";
import { type FakeUpstream, httpUpstream, type SeenRequest } from "./upstream.ts";

/** Characters of each piece of a stream. */
const PIECE = 3;
const cut = (text: string): string[] => text.match(new RegExp(`.{1,${PIECE}}`, "gsu")) ?? [];

/** A model that repeats the user's last text in thoughts, text and a tool call. */
function* told(text: string): Generator<Exclude<Event, { type: "error" }>> {
  yield { type: "start", id: "r1", model: "x", created: 1 };
  yield { type: "open", block: 0, choice: 0, kind: "reasoning" };
  for (const piece of cut(`They wrote: ${text}`)) yield { type: "text", block: 0, text: piece };
  yield { type: "close", block: 0 };
  yield { type: "open", block: 1, choice: 0, kind: "text" };
  for (const piece of cut(`You wrote: ${text}`)) yield { type: "text", block: 1, text: piece };
  yield { type: "close", block: 1 };
  yield { type: "open", block: 2, choice: 0, kind: "tool_call", id: "call_1", name: "f" };
  for (const piece of cut(JSON.stringify({ city: text }))) yield { type: "arguments", block: 2, text: piece };
  yield { type: "close", block: 2 };
  yield { type: "finish", choice: 0, reason: "tool_calls" };
  yield { type: "usage", usage: { in: { total: 21 }, out: { total: 9 }, raw: undefined } };
  yield { type: "end" };
}

/** Starts a provider of all four protocols that repeats the user's last text in thoughts, text and a call. */
export async function repeating(t: Test): Promise<FakeUpstream & { seen: SeenRequest[] }> {
  const upstream = await httpUpstream(({ url, body }, reply) => {
    const identified = identifyRequest(Object.values(SPOKEN), url, body);
    if (!identified) throw new Error(`no protocol has the path ${url}`);
    const { protocol, request } = identified;
    const users = requestTexts(new Body([body], "json"), protocol, ["user"]);
    const { status, headers, frames } = encodeAnswer(protocol, request, [...told(users.at(-1)?.text ?? "")], "r1");
    reply.writeHead(status, headers);
    // One write per frame, so that each is a chunk.
    for (const { bytes } of frames) reply.write(bytes);
    reply.end();
  });
  t.teardown(() => upstream.close());
  return upstream;
}
