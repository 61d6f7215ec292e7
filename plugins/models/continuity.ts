import { hash } from "node:crypto";
import { type Health, Marketplace, type Protocol, type RouteExchange, type Target } from "model-gateway";

/** How a protocol identifies a conversation. */
type ConversationNames = NonNullable<Protocol["conversation"]>;

/** Leading turns in which the user's first text is searched. */
const MAX_SEARCHED_TURNS = 8;

/**
 * Returns a hash that is the same for all requests of a conversation, and on every instance: of the client's own name for it
 * (a cache key, a header of an agent), or else of its first text. The system prompt is not part of it: all conversations of an
 * application have the same, and would go to one target. It never contains the text itself.
 */
export function conversationPin(exchange: RouteExchange): string | undefined {
  const { conversation } = exchange.protocol;
  const name = conversation && (conversationName(exchange, conversation) ?? openingText(exchange, conversation));
  if (!name) return undefined;
  return hash("sha256", `${exchange.caller?.id ?? ""} ${exchange.model?.id ?? ""} ${name}`, "base64url");
}

/** Returns the client's name of the conversation. */
function conversationName(
  { headers, body }: RouteExchange,
  { members, headers: names }: ConversationNames,
): string | undefined {
  for (const [name = "", ...below] of members) {
    const value = body.member(`${name}`) && valueAt(body.value(`${name}`), below);
    if (typeof value === "string" && value !== "") return value;
  }
  for (const name of names) {
    const value = headers.get(name);
    if (value) return value;
  }
  return undefined;
}

/**
 * Returns the user's first text, in any form: clients send the same text as a string and in parts. Of a turn with a mark for the
 * prompt cache, as behind a document, it is the text up to that: questions about one document share its cached prefix.
 */
function openingText(
  { protocol, body }: RouteExchange,
  { turns, cacheMarks = [] }: ConversationNames,
): string | undefined {
  const member = body.member(turns);
  if (member?.kind === "string") return String(body.value(turns));
  if (member?.kind !== "array") return undefined;
  for (const turn of body.elements(turns, MAX_SEARCHED_TURNS)) {
    const request = { [turns]: [turn] };
    let text = "";
    for (const { path, kind } of protocol.texts.request(request)) {
      if (kind !== "user") continue;
      text += String(valueAt(request, path));
      const part = valueAt(request, path.slice(0, -1)) as Readonly<Record<string, unknown>> | undefined;
      if (text !== "" && cacheMarks.some((mark) => part?.[mark])) break;
    }
    if (text !== "") return text;
  }
  return undefined;
}

const valueAt = (json: unknown, path: readonly (string | number)[]): unknown =>
  path.reduce<unknown>((value, name) => (value as Record<string | number, unknown> | null | undefined)?.[name], json);

/**
 * Orders targets for a conversation by rendezvous hashing with weights: the first is the same as long as it exists, and so is
 * the second while it does not; adding or removing a target moves only that target's share of conversations.
 */
export function orderByPin(targets: readonly Target[], pin: string): Target[] {
  const scored = targets.map((target) => {
    const digest = hash("sha256", `${pin} ${Marketplace.nameOf(target)}`, "buffer");
    const chance = (digest.readUIntBE(0, 6) + 0.5) / 2 ** 48;
    return { target, score: target.weight / -Math.log(chance) };
  });
  return scored.sort((a, b) => b.score - a.score).map(({ target }) => target);
}

/** Returns the order with the target of the conversation's last request first: for balancing by load. */
export function preferPrevious(
  order: Target[],
  pin: string,
  health: Pick<Health, "conversationTarget" | "recordConversation">,
): Target[] {
  const before = health.conversationTarget(pin);
  const first = order.find((target) => Marketplace.nameOf(target) === before) ?? order[0];
  if (!first) return order;
  health.recordConversation(pin, first);
  return moveToFront(order, first);
}

/** Returns the order with one target first. */
export const moveToFront = (order: readonly Target[], first: Target): Target[] => [
  first,
  ...order.filter((target) => target !== first),
];
