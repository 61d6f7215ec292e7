import { GatewayError, Options, type Plugin, type RequestExchange } from "model-gateway";
import { inject, injectable } from "tsyringe";
import { z } from "zod";

/** Phrases that tell a model to ignore its instructions, and invisible characters. */
const PATTERNS = [
  "\\b(?:ignore|disregard|forget)\\b[^]{0,40}\\b(?:previous|prior|above|earlier)\\b[^]{0,40}\\b(?:instructions?|prompts?|rules?)\\b",
  "\\b(?:reveal|print|repeat)\\b[^]{0,40}\\b(?:system|developer)\\s{1,9}(?:prompt|message|instructions?)\\b",
  "[\\u{E0000}-\\u{E007F}]",
];
/** Characters of the longest match. */
const MAX_MATCH = 1024;
const Kind = z.enum(["system", "user", "assistant", "reasoning", "tool_call", "tool_result"]);
const Pattern = z.string().refine(matchesSomething, "expected a regular expression that does not match the empty text");

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
    this.patterns = options.patterns.map((source) => new RegExp(source, "iu"));
  }

  async request(exchange: RequestExchange): Promise<void> {
    const { kinds, found } = this.options;
    for (const pattern of this.patterns) {
      const match = await exchange.findText({ pattern, maxLength: MAX_MATCH, kinds });
      if (!match) continue;
      const message = `A text of the ${match.kind.replace("_", " ")} seems to give the model new orders.`;
      if (found === "refuse") throw new GatewayError("prompt_guarded", { status: 422, kind: "invalid", message });
      exchange.notices.push(message);
      return;
    }
  }
}

function matchesSomething(source: string): boolean {
  try {
    return !new RegExp(source, "iu").test("");
  } catch {
    return false;
  }
}
