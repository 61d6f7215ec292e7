import type { Protocol } from "../core/protocol.ts";
import type { Usage } from "../core/usage.ts";
import { Scanner } from "../wire/json.ts";

/** Looks for usage in a JSON body as it passes, in the words of any of some protocols; keeps nothing else of it. */
export class JsonUsage {
  private scanner: Scanner | undefined;

  constructor(private readonly protocols: readonly Protocol[]) {
    const capture = [...new Set(protocols.flatMap(({ usageMembers }) => usageMembers))];
    this.scanner = new Scanner({ capture, duplicates: "allow" });
  }

  push(bytes: Buffer): void {
    try {
      this.scanner?.push(bytes);
    } catch {
      // Not JSON: no usage to be had, and nothing of ours to judge.
      this.scanner = undefined;
    }
  }

  /** What the whole body told. */
  end(): Usage | undefined {
    const { scanner } = this;
    if (!scanner) return undefined;
    try {
      scanner.end();
      const members: Record<string, unknown> = {};
      for (const name of new Set(this.protocols.flatMap(({ usageMembers }) => usageMembers))) {
        const bytes = scanner.captured(name);
        if (bytes) members[name] = JSON.parse(bytes.toString());
      }
      for (const protocol of this.protocols) {
        const usage = protocol.usage(members);
        if (usage && (usage.in.total !== undefined || usage.out.total !== undefined)) return usage;
      }
    } catch {
      // The same.
    }
    return undefined;
  }
}
