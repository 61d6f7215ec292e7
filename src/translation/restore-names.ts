import type { ResponseSource, ToolNameMap } from "./codec.ts";
import type { Conversation } from "./conversation.ts";
import type { Event, EventOf } from "./events.ts";
import { callIds, safeId, unusedId } from "./ids.ts";
import { unsignedState } from "./opaque-state.ts";
import { MemberRenamer } from "./rename-members.ts";
import { TextUnwrapper } from "./unwrap.ts";

/** Characters of a response's id and of its model's name that are kept: some protocols repeat them in each frame. */
const MAX_REPEATED = 1024;

/**
 * Restores the client's own names of tools and of their arguments in a response's events. Also gives ids to calls without one, or
 * with one that is used already, unwraps the arguments of a custom tool that was offered as a function into free text, and marks
 * reasoning without opaque state with its origin, so that it is recognised when it comes back.
 */
export class NameRestorer {
  private nextId: (() => string) | undefined;
  /** What restores arguments in another form, by block: a custom tool's text, or the client's own names. */
  private readonly restoring = new Map<number, TextUnwrapper | MemberRenamer>();
  /** Blocks of reasoning without opaque state so far. */
  private readonly unsigned = new Set<number>();
  /**
   * @param protocol the upstream's
   * @param seed for ids, where the vendor's response has no id either
   * @param usedIds the ids of all calls before the response
   */
  constructor(
    private readonly names: ToolNameMap,
    private readonly protocol: string,
    private readonly source: ResponseSource,
    private seed: string,
    private readonly usedIds: Set<string>,
  ) {}

  /** Appends the events that replace an event. */
  restore(event: Event, out: Event[]): void {
    switch (event.type) {
      case "start":
        if (event.id !== "") this.seed = event.id;
        out.push(withShortNames(event));
        break;
      case "open":
        if (event.kind === "reasoning") this.unsigned.add(event.block);
        out.push(event.kind === "tool_call" ? this.restoreOpen(event) : event);
        break;
      case "opaque":
        this.unsigned.delete(event.block);
        out.push(event);
        break;
      case "arguments":
        this.restoreArguments(event, out);
        break;
      case "close":
        this.restoreClose(event, out);
        break;
      default:
        out.push(event);
    }
  }

  private restoreOpen(event: EventOf<"open"> & { kind: "tool_call" }): Event {
    const { name, namespace, custom } = this.names.original(event.name);
    const restored = { ...event, name };
    if (namespace !== undefined) restored.namespace = namespace;
    if (custom && !event.custom) {
      restored.custom = true;
      this.restoring.set(event.block, new TextUnwrapper());
    }
    const members = this.names.membersOf(event.name);
    if (members) this.restoring.set(event.block, new MemberRenamer(members.own));
    if (restored.id === undefined || restored.id === "") {
      this.nextId ??= callIds(this.seed);
      restored.id = this.nextId();
    }
    restored.id = unusedId(restored.id, this.usedIds);
    this.usedIds.add(restored.id);
    return restored;
  }

  private restoreArguments(event: EventOf<"arguments">, out: Event[]): void {
    const restoring = this.restoring.get(event.block);
    if (!restoring) {
      out.push(event);
      return;
    }
    const text = restoring.push(event.text);
    if (text !== "") out.push({ type: "arguments", block: event.block, text });
  }

  private restoreClose(event: EventOf<"close">, out: Event[]): void {
    const text = this.restoring.get(event.block)?.end() ?? "";
    this.restoring.delete(event.block);
    if (text !== "") out.push({ type: "arguments", block: event.block, text });
    if (this.unsigned.delete(event.block)) {
      const opaque = unsignedState({ ...this.source, protocol: this.protocol });
      out.push({ type: "opaque", block: event.block, opaque });
    }
    out.push(event);
  }
}

/** Returns the start of a response without what a provider could make long. */
const withShortNames = (event: EventOf<"start">): EventOf<"start"> =>
  event.id.length <= MAX_REPEATED && event.model.length <= MAX_REPEATED
    ? event
    : {
        ...event,
        id: event.id.length <= MAX_REPEATED ? event.id : safeId(event.id),
        model: event.model.slice(0, MAX_REPEATED),
      };

/** Returns the ids of a conversation's calls. */
export function callIdsOf({ turns }: Conversation): Set<string> {
  const ids = new Set<string>();
  for (const { parts } of turns) for (const part of parts) if (part.kind === "tool_call") ids.add(part.id);
  return ids;
}
