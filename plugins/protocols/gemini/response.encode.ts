import {
  asList,
  asObject,
  type EncodedFrame,
  type Event,
  type EventOf,
  GatewayError,
  type JsonObject,
  parseExact,
  type ResponseContext,
  type ResponseEncoder,
  type Usage,
  writeJson,
} from "model-gateway/protocol";
import { Candidate, frameOf } from "./response.candidate.ts";
import { joinedCandidate } from "./response.joined.ts";
import { Rebuilder } from "./response.rebuild.ts";
import { usageMetadata } from "./response.usage.ts";

/** Writes a stream: each frame is one whole answer with what is new; the last one tells how it ended and what it cost. */
export const encoder = (context: ResponseContext): ResponseEncoder => new Writer(context);

class Writer implements ResponseEncoder {
  private same: Rebuilder | undefined;
  private readonly candidates = new Map<number, Candidate>();
  private readonly byBlock: Candidate[] = [];
  private usage: Usage | undefined;
  private about = "";

  constructor(private readonly context: ResponseContext) {}

  event(event: Exclude<Event, { type: "error" }>, out: EncodedFrame[]): void {
    if (event.type === "start") this.start(event);
    if (this.same) this.same.event(event, out);
    else this.write(event, out);
  }

  private write(event: Exclude<Event, { type: "error" }>, out: EncodedFrame[]): void {
    switch (event.type) {
      case "open":
        this.byBlock[event.block] = this.of(event.choice);
        this.byBlock[event.block]?.event(event, out);
        break;
      case "usage":
        this.usage = event.usage;
        break;
      case "finish":
        this.of(event.choice).finish(event);
        break;
      case "end":
        this.end(out);
        break;
      case "start":
      case "ping":
      case "unsaid":
        break;
      default:
        this.byBlock[event.block]?.event(event, out);
    }
  }

  private start(event: EventOf<"start">): void {
    if (event.native) this.same = new Rebuilder();
    this.usage = event.usage;
    const modelVersion = this.context.model || event.model;
    this.about = JSON.stringify({ modelVersion, responseId: event.id || this.context.id }).slice(1);
  }

  private of(choice: number): Candidate {
    let candidate = this.candidates.get(choice);
    if (!candidate) {
      candidate = new Candidate(choice, this.about, this.context);
      this.candidates.set(choice, candidate);
    }
    return candidate;
  }

  private end(out: EncodedFrame[]): void {
    // Clients take the first one for the answer.
    const inOrder = [...this.candidates].sort(([one], [other]) => one - other);
    const candidates = inOrder.map(([, candidate]) => candidate.end(out));
    const usage = this.usage && `"usageMetadata":${JSON.stringify(usageMetadata(this.usage))},`;
    out.push({ data: frameOf(candidates, `${usage ?? ""}${this.about}`) });
  }
}

/**
 * Writes a whole answer: what a client makes of the frames when it puts their parts one after the other and joins
 * neighbouring texts of one kind. A text with a signature of its own begins a new part.
 * @throws GatewayError `upstream_invalid` when a call's arguments are no object
 */
export function encode(events: readonly Event[], context: ResponseContext): string {
  const writer = encoder(context);
  const out: EncodedFrame[] = [];
  for (const event of events) if (event.type !== "error") writer.event(event, out);
  const frames = out.map(({ data }) => parseExact(data, new Set(["args"])) as JsonObject);
  const last = frames.at(-1);
  if (!last) throw new GatewayError("upstream_invalid");
  if (frames.length === 1) return out[0]?.data ?? "";
  return writeJson({
    ...last,
    candidates: asList(last["candidates"]).map((each) => joinedCandidate(asObject(each) ?? {}, frames)),
  });
}
