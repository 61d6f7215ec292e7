import { dropUndefined } from "../wire/values.ts";
import type { Conversation, Media, Part, Reasoning, Text, ToolCall, Turn } from "./conversation.ts";
import type { Opaque } from "./events.ts";
import { restoreId, TextKey, unusedId } from "./ids.ts";
import { withTools } from "./vendor-tools.ts";

/** Kind of an envelope for reasoning without opaque state: it holds only the reasoning's origin. */
export const UNSIGNED_KIND = "unsigned";

/** Returns the state of reasoning without opaque state. */
export const unsignedState = (origin: Pick<Opaque, "protocol" | "account" | "model">): Opaque => ({
  protocol: origin.protocol,
  ...dropUndefined({ account: origin.account, model: origin.model }),
  kind: UNSIGNED_KIND,
  data: "",
});

/** Notice to the client where state that its provider cannot read was left out. */
export const UNREADABLE_NOTICE =
  "Reasoning that another provider made was left out of the request: only that one can read it.";

/** The recipient of a request. */
interface StateReader {
  protocol: string;
  /** The provider account. */
  account: string;
  /** True where it gets no state, because it has refused it. */
  withoutState?: boolean;
}

/**
 * Moves opaque state back to the part it belongs to: an envelope for a call or a text arrives as a separate piece of
 * reasoning, because the client's protocol has no other place for it. Makes the ids of calls unique for this.
 */
export function placeState(conversation: Conversation): void {
  const calls = readCallIds(conversation.turns);
  const media = new MediaByKey(conversation.turns);
  const emptied = new Set<Turn>();
  for (const [i, turn] of conversation.turns.entries()) {
    if (!turn.parts.some(isMisplacedState)) continue;
    const placed = new PlacedParts();
    for (const [j, part] of turn.parts.entries()) {
      const opaque = part.kind === "reasoning" ? part.opaque : undefined;
      if (opaque?.on === undefined) placed.add(part);
      else if (opaque.on === "reasoning") placed.addThoughtState(part as Reasoning);
      else {
        for (const thought of readableThoughts(part as Reasoning, opaque)) placed.add(thought);
        if (opaque.on !== "text")
          attachState("call" in opaque.on ? calls.get(restoreId(opaque.on.call)) : media.get(opaque.on.media), opaque);
        else if (!attachToText(turn, j + 1, conversation.turns[i + 1], opaque))
          placed.add({ kind: "text", text: "", opaque: withoutOwner(opaque), at: part.at });
      }
    }
    const parts = placed.end();
    if (parts.length === 0 && turn.parts.length > 0) emptied.add(turn);
    turn.parts = parts;
  }
  if (emptied.size > 0)
    conversation.turns = conversation.turns.filter((turn) => turn.parts.length > 0 || !emptied.has(turn));
}

/** Restores escaped ids of calls, and gives a call whose id an earlier one with a result has one of its own. */
function readCallIds(turns: readonly Turn[]): ReadonlyMap<string, ToolCall> {
  const calls = new Map<string, ToolCall>();
  /** The latest call by the client's id. */
  const latest = new Map<string, { id: string; hasResult: boolean }>();
  for (const { parts } of turns)
    for (const part of parts)
      if (part.kind === "tool_call") {
        const id = restoreId(part.id);
        part.id = latest.get(id)?.hasResult ? unusedId(id, calls) : id;
        latest.set(id, { id: part.id, hasResult: false });
        if (!calls.has(part.id)) calls.set(part.id, part);
      } else if (part.kind === "tool_result") {
        part.callId = restoreId(part.callId);
        const call = latest.get(part.callId);
        if (!call) continue;
        part.callId = call.id;
        call.hasResult = true;
      }
  return calls;
}

/** Reports whether a part is state that belongs to another part. */
const isMisplacedState = (part: Part): boolean => part.kind === "reasoning" && part.opaque?.on !== undefined;

