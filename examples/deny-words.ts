import { GatewayError, Options, type Plugin, type RequestExchange } from "model-gateway";
import { inject, injectable } from "tsyringe";
import { z } from "zod";

/** Refuses requests in which a user writes one of some words, in every protocol. */
@injectable()
export default class DenyWords implements Plugin {
  static options = z.strictObject({ words: z.array(z.string().min(1)).min(1) });

  private readonly denied: RegExp;
  /** Characters of the longest word and of the one after it, which may be two units of UTF-16. */
  private readonly maxLength: number;

  constructor(@inject(Options) { words }: z.infer<typeof DenyWords.options>) {
    const exact = words.map((word) => RegExp.escape(word)).join("|");
    this.denied = new RegExp(`(?<![\\p{L}\\p{N}])(?:${exact})(?![\\p{L}\\p{N}])`, "iu");
    this.maxLength = Math.max(...words.map(({ length }) => length)) + 2;
  }

  async request(exchange: RequestExchange): Promise<void> {
    const { denied: pattern, maxLength } = this;
    if (await exchange.findText({ pattern, maxLength, kinds: ["user"] }))
      throw new GatewayError("word_denied", {
        status: 422,
        kind: "invalid",
        message: "A word of this text is not allowed here.",
      });
  }
}
