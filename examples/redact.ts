import { randomInt } from "node:crypto";
import {
  GatewayError,
  Options,
  type Plugin,
  type RequestExchange,
  type ResponseExchange,
  removeMembers,
  type Stage,
  slot,
} from "model-gateway";
import { inject, injectable } from "tsyringe";
import { z } from "zod";

// Matches only at the beginning of a word, and a bounded number of characters: any text takes linear time. What looks like a mask
// is masked too, and restored as it was.
const ADDRESS = {
  pattern: /(?<![\w.+-])[\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63}){1,30}|<address-\d{1,9}>/,
  maxLength: 64 + 1 + 63 + 30 * 64,
};
const MASK = { pattern: /<address-\d{1,9}>/, maxLength: 20 };
/** Members that hold no text of a conversation, but often the user's address. */
const MEMBERS = ["user", "safety_identifier", "prompt_cache_key", "metadata", "labels"];
/** Members that name what the provider has stored of former requests, whose masks stand for other addresses. */
const STORED = ["previous_response_id", "conversation", "cachedContent"];
const MAX_ADDRESSES = 100_000;
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

  /** The mask of each address, in the order of their numbers, and the number before the first one. */
  private readonly state = slot(() => ({ masks: new Map<string, string>(), before: 0 }));

  constructor(@inject(Options) private readonly options: z.infer<typeof Redact.options>) {}

  async request(exchange: RequestExchange): Promise<void> {
    if (exchange.form)
      throw new GatewayError("unsupported_media_type", { message: "The fields of a form cannot be redacted." });
    const { body } = exchange;
    const named = MEMBERS.filter((name) => ADDRESS.pattern.test(JSON.stringify(body.value(name)) ?? ""));
    if (body.scan) exchange.edit(removeMembers(body.scan, named));
    const state = this.state(exchange);
    // No number of a former request, which would be restored as an address of this one.
    if (STORED.some((name) => body.member(name))) state.before = randomInt(1_000_000, 900_000_000);
    const { masks, before } = state;
    await exchange.replaceText({ ...ADDRESS, kinds: this.options.kinds }, (address) => {
      const known = masks.get(address);
      if (known) return known;
      if (masks.size === MAX_ADDRESSES)
        throw new GatewayError("body_too_large", { message: `There are more than ${MAX_ADDRESSES} e-mail addresses.` });
      const mask = `<address-${before + masks.size + 1}>`;
      masks.set(address, mask);
      return mask;
    });
  }

  response(exchange: ResponseExchange): Stage | undefined {
    const { masks, before } = this.state(exchange);
    const addresses = [...masks.keys()];
    if (addresses.length === 0) return undefined;
    return exchange.replaceResponseText(
      MASK,
      (mask) => addresses[Number(mask.replace(/\D/g, "")) - before - 1] ?? mask,
    );
  }
}
