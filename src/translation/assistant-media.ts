import type { EncodeContext } from "./codec.ts";
import type { Conversation, Media, Part, Turn } from "./conversation.ts";

/** Declares media made by the assistant: vendors differ on whether its turns can hold them. */
export function declareAssistantMedia({ turns, uses }: Conversation): void {
  for (const { role, parts } of turns)
    if (role === "assistant")
      for (const { at } of parts.filter(isMedia)) uses.push({ feature: "assistant_media", path: at });
}

/**
 * Moves media made by the assistant into the user's next turn, after tool results and with a label that names their author:
 * for protocols whose assistant turns hold text only. The user's next turn is usually about them.
 * @param context receives a notice for each; media that no user turn follows are dropped
 */
export function moveMediaToUser(
  conversation: Conversation,
  context: Pick<EncodeContext, "change" | "drop">,
): Conversation {
  const hasMedia = conversation.turns.some(({ role, parts }) => role === "assistant" && parts.some(isMedia));
  if (!hasMedia) return conversation;
  const last = conversation.turns.findLastIndex(({ role }) => role === "user");
  const turns: Turn[] = [];
  let pending: Media[] = [];
  for (const [n, turn] of conversation.turns.entries()) {
    if (turn.role === "assistant") {
      pending.push(...turn.parts.filter(isMedia));
      const parts = n < last ? withoutMedia(turn.parts) : turn.parts.filter((part) => !isMedia(part));
      if (parts.length > 0 || turn.parts.length === 0) turns.push({ ...turn, parts });
    } else if (turn.role === "user" && pending.length > 0 && acceptsMedia(turn, conversation.turns[n + 1])) {
      for (const { at } of pending)
        context.change(
          at,
          "media of the assistant are sent with the user's next turn, because assistant messages contain only text",
        );
      turns.push(withMedia(turn, pending));
      pending = [];
    } else turns.push(turn);
  }
  for (const { at } of pending) context.drop(at, "assistant messages contain only text, and no user turn follows");
  return { ...conversation, turns };
}

/**
 * Returns an assistant turn's parts without media. A turn that would be empty gets a placeholder text, because turns must
 * alternate, and reasoning must come before the output it led to.
 */
function withoutMedia(parts: readonly Part[]): Part[] {
  const others = parts.filter((part) => !isMedia(part));
  const [media] = parts.filter(isMedia);
  if (media && others.every(({ kind }) => kind === "reasoning"))
    others.push({ kind: "text", at: media.at, text: `[${media.media}]` });
  return others;
}

const isMedia = (part: Part): part is Media => part.kind === "media";

/** Each result of a step may be a turn of its own: media go after the last of them. */
const acceptsMedia = ({ parts }: Turn, next: Turn | undefined): boolean =>
  next?.role !== "user" || parts.some(({ kind }) => kind !== "tool_result");

function withMedia(turn: Turn, media: readonly Media[]): Turn {
  const index = turn.parts.findLastIndex(({ kind }) => kind === "tool_result") + 1;
  const added = media.flatMap((item): Part[] => [
    { kind: "text", at: item.at, text: `[${item.media} made by the assistant]` },
    item,
  ]);
  return { ...turn, parts: turn.parts.toSpliced(index, 0, ...added) };
}
