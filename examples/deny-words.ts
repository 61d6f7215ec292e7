import { GatewayError, Options, type Plugin, type RequestExchange } from "model-gateway";
import { inject, injectable } from "tsyringe";
import { z } from "zod";

/** Refuses requests in which a user writes one of some words, in every protocol. */
@injectable()
export default class DenyWords implements Plugin {
  static options = z.strictObject({ words: z.array(z.string().min(1)).min(1) });

  private readonly denied: RegExp;

  constructor(@inject(Options) { words }: z.infer<typeof DenyWords.options>) {
    const exact = words.map((word) => RegExp.escape(word)).join("|");
    this.denied = new RegExp(`(?<![\\p{L}\\p{N}])(?:${exact})(?![\\p{L}\\p{N}])`, "iu");
  }

  request(exchange: RequestExchange): void {
    const denied = exchange.texts(["user"]).some(({ text }) => this.denied.test(text));
    if (denied)
      throw new GatewayError("word_denied", {
        status: 422,
        kind: "invalid",
        message: "A word of this text is not allowed here.",
      });
  }
}
