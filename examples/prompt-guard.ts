import { setImmediate as turn } from "node:timers/promises";
import { GatewayError, Options, type Plugin, type RequestExchange } from "model-gateway";
import { inject, injectable } from "tsyringe";
import { z } from "zod";

/** Phrases that tell a model to ignore its instructions, and invisible characters. */
const PATTERNS = [
  "\\b(?:ignore|disregard|forget)\\b.{0,40}\\b(?:previous|prior|above|earlier)\\b.{0,40}\\b(?:instructions?|prompts?|rules?)\\b",
  "\\b(?:reveal|print|repeat)\\b.{0,40}\\b(?:system|developer) (?:prompt|message|instructions?)\\b",
  "[\\u{E0000}-\\u{E007F}]",
];
/**
 * Characters that are searched in one turn of the event loop, so that a large request does not delay others, and of the longest
 * match, with what it looks at before and after.
 */
const [STEP, MAX_MATCH] = [32 * 1024, 1024];
const Kind = z.enum(["system", "user", "assistant", "reasoning", "tool_call", "tool_result"]);
const Pattern = z.string().refine(compiles, "expected a regular expression");

/** Detects prompt injection in texts of users and results of tools, in every protocol. */
@injectable()
export default class PromptGuard implements Plugin {
  static options = z.strictObject({
    patterns: z
      .array(Pattern)
      .min(1)
      .default(PATTERNS)
      .describe(`Regular expressions (flags iu). Longer matches than ${MAX_MATCH} characters may be missed.`),
    kinds: z.array(Kind).default(["user", "tool_result"]).describe("Whose texts are looked at."),
    found: z.enum(["refuse", "notice"]).default("refuse").describe("What becomes of such a request."),
  });
  static after = ["auth"];

  private readonly patterns: readonly RegExp[];

  constructor(@inject(Options) private readonly options: z.infer<typeof PromptGuard.options>) {
    this.patterns = options.patterns.map((source) => new RegExp(source, "giu"));
  }

  async request(exchange: RequestExchange): Promise<void> {
    const { kinds, found } = this.options;
    const bad = await this.findBad(exchange.texts(kinds));
    if (!bad) return;
    const message = `A text of the ${bad.kind.replace("_", " ")} seems to give the model new orders.`;
    if (found === "notice") exchange.notices.push(message);
    else throw new GatewayError("prompt_guarded", { status: 422, kind: "invalid", message });
  }

  private async findBad<Text extends { text: string }>(texts: readonly Text[]): Promise<Text | undefined> {
    let searched = 0;
    for (const each of texts)
      for (let from = 0; from < each.text.length; from += STEP) {
        if (this.patterns.some((pattern) => matchesPart(pattern, each.text, from))) return each;
        searched += Math.min(each.text.length - from, STEP);
        if (searched >= STEP) await turn();
        searched %= STEP;
      }
    return undefined;
  }
}

/** Reports whether a match begins within `STEP` characters of a text. It is tried with `MAX_MATCH` more before and after them. */
function matchesPart(pattern: RegExp, text: string, from: number): boolean {
  const start = Math.max(0, from - MAX_MATCH);
  pattern.lastIndex = from - start;
  const found = pattern.exec(text.slice(start, from + STEP + MAX_MATCH));
  return found !== null && found.index < from - start + STEP;
}

function compiles(source: string): boolean {
  try {
    return new RegExp(source, "iu") instanceof RegExp;
  } catch {
    return false;
  }
}
