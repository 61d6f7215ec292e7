import { SseSplitter } from "../wire/sse.ts";
import { JsonUsage } from "./json-usage.ts";
import type { Protocol } from "./protocol.ts";
import type { Usage } from "./usage.ts";

/** Bytes of an event at most: one that tells usage is short. */
const LARGEST = 1024 * 1024;

/** Reads usage out of the events of a stream that passes, while its bytes arrive. */
export class StreamUsage {
  /** Why usage could not be read. Holds nothing of the stream. */
  fault: string | undefined;
  private splitter: SseSplitter | undefined = new SseSplitter(LARGEST);
  /** What each protocol has found by now, the best first. */
  private readonly found: { readonly protocol: Protocol; usage: Usage | undefined }[];

  /** @param protocols in whose words it may be told, best first */
  constructor(protocols: readonly Protocol[]) {
    this.found = protocols.map((protocol) => ({ protocol, usage: undefined }));
  }

  /** The next bytes, cut anywhere. Never throws. */
  push(bytes: Buffer): void {
    try {
      for (const frame of this.splitter?.push(bytes) ?? [])
        for (const each of this.found)
          if (each.protocol.holdsUsage(frame)) each.usage = each.protocol.usage(frame.json(), each.usage);
    } catch (thrown) {
      this.splitter = undefined;
      this.fault = JsonUsage.faultOf(thrown);
    }
  }

  /** What was told by now, in the words of the first protocol that finds a total, or else as a vendor told it. */
  get usage(): Usage | undefined {
    const told = this.found.flatMap(({ usage }) => usage ?? []);
    return told.find(({ in: input, out }) => input.total !== undefined || out.total !== undefined) ?? told[0];
  }
}