/** Returns the thoughts that share a piece of reasoning with another part's state: unsigned, and of the same origin. */
const readableThoughts = (part: Reasoning, state: Opaque): Reasoning[] =>
  part.text || part.summary?.some((text) => text !== "") ? [{ ...part, opaque: unsignedState(state) }] : [];

const withoutOwner = ({ on: _, ...opaque }: Opaque): Opaque => opaque;

/** Attaches state to its part; state whose part is no longer in the request is discarded. */
function attachState(part: ToolCall | Media | undefined, opaque: Opaque): void {
  if (part) part.opaque ??= withoutOwner(opaque);
}

/** The parts of a turn whose state is being placed. Each is moved once, however many pieces of state there are. */
class PlacedParts {
  private readonly parts: Part[] = [];
  /** The texts at the end, and the characters up to the end of each. */
  private texts: Text[] = [];
  private lengths: number[] = [];
  /** Reasoning within these texts, with the characters before it. */
  private within: { before: number; reasoning: Reasoning }[] = [];
  /** Reasoning with more text behind it than there is before its state. */
  private waiting: { textBehind: number; reasoning: Reasoning } | undefined;

  add(part: Part): void {
    const { waiting } = this;
    this.waiting = undefined;
    if (part.kind !== "text") {
      if (waiting) this.addThought(waiting.reasoning);
      this.end().push(part);
      return;
    }
    const before = this.length + part.text.length - (waiting?.textBehind ?? 0);
    if (waiting && before > 0) this.within.push({ before, reasoning: waiting.reasoning });
    else if (waiting) this.addThought(waiting.reasoning);
    this.texts.push(part);
    this.lengths.push(this.length + part.text.length);
  }

  private get length(): number {
    return this.lengths.at(-1) ?? 0;
  }

  /**
   * Puts reasoning's state back to its reasoning before the texts that precede the state, or between them, if not all of them were
   * behind the reasoning; before these texts if the client sends no reasoning. State with more text behind it is that of the text
   * that follows, which its client has joined from several.
   */
  addThoughtState(part: Reasoning): void {
    if (this.waiting) this.addThought(this.waiting.reasoning);
    this.waiting = undefined;
    const { textBehind = this.length, ...state } = part.opaque as Opaque;
    const reasoning = { ...part, opaque: withoutOwner(state) };
    const before = this.length - textBehind;
    if (before > 0) this.within.push({ before, reasoning });
    else if (before < 0) this.waiting = { textBehind, reasoning };
    else this.addThought(reasoning);
  }

  /** Puts reasoning before the texts at the end. */
  private addThought(reasoning: Reasoning): void {
    const { parts } = this;
    const thought = parts.at(-1);
    if (thought?.kind === "reasoning" && !thought.opaque)
      parts[parts.length - 1] = { ...thought, opaque: reasoning.opaque as Opaque };
    else parts.push(reasoning);
  }

  /** Returns all parts. */
  end(): Part[] {
    if (this.waiting) this.addThought(this.waiting.reasoning);
    this.waiting = undefined;
    const { parts, texts, lengths } = this;
    const within = this.within.sort((a, b) => a.before - b.before);
    let next = 0;
    for (const [i, text] of texts.entries()) {
      let rest = text;
      for (let at = within[next]; at && at.before < (lengths[i] as number); at = within[++next]) {
        const [taken, left] = splitText(rest, at.before - (lengths[i] as number) + rest.text.length);
        if (taken) parts.push(taken);
        parts.push(at.reasoning);
        rest = left;
      }
      parts.push(rest);
    }
    for (const { reasoning } of within.slice(next)) parts.push(reasoning);
    [this.texts, this.lengths, this.within] = [[], [], []];
    return parts;
  }
}

