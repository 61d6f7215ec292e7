import type { EncodeContext } from "./codec.ts";
import type { Conversation, Media, Part, Turn } from "./conversation.ts";

/** Declares what the assistant made: vendors differ on whether it can stand in its turns. */
export function declareMedia({ turns, uses }: Conversation): void {
  for (const { role, parts } of turns)
    if (role === "assistant")
      for (const { at } of parts.filter(isMedia)) uses.push({ feature: "assistant_media", path: at });
}

/**
 * The conversation with the media that the assistant made in the user's next turn, behind results of tools and with a
 * word on whose they are: for protocols whose assistant says text only. What the user says next is mostly about them.
 * @param context told of each; what no turn of the user follows is dropped
 */
export function mediaWithUser(
  conversation: Conversation,
  context: Pick<EncodeContext, "change" | "drop">,
): Conversation {
  const made = conversation.turns.some(({ role, parts }) => role === "assistant" && parts.some(isMedia));
  if (!made) return conversation;
  const last = conversation.turns.findLastIndex(({ role }) => role === "user");
  const turns: Turn[] = [];
  let waiting: Media[] = [];
  for (const [n, turn] of conversation.turns.entries()) {
    if (turn.role === "assistant") {
      waiting.push(...turn.parts.filter(isMedia));
      const parts = n < last ? saying(turn.parts) : turn.parts.filter((part) => !isMedia(part));
      if (parts.length > 0 || turn.parts.length === 0) turns.push({ ...turn, parts });
    } else if (turn.role === "user" && waiting.length > 0 && takesMedia(turn, conversation.turns[n + 1])) {
      for (const { at } of waiting)
        context.change(
          at,
          "what the assistant made is sent with the user's next turn, as the assistant says text only",
        );
      turns.push(withMedia(turn, waiting));
      waiting = [];
    } else turns.push(turn);
  }
  for (const { at } of waiting) context.drop(at, "the assistant says text only, and no turn of the user follows");
  return { ...conversation, turns };
}

/**
 * What an assistant says without its media: a word in their place where it would say nothing, for turns alternate, and reasoning
 * comes back in front of what it has led to.
 */
function saying(parts: readonly Part[]): Part[] {
  const words = parts.filter((part) => !isMedia(part));
  const [media] = parts.filter(isMedia);
  if (media && words.every(({ kind }) => kind === "reasoning"))
    words.push({ kind: "text", at: media.at, text: `[${media.media}]` });
  return words;
}

const isMedia = (part: Part): part is Media => part.kind === "media";

/** Results of a step may be a turn each: media stand behind the last of them. */
const takesMedia = ({ parts }: Turn, next: Turn | undefined): boolean =>
  next?.role !== "user" || parts.some(({ kind }) => kind !== "tool_result");

function withMedia(turn: Turn, media: readonly Media[]): Turn {
  const from = turn.parts.findLastIndex(({ kind }) => kind === "tool_result") + 1;
  const added = media.flatMap((each): Part[] => [
    { kind: "text", at: each.at, text: `[${each.media} made by the assistant]` },
    each,
  ]);
  return { ...turn, parts: turn.parts.toSpliced(from, 0, ...added) };
}
