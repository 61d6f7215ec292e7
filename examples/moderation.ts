import { GatewayError, type Head, Log, Options, type Plugin, type ResponseExchange } from "model-gateway";
import { inject, injectable } from "tsyringe";
import { z } from "zod";

const ModerationResponse = z.object({ results: z.array(z.object({ flagged: z.boolean() })) });

/**
 * Sends a response to a moderation endpoint before its first byte goes to the client. It is buffered until both are complete.
 */
@injectable()
export default class Moderation implements Plugin {
  static options = z.strictObject({
    url: z.url().describe("An endpoint that takes { input: [text] } and answers { results: [{ flagged }] }."),
    token: z.string().optional().describe("Sent as Authorization: Bearer; write $NAME."),
    model: z.string().optional().describe("The model that judges, where the endpoint has several."),
    seconds: z.number().positive().default(3).describe("How long it may take."),
    silent: z.enum(["refuse", "pass"]).default("refuse").describe("What becomes of answers that it cannot judge."),
    bytes: z.int().positive().default(4_194_304).describe("Of the largest answer; a larger one is refused."),
  });
  // Before rewrite: the response is in the client's protocol, from any provider.
  static before = ["rewrite"];

  constructor(
    private readonly log: Log,
    @inject(Options) private readonly options: z.infer<typeof Moderation.options>,
  ) {}

  async response(exchange: ResponseExchange, head: Head): Promise<void> {
    if (head.status >= 300 || !head.readBody || !exchange.operation.generates) return;
    const answer = await head.readBody(this.options.bytes);
    const input = exchange
      .completeResponseTexts(answer, ["assistant", "reasoning", "tool_call"])
      .map(({ text }) => text);
    if (input.length === 0 || !(await this.flags(input, exchange.signal))) return;
    throw new GatewayError("moderated", { status: 403, message: "The answer was held back by moderation." });
  }

  private async flags(input: readonly string[], left: AbortSignal): Promise<boolean> {
    const { url, token, model, seconds, silent } = this.options;
    try {
      const response = await fetch(url, {
        method: "POST",
        headers: { "content-type": "application/json", ...(token && { authorization: `Bearer ${token}` }) },
        body: JSON.stringify({ input, ...(model && { model }) }),
        signal: AbortSignal.any([left, AbortSignal.timeout(seconds * 1000)]),
      });
      return ModerationResponse.parse(await response.json()).results.some(({ flagged }) => flagged);
    } catch (thrown) {
      this.log.warn({ cause: String((thrown as Error).name) }, "moderation does not answer");
      if (silent === "pass") return false;
      throw new GatewayError("moderation_silent", { status: 503, message: "The answer could not be judged." });
    }
  }
}