/** Splits a text, but not between the halves of a surrogate pair, and not one whose citations count its characters. */
function splitText(text: Text, length: number): [taken: Text | undefined, left: Text] {
  const end = /^[\udc00-\udfff]/.test(text.text.slice(length, length + 1)) ? length + 1 : length;
  if (end <= 0 || text.citations || text.opaque) return [undefined, text];
  const { cache: _, ...first } = text;
  return [
    { ...first, text: text.text.slice(0, end) },
    { ...text, text: text.text.slice(end) },
  ];
}

/** The assistant's media by key, indexed on first use. */
class MediaByKey {
  private byKey: Map<string, Media> | undefined;

  constructor(private readonly turns: readonly Turn[]) {}

  get(key: string): Media | undefined {
    this.byKey ??= new Map(
      this.turns
        .flatMap(({ role, parts }) => (role === "assistant" ? parts : []))
        .flatMap((part) =>
          part.kind === "media" && "base64" in part.source
            ? [[TextKey.ofMedia(part.source.base64), part] as const]
            : [],
        ),
    );
    return this.byKey.get(key);
  }
}

/**
 * Attaches state to the next text of the response. Returns false where there is none: the state belonged to an empty text.
 * @param from the part of the turn after the state
 */
function attachToText({ parts }: Turn, from: number, nextTurn: Turn | undefined, opaque: Opaque): boolean {
  const next = textOrEnd(parts, from) ?? (nextTurn?.role === "assistant" ? textOrEnd(nextTurn.parts, 0) : undefined);
  if (next?.kind !== "text" || next.opaque !== undefined) return false;
  next.opaque = withoutOwner(opaque);
  return true;
}

/** Returns the first text at or after a part; or a call or the state of another text, if that comes before. */
function textOrEnd(parts: readonly Part[], from: number): Part | undefined {
  for (let i = from; i < parts.length; i++) {
    const part = parts[i] as Part;
    const isOtherState = part.kind === "reasoning" && part.opaque?.on === "text";
    if (part.kind === "text" || part.kind === "tool_call" || isOtherState) return part;
  }
  return undefined;
}

/** Reports whether opaque state was created by its reader, or came from the client in the reader's own protocol. */
export const isReadable = ({ protocol, account }: Opaque, reader: StateReader): boolean =>
  !reader.withoutState && protocol === reader.protocol && (account === undefined || account === reader.account);

/**
 * Returns the conversation without what its reader cannot read. Opaque state of another account or protocol is removed, and
 * reasoning with its state: its text is never sent as if the assistant had said it. Blocks and tools that only their own
 * protocol understands are removed too; their use by the client has been judged before.
 * @param onRemoved called for each removed piece of state, with the client's path of the part that held it, and that part's kind
 */
export function keepReadable(
  conversation: Conversation,
  reader: StateReader,
  onRemoved: (opaque: Opaque, path: string, on: Part["kind"]) => void,
): Conversation {
  const turns = conversation.turns.flatMap((turn): Turn | Turn[] => {
    // Nearly all turns need no change.
    if (turn.parts.every(isReadableByAll)) return turn;
    const parts = turn.parts.flatMap((part): Part[] => {
      if (part.kind === "foreign") return part.protocol === reader.protocol ? [part] : [];
      if (!("opaque" in part) || part.opaque === undefined) return [part];
      const { opaque, ...rest } = part;
      if (isReadable(opaque, reader)) return [opaque.kind === UNSIGNED_KIND ? (rest as Part) : part];
      onRemoved(opaque, part.at, part.kind);
      return part.kind === "reasoning" || (part.kind === "text" && part.text === "") ? [] : [rest as Part];
    });
    return parts.length === 0 && turn.parts.length > 0 ? [] : [{ ...turn, parts }];
  });
  const tools = conversation.tools.filter((tool) => tool.kind !== "server" || tool.protocol === reader.protocol);
  return { ...withTools(conversation, tools), turns };
}

/** Reports whether any reader can read a part. */
const isReadableByAll = (part: Part): boolean =>
  part.kind !== "foreign" && !("opaque" in part && part.opaque !== undefined);
