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
const MEMBERS = ["user", "safety_identifier", "metadata"];
const MAX_ADDRESSES = 100_000;
const Kind = z.enum(["system", "user", "assistant", "reasoning", "tool_call", "tool_result"]);

/** Masks e-mail addresses in requests to a provider, and restores them in its response: in every protocol, streamed or not. */
@injectable()
export default class Redact implements Plugin {
  static options = z.strictObject({
    kinds: z.array(Kind).default(Kind.options).describe("Whose texts are masked."),
  });
  static after = ["auth"];

  /** The mask of each address, in the order of their numbers. */
  private readonly masks = slot(() => new Map<string, string>());

  constructor(@inject(Options) private readonly options: z.infer<typeof Redact.options>) {}

  async request(exchange: RequestExchange): Promise<void> {
    if (exchange.form)
      throw new GatewayError("unsupported_media_type", { message: "The fields of a form cannot be redacted." });
    const { body } = exchange;
    const named = MEMBERS.filter((name) => ADDRESS.pattern.test(JSON.stringify(body.value(name)) ?? ""));
    if (body.scan) exchange.edit(removeMembers(body.scan, named));
    const masks = this.masks(exchange);
    await exchange.replaceText({ ...ADDRESS, kinds: this.options.kinds }, (address) => {
      const known = masks.get(address);
      if (known) return known;
      if (masks.size === MAX_ADDRESSES)
        throw new GatewayError("body_too_large", { message: `There are more than ${MAX_ADDRESSES} e-mail addresses.` });
      const mask = `<address-${masks.size + 1}>`;
      masks.set(address, mask);
      return mask;
    });
  }

  response(exchange: ResponseExchange): Stage | undefined {
    const addresses = [...this.masks(exchange).keys()];
    if (addresses.length === 0) return undefined;
    return exchange.replaceResponseText(MASK, (mask) => addresses[Number(mask.replace(/\D/g, "")) - 1] ?? mask);
  }
}
