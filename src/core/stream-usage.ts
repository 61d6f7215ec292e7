import type { Frame } from "../wire/frame.ts";
import { SseSplitter } from "../wire/sse.ts";
import { JsonUsage } from "./json-usage.ts";
import type { Protocol } from "./protocol.ts";
import { checkUsage, type Usage } from "./usage.ts";

/** Maximum bytes of an event: one that reports usage is short. */
const MAX_EVENT_BYTES = 1024 * 1024;

/** Extracts usage from the events of a passing stream as its bytes arrive. */
export class StreamUsage {
  /** Why usage could not be read. Contains nothing of the stream. */
  fault: string | undefined;
  private last: Frame | undefined;
  private splitter: SseSplitter | undefined = new SseSplitter(MAX_EVENT_BYTES);
  /** The usage that each protocol has found so far, in order of preference. */
  private readonly found: { readonly protocol: Protocol; usage: Usage | undefined }[];

  /** @param protocols whose formats are tried, in order of preference */
  constructor(protocols: readonly Protocol[]) {
    this.found = protocols.map((protocol) => ({ protocol, usage: undefined }));
  }

  /** Takes the next bytes, with arbitrary boundaries. Never throws. */
  push(bytes: Buffer): void {
    try {
      for (const frame of this.splitter?.push(bytes) ?? []) {
        this.last = frame;
        for (const each of this.found) {
          if (!each.protocol.holdsUsage(frame)) continue;
          each.usage = each.protocol.usage(frame.json(), each.usage);
          if (each.usage) checkUsage(each.usage);
        }
      }
    } catch (thrown) {
      this.splitter = undefined;
      this.fault = JsonUsage.loggableError(thrown);
    }
  }

  /** Whether the last event so far is the terminal one of a protocol. */
  get hasTerminated(): boolean {
    const { last } = this;
    return last !== undefined && this.found.some(({ protocol }) => protocol.terminal?.(last) === true);
  }

  /** The usage so far, of the first protocol that finds a total, or else the first without totals. */
  get usage(): Usage | undefined {
    const reported = this.found.flatMap(({ usage }) => usage ?? []);
    return reported.find(({ in: input, out }) => input.total !== undefined || out.total !== undefined) ?? reported[0];
  }
}
