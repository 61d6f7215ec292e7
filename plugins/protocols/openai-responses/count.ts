import { asCount, asObject, GatewayError } from "model-gateway/protocol";

/** How tokens are counted: an object of its own with a single number. */
export const count = {
  /** @throws GatewayError `upstream_invalid` when there is no number in it */
  decode(text: string): number {
    let answer: unknown;
    try {
      answer = JSON.parse(text);
    } catch {
      answer = undefined;
    }
    const total = asCount(asObject(answer)?.["input_tokens"]);
    if (total === undefined) throw new GatewayError("upstream_invalid", { message: "The provider told no count." });
    return total;
  },

  encode(total: number): string {
    return JSON.stringify({ object: "response.input_tokens", input_tokens: total });
  },
};
