import { hash } from "node:crypto";
import type { Protocol, RouteExchange, Target } from "model-gateway";

/** How the protocol tells one conversation from another. */
type ConversationNames = NonNullable<Protocol["conversation"]>;

/** Elements of a conversation among which its first words are looked for. */
const FIRST = 8;
/** Conversations that are remembered where their target cannot be told from the pin alone; the oldest goes first. */
const REMEMBERED = 50_000;

/**
 * What all requests of one conversation have in common, and so any instance can tell: the client's own name for it (a cache
 * key, a header of an agent), or else its first words. Never the words themselves.
 */
export function pinOf(exchange: RouteExchange): string | undefined {
  const { conversation } = exchange.protocol;
  const name = conversation && (nameOf(exchange, conversation) ?? openingOf(exchange, conversation));
  if (!name) return undefined;
  return hash("sha256", `${exchange.caller?.id ?? ""} ${exchange.model?.id ?? ""} ${name}`, "base64url");
}

/** What the client calls the conversation. */
function nameOf({ headers, body }: RouteExchange, { members, headers: names }: ConversationNames): string | undefined {
  for (const [name = "", ...below] of members) {
    const value = body.member(`${name}`) && at(body.value(`${name}`), below);
    if (typeof value === "string" && value !== "") return value;
  }
  for (const name of names) {
    const value = headers.get(name);
    if (value) return value;
  }
  return undefined;
}

/** The user's first words, in whatever form they come: clients write the same text as a string and in parts. */
function openingOf({ protocol, body }: RouteExchange, { turns }: ConversationNames): string | undefined {
  const member = body.member(turns);
  if (member?.kind === "string") return String(body.value(turns));
  if (member?.kind !== "array") return undefined;
  for (const turn of body.elements(turns, FIRST)) {
    const request = { [turns]: [turn] };
    let words = "";
    for (const { path, kind } of protocol.texts.request(request))
      if (kind === "user") words += String(at(request, path));
    if (words !== "") return words;
  }
  return undefined;
}

function at(json: unknown, path: readonly (string | number)[]): unknown {
  let value = json;
  for (const name of path) value = (value as Record<string | number, unknown> | null | undefined)?.[name];
  return value;
}

/**
 * Targets in the order in which a conversation keeps to them (rendezvous hashing by weight): the same one first as long as it
 * is there, the same second one while it is not, and a target more or less moves its own share of conversations only.
 */
export function byPin(targets: readonly Target[], pin: string): Target[] {
  const scored = targets.map((target) => {
    const digest = hash("sha256", `${pin} ${nameOfTarget(target)}`, "buffer");
    const chance = (digest.readUIntBE(0, 6) + 0.5) / 2 ** 48;
    return { target, score: target.weight / -Math.log(chance) };
  });
  return scored.sort((a, b) => b.score - a.score).map(({ target }) => target);
}

const nameOfTarget = ({ provider, model }: Target): string => `${provider.name}:${model}`;

/** Shared by all generations, so that a reload moves nobody. */
const chosen = new Map<string, string>();

/** The order that was found, but the target that this conversation was given before stands first: for choices made by load. */
export function asBefore(order: Target[], pin: string): Target[] {
  const before = chosen.get(pin);
  const first = order.find((target) => nameOfTarget(target) === before) ?? order[0];
  if (!first) return order;
  chosen.delete(pin);
  chosen.set(pin, nameOfTarget(first));
  if (chosen.size > REMEMBERED) for (const [oldest] of chosen.entries().take(1)) chosen.delete(oldest);
  return toFront(order, first);
}

/** The same order with one of them first. */
export const toFront = (order: readonly Target[], first: Target): Target[] => [
  first,
  ...order.filter((target) => target !== first),
];
