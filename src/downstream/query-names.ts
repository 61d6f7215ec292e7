import type { Protocol } from "../core/protocol.ts";
import { foldCase } from "../wire/any-case.ts";

/** Parameters in which some servers look for a model, although path or body name one. */
const MODEL = /^\W*(?:models?|deployments?|engines?)(?:[-_.]?(?:id|name))?(?:\W|$)/iu;
/** A member that affects the price in every protocol. */
const TIER = "service_tier";
const PARTS = /[^\p{L}\p{N}_-]+/u;

const checkedNames = new WeakMap<Protocol, ReadonlySet<string>>();

/** Reports whether some servers look for a model in a query parameter. */
export const namesModel = (name: string): boolean => MODEL.test(name);

/**
 * Reports whether a query parameter repeats something that is checked in path and body: a model, an object that keys own, an
 * output limit. Some servers merge query parameters into the body (`?cachedContent=`, `?generationConfig.maxOutputTokens=`).
 */
export function repeatsCheckedMember(name: string, protocol: Protocol): boolean {
  if (namesModel(name)) return true;
  const checked = checkedNames.getOrInsertComputed(
    protocol,
    () => new Set(checkedMembers(protocol).map(normalizeName)),
  );
  return name.split(PARTS).some((part) => checked.has(normalizeName(part)));
}

/** Reports whether a form's field is one in which requests name further models: in a form these are neither checked nor renamed. */
export function namesOtherModels(field: string, protocol: Protocol): boolean {
  const [first = ""] = field.trim().split(PARTS);
  return otherModelMembers(protocol).some((each) => normalizeName(each) === normalizeName(first));
}

function otherModelMembers({ otherModels }: Protocol): string[] {
  const { topLevel = [], searched = [], vendorChoice = [] } = otherModels ?? {};
  return [...topLevel, ...searched, ...vendorChoice];
}

function checkedMembers(protocol: Protocol): string[] {
  const { objects, output } = protocol;
  const paths = [...(output?.tokens ?? []), ...(output?.multipliers ?? [])];
  const found = [TIER, output?.background, output?.premiumTier?.[0], output?.fallbackModels, ...paths.flat()];
  const named = [...(objects?.topLevel ?? []), ...(objects?.anyDepth ?? [])];
  return [...named, ...otherModelMembers(protocol), ...found].filter((each) => typeof each === "string");
}

/** Normalizes spellings: `max_output_tokens`, `maxOutputTokens` and `max_output_to\u212aens` become equal. */
const normalizeName = (name: string): string => foldCase(name).replaceAll(/[-_]/g, "");
