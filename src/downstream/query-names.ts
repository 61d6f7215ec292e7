import type { Protocol } from "../core/protocol.ts";
import { foldCase } from "../wire/any-case.ts";

/** Parameters in which some servers look for a model, though path or body name one. */
const MODEL = /^\W*(?:models?|deployments?|engines?)(?:[-_.]?(?:id|name))?(?:\W|$)/iu;
/** A member that every protocol prices. */
const TIER = "service_tier";
const PARTS = /[^\p{L}\p{N}_-]+/u;

const known = new WeakMap<Protocol, ReadonlySet<string>>();

/**
 * Whether a parameter of the query says what was judged in the path and the body: a model, an object that keys own, how much may
 * come out. Some servers put parameters into the body that they read (`?cachedContent=`, `?generationConfig.maxOutputTokens=`).
 */
export function saysWhatIsJudged(name: string, protocol: Protocol): boolean {
  if (MODEL.test(name)) return true;
  let judged = known.get(protocol);
  if (!judged) {
    judged = new Set(judgedMembers(protocol).map(plain));
    known.set(protocol, judged);
  }
  return name.split(PARTS).some((part) => judged.has(plain(part)));
}

function judgedMembers({ objects, otherModels, output }: Protocol): string[] {
  const paths = [...(output?.tokens ?? []), ...(output?.times ?? [])];
  const found = [TIER, output?.later, output?.tier?.[0], output?.further, ...paths.flat()];
  const named = [...(objects?.top ?? []), ...(objects?.anywhere ?? [])];
  return [...named, ...(otherModels?.below ?? []), ...found].filter((each) => typeof each === "string");
}

/** In any spelling: `max_output_tokens`, `maxOutputTokens` and `max_output_to\u212aens` are one. */
const plain = (name: string): string => foldCase(name).replaceAll(/[-_]/g, "");
