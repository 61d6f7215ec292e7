import { setImmediate as turn } from "node:timers/promises";
import { GatewayError, Options, type Plugin, type RequestExchange } from "model-gateway";
import { inject, injectable } from "tsyringe";
import { z } from "zod";

/** Characters that are searched in one turn of the event loop, so that a large request does not delay others. */
const STEP = 32 * 1024;

/** Refuses requests in which a user writes one of some words, in every protocol. */
@injectable()
export default class DenyWords implements Plugin {
  static options = z.strictObject({ words: z.array(z.string().min(1)).min(1) });

  private readonly denied: RegExp;
  /** Characters of the longest word, with one before and one after it, each of which may be two units of UTF-16. */
  private readonly longest: number;

  constructor(@inject(Options) { words }: z.infer<typeof DenyWords.options>) {
    const exact = words.map((word) => RegExp.escape(word)).join("|");
    this.denied = new RegExp(`(?<![\\p{L}\\p{N}])(?:${exact})(?![\\p{L}\\p{N}])`, "giu");
    this.longest = Math.max(...words.map(({ length }) => length)) + 4;
  }

  async request(exchange: RequestExchange): Promise<void> {
    let searched = 0;
    for (const { text } of exchange.texts(["user"]))
      for (let from = 0; from < text.length; from += STEP) {
        this.check(text, from);
        searched += Math.min(text.length - from, STEP);
        if (searched >= STEP) await turn();
        searched %= STEP;
      }
  }

  /** Checks `STEP` characters of a text. @throws GatewayError where a denied word begins in them */
  private check(text: string, from: number): void {
    const start = Math.max(0, from - this.longest);
    this.denied.lastIndex = from - start;
    const found = this.denied.exec(text.slice(start, from + STEP + this.longest));
    if (found && found.index < from - start + STEP)
      throw new GatewayError("word_denied", {
        status: 422,
        kind: "invalid",
        message: "A word of this text is not allowed here.",
      });
  }
}
