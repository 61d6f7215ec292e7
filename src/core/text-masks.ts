import { randomInt } from "node:crypto";
import { type Edit, removeMembers } from "../wire/splice.ts";
import type { Body } from "./body.ts";
import { GatewayError } from "./errors.ts";
import type { Protocol } from "./protocol.ts";
import { type Slots, slot } from "./slot.ts";
import type { Stage } from "./stage.ts";
import { checkTextMatch, type Replace, type TextMatch } from "./text-replacer.ts";

/** A request with more different matches is refused: each of them is kept until the response has ended. */
const MAX_MASKED = 100_000;
const MAX_DIGITS = 9;

/** The part of an exchange that masks need. */
interface MaskedExchange {
  readonly slots: Slots;
  readonly protocol: Protocol;
  readonly body: Body;
  readonly form?: unknown;
  edit(edits: readonly Edit[]): void;
  replaceText(match: TextMatch, replace: Replace): Promise<void>;
  replaceResponseText(match: TextMatch, replace: Replace): Stage | undefined;
}

/** Masks of one name, like `<email-1>`, and the texts in whose place they are in a request. */
class TextMasks {
  private readonly masks = new Map<string, string>();
  private readonly originals: string[] = [];
  /** The number before that of the first mask. */
  private offset = 0;
  /** How many masks there were before this call: they are in the texts, and are no client's. */
  private before = 0;
  readonly match: TextMatch;

  constructor(private readonly name: string) {
    if (!/^[a-z]+(?:-[a-z]+)*$/.test(name)) throw new TypeError(`A mask's name is of letters a to z, not "${name}".`);
    this.match = { pattern: new RegExp(`<${name}-\\d{1,${MAX_DIGITS}}>`), maxLength: name.length + MAX_DIGITS + 3 };
  }

  mask(exchange: MaskedExchange, match: TextMatch): Promise<void> {
    checkTextMatch(match);
    if (exchange.form)
      throw new GatewayError("unsupported_media_type", { message: "The fields of a form cannot be masked." });
    const { body, protocol } = exchange;
    const { pattern, maxLength } = match;
    // What looks like a mask is masked too, and restored as it was.
    const either = new RegExp(`${pattern.source}|${this.match.pattern.source}`, pattern.flags.replace(/[gy]/g, ""));
    const labels = (protocol.labelMembers ?? []).filter((name) => either.test(JSON.stringify(body.value(name)) ?? ""));
    if (body.scan && labels.length > 0) exchange.edit(removeMembers(body.scan, labels));
    // The provider has kept masks of former requests: none of them may have a number of this one's, and be restored as that.
    if (this.masks.size === 0 && namesStored(body, protocol)) this.offset = randomInt(1_000_000, 900_000_000);
    this.before = this.originals.length;
    const longest = Math.max(maxLength, this.match.maxLength);
    return exchange.replaceText({ ...match, pattern: either, maxLength: longest }, this.maskOf);
  }

  private readonly maskOf = (original: string): string => {
    const known = this.numberOf(original) <= this.before ? original : this.masks.get(original);
    if (known !== undefined) return known;
    const count = this.originals.push(original);
    if (count > MAX_MASKED)
      throw new GatewayError("body_too_large", {
        message: `More than ${MAX_MASKED} texts (${this.name}) would be masked.`,
      });
    const mask = `<${this.name}-${this.offset + count}>`;
    this.masks.set(original, mask);
    return mask;
  };

  /** Returns the text in whose place a mask is; undefined: it is not one of these. */
  originalOf(mask: string): string | undefined {
    return this.originals[this.numberOf(mask) - 1];
  }

  /** Returns the place of a mask among these; NaN: it has none. */
  private numberOf(mask: string): number {
    return mask.startsWith(`<${this.name}-`) ? Number(mask.slice(this.name.length + 2, -1)) - this.offset : Number.NaN;
  }
}

/** Whether a request names something that the provider has kept, like a former response. */
function namesStored(body: Body, { objects }: Protocol): boolean {
  const names = objects ? [...objects.topLevel, ...objects.anyDepth] : [];
  return names.some((name) => body.member(name));
}

const masksOf = slot(() => new Map<string, TextMasks>());

/** `Exchange.maskText`. */
export const maskText = (exchange: MaskedExchange, name: string, match: TextMatch): Promise<void> =>
  masksOf(exchange)
    .getOrInsertComputed(name, () => new TextMasks(name))
    .mask(exchange, match);

/** `Exchange.unmaskResponseText`. */
export function unmaskResponseText(exchange: MaskedExchange, names: readonly string[]): Stage | undefined {
  const all = names.flatMap((name) => masksOf(exchange).get(name) ?? []);
  if (all.length === 0) return undefined;
  const match: TextMatch = {
    pattern: new RegExp(all.map(({ match }) => match.pattern.source).join("|")),
    maxLength: Math.max(...all.map(({ match }) => match.maxLength)),
  };
  return exchange.replaceResponseText(match, (mask) => {
    for (const masks of all) {
      const original = masks.originalOf(mask);
      if (original !== undefined) return original;
    }
    return mask;
  });
}
