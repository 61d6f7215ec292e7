import { createHmac, timingSafeEqual } from "node:crypto";
import { type AccessExchange, GatewayError, Options, type Plugin } from "model-gateway";
import { inject, injectable } from "tsyringe";
import { z } from "zod";

const Claims = z.object({
  sub: z.string(),
  /** Unix seconds. */
  exp: z.number(),
  group: z.string().optional(),
});

/** Accepts the company's own tokens (JWT, signed by HS256) beside the gateway's keys, which `auth` checks after it. */
@injectable()
export default class CompanyToken implements Plugin {
  static options = z.strictObject({
    secret: z.string().min(32).describe("The secret with which the company signs its tokens."),
    models: z.array(z.string()).default(["*"]).describe("The models that all who have a token may use."),
  });
  static before = ["auth"];

  constructor(@inject(Options) private readonly options: z.infer<typeof CompanyToken.options>) {}

  access(exchange: AccessExchange): void {
    const token = exchange.credentials.find((each) => each.split(".").length === 3);
    if (token === undefined) return;
    const { sub, exp, group } = this.claims(token);
    exchange.caller = {
      id: `company:${sub}`,
      name: sub,
      models: this.options.models,
      expires: exp * 1000,
      ...(group !== undefined && { group }),
    };
  }

  private claims(token: string): z.infer<typeof Claims> {
    const [head = "", body = "", signature = ""] = token.split(".");
    const expected = createHmac("sha256", this.options.secret).update(`${head}.${body}`).digest();
    const given = Buffer.from(signature, "base64url");
    try {
      if (given.length === expected.length && timingSafeEqual(given, expected) && decode(head)["alg"] === "HS256")
        return Claims.parse(decode(body));
    } catch {}
    throw new GatewayError("invalid_token", { status: 401, message: "This is no token of the company." });
  }
}

const decode = (part: string): Record<string, unknown> => JSON.parse(Buffer.from(part, "base64url").toString());
