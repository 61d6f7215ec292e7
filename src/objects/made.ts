import { Scanner } from "../wire/json.ts";
import type { JsonObject } from "../wire/values.ts";

/** Bytes of a member's value at most; and as many names and levels as there are. */
const LARGEST = 16 * 1024 * 1024;
const ANY = 2 ** 31 - 1;

/** Some members of a JSON answer as it passes in pieces, each told as soon as it is whole; nothing else is kept of it. */
export class PassingMembers {
  private scanner: Scanner | undefined;
  private readonly due: Set<string>;

  /** @param names top-level members */
  constructor(names: readonly string[]) {
    this.due = new Set(names);
    this.scanner = new Scanner({ capture: names, captureLimit: LARGEST, maxKeys: ANY, duplicates: "allow" });
  }

  /** The members that have become whole; undefined where none has. */
  push(bytes: Buffer): JsonObject | undefined {
    const { scanner, due } = this;
    if (!scanner || due.size === 0) return undefined;
    try {
      scanner.push(bytes);
    } catch {
      // Not JSON: nothing of ours to judge.
      this.scanner = undefined;
    }
    const members: JsonObject = {};
    for (const name of due) {
      const value = scanner.captured(name);
      if (!value) continue;
      due.delete(name);
      members[name] = parsed(value);
    }
    return Object.keys(members).length > 0 ? members : undefined;
  }
}

/** What the scan has not looked at may still be no JSON. */
function parsed(value: Buffer): unknown {
  try {
    return JSON.parse(value.toString());
  } catch {
    return undefined;
  }
}
