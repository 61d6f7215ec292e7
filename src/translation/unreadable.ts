import { type JsonPath, pathEdits } from "../wire/paths.ts";
import type { Edit } from "../wire/splice.ts";
import type { JsonObject } from "../wire/values.ts";
import type { OpaquePlace } from "./codec.ts";
import type { Envelopes } from "./envelope.ts";
import type { Losses } from "./losses.ts";
import { isReadable, UNREADABLE_NOTICE, UNSIGNED_KIND } from "./opaque-state.ts";
import { lossesFor, type RequestDestination } from "./request.ts";

/** Changes to a request that passes without translation to a provider of its own protocol. */
interface UnreadableEdits {
  /** All other bytes stay unchanged. */
  edits: Edit[];
  losses: Losses;
}

/** Notice to the client where citations of a search that its provider cannot read were left out. */
const UNREADABLE_SEARCH_NOTICE =
  "What another provider's search has found was left out of the request: only that one can read it.";

/**
 * Removes other providers' opaque state from a request in the provider's own protocol, with everything that is invalid without
 * it, and restores the provider's own state to its raw form. Where nothing is removed, state may have been lost before the
 * gateway: what the provider is certain to refuse then is repaired, unless `strict` leaves the request as it is.
 * @param text the request, valid JSON
 * @param body the same, parsed
 * @param strict whether a loss is refused
 * @param owners the state's possible owners
 * @throws GatewayError `invalid_field`, `not_translatable` with the client's own path
 */
export function removeUnreadable(
  text: Buffer,
  body: JsonObject,
  envelopes: Envelopes,
  to: RequestDestination,
  strict: boolean,
  owners?: readonly string[],
): UnreadableEdits {
  const losses = lossesFor(to, strict);
  const { withoutState = false } = to;
  const { opaque } = to.protocol.translation.request;
  const remove: JsonPath[] = [];
  const replace: [JsonPath, string][] = [];
  const removed: OpaquePlace[] = [];
  for (const place of opaque.find(body)) {
    const state = openStateAt(place, body, envelopes, owners);
    if (!state) {
      // What stands for a part of the conversation stays.
      if (withoutState && !place.replacement) removed.push(place);
      continue;
    }
    const replacement = place.replacement?.(state);
    if (replacement !== undefined) replace.push([place.span, replacement]);
    else if (withoutState || !isReadable(state, { protocol: to.protocol.name, account: to.account }))
      removed.push(place);
    else if (state.kind === UNSIGNED_KIND) remove.push(place.path);
    else replace.push([place.path, JSON.stringify(state.data)]);
  }
  for (const { span, isFound } of removed) {
    const what = isFound ? "What another provider's search has found" : "Reasoning that another provider made";
    // In strict mode nothing may be left out: `drop` refuses.
    if (strict) losses.drop(span.join("."), `${what} can be read only by that provider`);
    losses.note(isFound ? UNREADABLE_SEARCH_NOTICE : UNREADABLE_NOTICE);
  }
  const removedSpans = removed.map(({ span }) => span);
  const changes =
    removedSpans.length > 0
      ? opaque.consequences?.(body, removedSpans, to)
      : strict
        ? []
        : opaque.lost?.repairs(body, to);
  for (const { path, json, why } of changes ?? []) {
    if (json === undefined) remove.push(path);
    else replace.push([path, json]);
    if (why !== undefined) losses.change(path.join("."), why);
  }
  return { edits: pathEdits(text, { remove: [...remove, ...removedSpans], replace }), losses };
}

/** Returns an envelope's content; undefined for another string, which the provider validates. */
function openStateAt({ path }: OpaquePlace, body: JsonObject, envelopes: Envelopes, owners?: readonly string[]) {
  let value: unknown = body;
  for (const name of path) value = (value as JsonObject | undefined)?.[name];
  if (typeof value !== "string" || !envelopes.isEnvelope(value)) return undefined;
  return envelopes.open(value, owners);
}
