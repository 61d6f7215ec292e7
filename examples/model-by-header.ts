import { GatewayError, Options, type Plugin, type RequestExchange } from "model-gateway";
import { inject, injectable } from "tsyringe";
import { z } from "zod";

/** Chooses the model by a header, for clients whose settings allow one model only. */
@injectable()
export default class ModelByHeader implements Plugin {
  static options = z.strictObject({
    header: z.string().toLowerCase().default("x-model").describe("The header that is looked at."),
    models: z.record(z.string(), z.string()).describe("The model for each of its values."),
  });

  constructor(@inject(Options) private readonly options: z.infer<typeof ModelByHeader.options>) {}

  request(exchange: RequestExchange): void {
    const { header, models } = this.options;
    const value = exchange.headers.get(header);
    if (value === undefined) return;
    if (!Object.hasOwn(models, value))
      throw new GatewayError("invalid_field", {
        message: `The header ${header} has the value ${JSON.stringify(value)}.`,
        hint: `It takes ${Object.keys(models).join(", ")}.`,
        param: header,
      });
    exchange.requestedModel = models[value];
  }
}
