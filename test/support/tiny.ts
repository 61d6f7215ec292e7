import { type Fault } from "../../src/core/fault.ts";
import type { Operation, Protocol } from "../../src/core/protocol.ts";
import { post } from "../../src/core/protocol-parts.ts";
import type { EncodedFrame, ResponseContext, Translation } from "../../src/translation/codec.ts";
import { type TranslatedProtocol } from "../../src/translation/codec.ts";
import type { Event } from "../../src/translation/events.ts";
import { FEATURES, type SupportTable } from "../../src/translation/features.ts";

export const SAY: Operation = post("say", "/say", { task: "generate" });
export const SAY_ARRAY: Operation = { ...SAY, streams: true, framing: "array" };
export const COUNT: Operation = post("count", "/count", { task: "count", streams: false, generates: false });

const support = (some: Partial<SupportTable>): SupportTable => ({
  ...(Object.fromEntries(Object.keys(FEATURES).map((feature) => [feature, "mapped"])) as unknown as SupportTable),
  ...some,
});

/** Decodes one line of the tiny protocol: a text, a call `!name`, an error `?status`, or a word of its own. */
function read(line: string, next: () => number, out: Event[]): void {
  const [word = "", rest = ""] = line.split(/:(.*)/s);
  const block = () => next() - 1;
  if (word === "start") out.push({ type: "start", id: rest, model: "tiny-1" });
  else if (word === "ping") out.push({ type: "ping" });
  else if (word === "unmapped") out.push({ type: "unmapped", path: rest });
  else if (word === "error") out.push({ type: "error", fault: faultOf(Number(rest)) });
  else if (word === "call") out.push({ type: "open", block: next(), choice: 0, kind: "tool_call", name: rest });
  else if (word === "args") out.push({ type: "arguments", block: block(), text: rest });
  else if (word === "close") out.push({ type: "close", block: block() });
  else if (word === "end") out.push({ type: "finish", choice: 0, reason: "stop" }, { type: "end" });
  else out.push({ type: "open", block: next(), choice: 0, kind: "text" }, { type: "text", block: block(), text: line });
}

const faultOf = (status: number): Fault => ({
  status,
  kind: "overloaded",
  code: "busy",
  message: `It said ${status}.`,
});

/** Encodes an event in the tiny protocol; undefined: not sent. */
function written(event: Event): EncodedFrame | undefined {
  const data = JSON.stringify(event);
  return event.type === "end" ? { data: "[DONE]" } : event.type === "start" ? { name: "start", data } : { data };
}

const translation: Translation = {
  request: {
    *decode({ text, task, streaming, open }) {
      yield;
      const { say, seed, state } = JSON.parse(text) as { say: string; seed?: number; state?: string };
      return {
        protocol: "tiny",
        task,
        stream: streaming,
        turns: [
          ...(state === undefined
            ? []
            : [
                {
                  role: "assistant" as const,
                  at: "state",
                  parts: [{ kind: "reasoning" as const, at: "state", opaque: open(state, "own") }],
                },
              ]),
          { role: "user", at: "say", parts: [{ kind: "text", text: say, at: "say" }] },
        ],
        tools: [],
        uses: seed === undefined ? [] : [{ feature: "seed", path: "seed" }],
      };
    },
    opaque: { find: ({ state }) => (typeof state === "string" ? [{ path: ["state"], span: ["state"] }] : []) },
    *encode(conversation, terms) {
      yield;
      if (conversation.turns.length > 9) terms.refuse("say", "too long");
      terms.change("say", "whispered");
      return {
        operation: SAY,
        query: "x=1",
        headers: [["x-tiny", "1"]],
        body: JSON.stringify({
          model: terms.model,
          facts: terms.facts,
          turns: conversation.turns.map(({ parts }) => parts),
        }),
      };
    },
    support: support({ seed: "dropped" }),
    fields: [["seed", "seed"]],
  },
  response: {
    decoder: () => {
      let block = 0;
      return {
        frame: (frame, out) => read(frame.text ?? "", () => block++, out),
        end: () => {},
      };
    },
    *decode(bytes) {
      yield;
      const out: Event[] = [];
      let block = 0;
      for (const line of JSON.parse(bytes.toString()) as string[]) read(line, () => block++, out);
      return out;
    },
    encoder: () => ({
      event: (event, out) => {
        const one = written(event);
        if (one) out.push(one);
      },
    }),
    *encode(events, context: ResponseContext) {
      yield;
      return JSON.stringify({ id: context.id, events });
    },
    decodeError: (status, _, text) => ({ ...faultOf(status), message: text }),
  },
  count: { decode: (text) => Number(text), encode: (total) => JSON.stringify({ tokens: total }) },
};

/** A protocol for tests whose wire format is nearly the event vocabulary itself. */
export const tiny = {
  name: "tiny",
  paths: ["/tiny"],
  versionSegment: "/t",
  headers: ["x-tiny-*"],
  defaultHeaders: [["x-tiny-version", "7"]],
  usageMembers: ["usage"],
  ping: Buffer.from(": ping\n\n"),
  overloadedStatus: 529,
  credential: (secret: string) => ["x-tiny-key", secret],
  usage: (json: unknown) => (json as { usage?: never }).usage,
  translation,
} as unknown as TranslatedProtocol;

/** The same with another name and without token counting. */
export const other = {
  ...tiny,
  name: "other",
  translation: { ...translation, count: undefined },
} as unknown as Protocol & TranslatedProtocol;
