import { Options, type Plugin, type RequestExchange, type ResponseExchange, type Stage } from "model-gateway";
import { inject, injectable } from "tsyringe";
import { z } from "zod";

// Matches only at the beginning of a word, and a bounded number of characters: any text takes linear time.
const ADDRESS = {
  pattern: /(?<![\w.+-])[\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63}){1,30}/,
  maxLength: 64 + 1 + 63 + 30 * 64,
};
const MASK = "address";
const Kind = z.enum(["system", "user", "assistant", "reasoning", "tool_call", "tool_result"]);

/**
 * Masks e-mail addresses in requests to a provider, and restores them in its response: in every protocol, streamed or not. Masks
 * of former requests, in a conversation that the provider stores, are not restored.
 */
@injectable()
export default class Redact implements Plugin {
  static options = z.strictObject({
    kinds: z.array(Kind).default(Kind.options).describe("Whose texts are masked."),
  });
  static after = ["auth"];

  constructor(@inject(Options) private readonly options: z.infer<typeof Redact.options>) {}

  async request(exchange: RequestExchange): Promise<void> {
    await exchange.maskText(MASK, { ...ADDRESS, kinds: this.options.kinds });
  }

  response(exchange: ResponseExchange): Stage | undefined {
    return exchange.unmaskResponseText(MASK);
  }
}
