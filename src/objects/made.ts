import { Scanner } from "../wire/json.ts";
import { SseSplitter } from "../wire/sse.ts";
import { asObject, type JsonObject } from "../wire/values.ts";

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

/** Events of a stream that may tell what it makes, and bytes of one at most. */
const [FIRST_EVENTS, LARGEST_EVENT] = [8, 1024 * 1024];

/** What an event of a stream has around what was made: nothing else of it is the provider's own word. */
const AROUND = ["response", "interaction"];

/** The same of the first events of a stream, each member told once. */
export class PassingEvents {
  private splitter: SseSplitter | undefined = new SseSplitter(LARGEST_EVENT);
  private left = FIRST_EVENTS;
  private readonly due: Set<string>;

  /** @param names members of an event, or of what it is about */
  constructor(names: readonly string[]) {
    this.due = new Set(names);
  }

  /** The members that events have told; undefined where none has. */
  push(bytes: Buffer): JsonObject | undefined {
    const members: JsonObject = {};
    try {
      for (const frame of this.splitter?.push(bytes) ?? []) {
        if (this.left-- === 0) break;
        const event = asObject(frame.json());
        if (event) for (const each of [event, ...AROUND.map((name) => event[name])]) this.take(asObject(each), members);
      }
    } catch {
      // Too large: nothing of ours to judge.
      this.left = 0;
    }
    if (this.left <= 0 || this.due.size === 0) this.splitter = undefined;
    return Object.keys(members).length > 0 ? members : undefined;
  }

  private take(object: JsonObject | undefined, members: JsonObject): void {
    for (const name of this.due) {
      if (object?.[name] === undefined) continue;
      members[name] = object[name];
      this.due.delete(name);
    }
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
