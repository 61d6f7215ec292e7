import { Options, type Plugin, type RequestExchange, type ResponseExchange, type Stage, slot } from "model-gateway";
import { inject, injectable } from "tsyringe";
import { z } from "zod";

// Matches only at the beginning of a word, so that a megabyte of one letter takes linear time.
const ADDRESS = /(?<![\w.+-])[\w.+-]{1,64}@[\w-]+(?:\.[\w-]+)+/g;
const MASK = { pattern: /<address-\d+>/, maxLength: 20 };
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

  request(exchange: RequestExchange): void {
    const addresses = this.addresses(exchange);
    const masks = new Map<string, string>();
    exchange.mapText(this.options.kinds, (text) =>
      text.replace(ADDRESS, (address) => {
        const known = masks.get(address);
        if (known !== undefined) return known;
        const mask = `<address-${addresses.push(address)}>`;
        masks.set(address, mask);
        return mask;
      }),
    );
  }

  response(exchange: ResponseExchange): Stage | undefined {
    const addresses = this.addresses(exchange);
    if (addresses.length === 0) return undefined;
    return exchange.mapResponseText(MASK, (mask) => addresses[Number(mask.replace(/\D/g, "")) - 1] ?? mask);
  }
}
