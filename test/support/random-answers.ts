import type { Event, FinishReason, Opening } from "../../src/translation/events.ts";
import { type Cast, dice } from "./dice.ts";

const TEXTS = ["Hello", " ", "wörld", "漢字", "😀", '"quoted"\\', "\n\n", "data: [DONE]", "</x>", "\u2028", "{}", "é"];
const REASONS: readonly FinishReason[] = [
  "stop",
  "length",
  "content_filter",
  "refusal",
  "stop_sequence",
  "pause",
  "other",
];

const words = (cast: Cast): string => Array.from({ length: cast(4) }, () => TEXTS[cast(TEXTS.length)]).join("");

function opening(cast: Cast, block: number): Opening {
  const kinds: readonly Opening[] = [
    { kind: "text" },
    { kind: "text" },
    { kind: "reasoning" },
    { kind: "reasoning", summary: true },
    { kind: "reasoning", redacted: true },
    { kind: "tool_call", id: `call_${block}`, name: "get_weather" },
    { kind: "tool_call", id: `call_${block}`, name: "find" },
  ];
  return kinds[cast(kinds.length)] as Opening;
}

/** Returns a block's events, from its opening to its end. */
function block(cast: Cast, number: number): Event[] {
  const kind = opening(cast, number);
  const events: Event[] = [{ type: "open", block: number, choice: 0, ...kind }];
  if (kind.kind === "tool_call") {
    const json = JSON.stringify({ city: words(cast), days: cast(9), deep: { list: [null, true, words(cast)] } });
    for (let at = 0; at < json.length; ) {
      const length = 1 + cast(12);
      events.push({ type: "arguments", block: number, text: json.slice(at, at + length) });
      at += length;
    }
  } else if (kind.kind !== "reasoning" || !kind.redacted) {
    const part = kind.kind === "reasoning" && kind.summary ? { part: 0 } : {};
    for (let i = cast(5); i >= 0; i--) events.push({ type: "text", block: number, text: words(cast), ...part });
  }
  if (kind.kind === "reasoning" && (kind.redacted || cast(2)))
    events.push({
      type: "opaque",
      block: number,
      opaque: {
        protocol: "anthropic-messages",
        account: "them",
        kind: kind.redacted ? "redacted" : "signature",
        data: words(cast),
      },
    });
  events.push({ type: "close", block: number });
  return events;
}

/** Returns a response with a valid order of events; some of its calls are interleaved. */
export function randomAnswer(seed: number): Event[] {
  const cast = dice(seed);
  const blocks = Array.from({ length: cast(6) }, (_, i) => block(cast, i));
  const body: Event[] = [];
  for (let i = 0; i < blocks.length; i++) {
    const [one, two] = [blocks[i] as Event[], blocks[i + 1]];
    const side =
      two && cast(3) === 0 && [one, two].every(([first]) => first?.type === "open" && first.kind === "tool_call");
    if (!side) {
      body.push(...one);
      continue;
    }
    i++;
    const left = [...one];
    const right = [...two];
    body.push(left.shift() as Event, right.shift() as Event);
    while (left.length + right.length > 0) {
      const from = right.length === 0 || (left.length > 0 && cast(2)) ? left : right;
      body.push(from.shift() as Event);
    }
  }
  const calls = blocks.some(([first]) => first?.type === "open" && first.kind === "tool_call");
  const reason = calls && cast(3) ? "tool_calls" : (REASONS[cast(REASONS.length)] as FinishReason);
  return [
    { type: "start", id: `gen-${seed}`, model: "them", created: 1790000000 },
    ...body,
    { type: "finish", choice: 0, reason },
    { type: "usage", usage: { in: { total: cast(1000) }, out: { total: cast(1000) }, raw: {} } },
    { type: "end" },
  ];
}
