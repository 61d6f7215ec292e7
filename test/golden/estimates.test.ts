import t from "tap";
import { Delivered } from "../../plugins/usage/delivered.ts";
import type { Protocol } from "../../src/core/protocol.ts";
import type { Usage } from "../../src/core/usage.ts";
import { loadProtocols } from "../../src/loader/discover.ts";
import { Frame } from "../../src/wire/frame.ts";
import { SseSplitter } from "../../src/wire/sse.ts";
import { type Recording, recordings } from "../support/recordings.ts";

const all = recordings()?.filter(
  ({ status, streaming, kinds }) => status < 300 && streaming && kinds.includes("stream"),
);

interface Sum {
  streams: number;
  /** Tokens that the providers counted, without thoughts of which the streams say nothing. */
  told: number;
  estimated: number;
}

function framesOf({ body }: Recording): Frame[] {
  const splitter = new SseSplitter();
  const frames = splitter.push(body);
  const rest = splitter.end();
  return rest ? [...frames, new Frame("event", rest)] : frames;
}

/** Adds a stream cut behind its last frame, as if that told no usage. */
function add(sum: Sum, protocol: Protocol, recording: Recording): void {
  const delivered = new Delivered(protocol);
  let usage: Usage | undefined;
  for (const frame of framesOf(recording)) {
    delivered.see(frame);
    if (protocol.holdsUsage(frame)) usage = protocol.usage(frame.json(), usage) ?? usage;
  }
  if (usage?.out.total === undefined || delivered.tokens === 0) return;
  // Anthropic's thoughts are told, at least in short; those of others mostly not.
  const hidden = protocol.name === "anthropic-messages" ? 0 : (usage.out.reasoning ?? 0);
  sum.streams++;
  sum.told += usage.out.total - hidden;
  sum.estimated += delivered.tokens;
}

t.test(
  "what recorded streams have brought is estimated near the providers' own counts, in sum",
  { skip: !all && "recordings are absent" },
  async (t) => {
    const protocols = new Map((await loadProtocols()).map((protocol) => [protocol.name, protocol]));
    // How far the sum of each may be off.
    for (const [name, most] of [
      ["anthropic-messages", 0.05],
      ["gemini", 0.1],
      ["openai-responses", 0.15],
    ] as const) {
      const sum: Sum = { streams: 0, told: 0, estimated: 0 };
      for (const recording of all ?? [])
        if (recording.protocol === name) add(sum, protocols.get(name) as Protocol, recording);
      t.ok(sum.streams > 50, `${sum.streams} streams`);
      t.ok(Math.abs(sum.estimated / sum.told - 1) <= most, `${name}: ${JSON.stringify(sum)}`);
    }
  },
);
