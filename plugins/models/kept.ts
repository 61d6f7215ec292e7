import { type Caller, GatewayError, type ResponseExchange, type RouteExchange, type Stage } from "model-gateway";

/** Where an answer is kept, and for whom. */
interface KeptPlace {
  /** The key's id; empty for callers without one. */
  caller: string;
  /** The model of the marketplace that made it. */
  model: string;
  provider: string;
}

/** Answers that are remembered; the oldest is forgotten first. */
const REMEMBERED = 50_000;

/** By the answer's id. Shared by all generations, so that a reload forgets nothing. */
const places = new Map<string, KeptPlace[]>();

/** Where an answer of the caller's own is kept; another caller's is not found. */
export function placeOf(id: string, caller: Caller | undefined): KeptPlace | undefined {
  return places.get(id)?.find((place) => place.caller === (caller?.id ?? ""));
}

/**
 * The provider that keeps the answer which a request goes on from; undefined where nobody knows.
 * @throws GatewayError `answer_not_found` when that answer is another caller's.
 */
export function keeper({ protocol: { kept }, body, caller }: RouteExchange): string | undefined {
  const id = kept && body.value(kept.continues);
  if (!kept || typeof id !== "string" || !places.has(id)) return undefined;
  const place = placeOf(id, caller);
  if (!place) throw new GatewayError("answer_not_found", { status: 400, param: kept.continues });
  return place.provider;
}

/** Remembers where an answer is kept, from the id in its first frame; undefined for answers that are not. */
export function remembering(exchange: ResponseExchange): Stage | undefined {
  const { protocol, operation, body, model, caller, attempts } = exchange;
  const { kept } = protocol;
  const last = attempts.at(-1);
  const provider = last?.target.provider.name;
  if (!kept || !model || provider === undefined || !operation.generates) return undefined;
  // An answer that was translated has an id that its provider never heard of.
  if (last?.protocol !== protocol) return undefined;
  if (body.member(kept.keep)?.kind === "false") return undefined;
  let seen = false;
  return (frame) => {
    // A comment may come before the first event.
    if (seen || (frame.kind === "event" && frame.text === undefined)) return;
    seen = true;
    const id = kept.id(frame);
    if (id !== undefined) remember(id, { caller: caller?.id ?? "", model: model.id, provider });
  };
}

function remember(id: string, place: KeptPlace): void {
  const others = places.get(id)?.filter(({ caller }) => caller !== place.caller) ?? [];
  places.delete(id);
  places.set(id, [...others, place]);
  if (places.size <= REMEMBERED) return;
  const [oldest] = places.keys();
  if (oldest !== undefined) places.delete(oldest);
}
