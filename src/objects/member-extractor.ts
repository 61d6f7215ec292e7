import { ANSWER_OPTIONS, Scanner } from "../wire/json.ts";
import { SseSplitter } from "../wire/sse.ts";
import { asObject, type JsonObject, parseJson } from "../wire/values.ts";

/** Limit in bytes of a member's value. */
const MAX_MEMBER_BYTES = 16 * 1024 * 1024;

/** Extracts some members of a JSON response while it passes in pieces, each as soon as it is whole; buffers nothing else. */
export class MemberExtractor {
  private scanner: Scanner | undefined;
  private readonly due: Set<string>;

  /**
   * @param names top-level members
   * @param limit bytes of a member's value; a larger one is skipped
   */
  constructor(names: readonly string[], limit = MAX_MEMBER_BYTES) {
    this.due = new Set(names);
    this.scanner = new Scanner({ ...ANSWER_OPTIONS, capture: names, captureLimit: limit });
  }

  /** Returns the members that have become whole; undefined where there are none. */
  push(bytes: Buffer): JsonObject | undefined {
    const { scanner, due } = this;
    if (!scanner || due.size === 0) return undefined;
    try {
      scanner.push(bytes);
    } catch {
      // Not JSON: nothing to record.
      this.scanner = undefined;
    }
    const members: JsonObject = {};
    for (const name of due) {
      const value = scanner.captured(name);
      if (!value) continue;
      due.delete(name);
      // The scanner does not validate everything, so the value may still be invalid JSON.
      members[name] = parseJson(value.toString());
    }
    return Object.keys(members).length > 0 ? members : undefined;
  }
}

/** Number of a stream's first events that may report what it creates, and the limit in bytes of one. */
const [MAX_EVENTS, MAX_EVENT_BYTES] = [8, 1024 * 1024];

/** Members of an event that wrap the created object; other members may hold text of the model. */
const WRAPPER_MEMBERS = ["response", "interaction"];

/** Extracts members of the first events of a stream, each member once. */
export class EventMemberExtractor {
  private splitter: SseSplitter | undefined = new SseSplitter(MAX_EVENT_BYTES);
  private eventsLeft = MAX_EVENTS;
  private readonly due: Set<string>;

  /** @param names members of an event, or of the object that it wraps */
  constructor(names: readonly string[]) {
    this.due = new Set(names);
  }

  /** Returns the members that these events report; undefined where there are none. */
  push(bytes: Buffer): JsonObject | undefined {
    const members: JsonObject = {};
    try {
      for (const frame of this.splitter?.push(bytes) ?? []) {
        if (this.eventsLeft-- === 0) break;
        const event = asObject(frame.json());
        if (event)
          for (const each of [event, ...WRAPPER_MEMBERS.map((name) => event[name])])
            this.collect(asObject(each), members);
      }
    } catch {
      // Too large: nothing to record.
      this.eventsLeft = 0;
    }
    if (this.eventsLeft <= 0 || this.due.size === 0) this.splitter = undefined;
    return Object.keys(members).length > 0 ? members : undefined;
  }

  private collect(object: JsonObject | undefined, members: JsonObject): void {
    for (const name of this.due) {
      if (object?.[name] === undefined) continue;
      members[name] = object[name];
      this.due.delete(name);
    }
  }
}
