import { setImmediate as turn } from "node:timers/promises";
import {
  GatewayError,
  Options,
  type Plugin,
  type RequestExchange,
  type ResponseExchange,
  type Stage,
  slot,
} from "model-gateway";
import { inject, injectable } from "tsyringe";
import { z } from "zod";

// Matches only at the beginning of a word, and a bounded number of characters: any text takes linear time.
const ADDRESS = /(?<![\w.+-])[\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63}){1,30}/g;
const MAX_MATCH = 64 + 1 + 63 + 30 * 64;
const MASK = { pattern: /<address-\d+>/, maxLength: 20 };
/** Characters that are searched in one turn of the event loop, so that a large request does not delay others. */
const STEP = 32 * 1024;
const MAX_ADDRESSES = 100_000;
const Kind = z.enum(["system", "user", "assistant", "reasoning", "tool_call", "tool_result"]);

/** Masks e-mail addresses in requests to a provider, and restores them in its response: in every protocol, streamed or not. */
@injectable()
export default class Redact implements Plugin {
  static options = z.strictObject({
    kinds: z.array(Kind).default(Kind.options).describe("Whose texts are masked."),
  });
  static after = ["auth"];

  /** Addresses in the order of their masks. */
  private readonly addresses = slot((): string[] => []);

  constructor(@inject(Options) private readonly options: z.infer<typeof Redact.options>) {}

  async request(exchange: RequestExchange): Promise<void> {
    const { kinds } = this.options;
    const addresses = this.addresses(exchange);
    const masks = new Map<string, string>();
    const maskOf = (address: string): string => {
      const known = masks.get(address);
      if (known !== undefined) return known;
      if (addresses.length === MAX_ADDRESSES)
        throw new GatewayError("body_too_large", { message: `There are more than ${MAX_ADDRESSES} e-mail addresses.` });
      const mask = `<address-${addresses.push(address)}>`;
      masks.set(address, mask);
      return mask;
    };
    const masked = new Map<string, string>();
    let searched = 0;
    for (const { text } of exchange.texts(kinds)) {
      const parts: string[] = [];
      for (const part of maskedParts(text, maskOf)) {
        parts.push(part);
        searched += Math.min(text.length, STEP);
        if (searched >= STEP) await turn();
        searched %= STEP;
      }
      masked.set(text, parts.join(""));
    }
    if (addresses.length > 0) exchange.mapText(kinds, (text) => masked.get(text) as string);
  }

  response(exchange: ResponseExchange): Stage | undefined {
    const addresses = this.addresses(exchange);
    if (addresses.length === 0) return undefined;
    return exchange.mapResponseText(MASK, (mask) => addresses[Number(mask.replace(/\D/g, "")) - 1] ?? mask);
  }
}

/** Yields a text in parts, with its addresses masked. A part ends after the addresses that begin in its `STEP` characters. */
function* maskedParts(text: string, maskOf: (address: string) => string): Generator<string> {
  for (let from = 0, end = 0; end < text.length; from = end) {
    const start = Math.max(0, from - 1);
    const searched = text.slice(start, from + STEP + MAX_MATCH);
    let part = "";
    ADDRESS.lastIndex = from - start;
    for (let found = ADDRESS.exec(searched); found; found = ADDRESS.exec(searched)) {
      if (found.index >= from - start + STEP) break;
      part += text.slice(end, start + found.index) + maskOf(found[0]);
      end = start + ADDRESS.lastIndex;
    }
    const rest = text.slice(end, Math.max(end, from + STEP));
    end += rest.length;
    yield part + rest;
  }
}
