import { type Head, Options, type Plugin, type ResponseExchange } from "model-gateway";
import { inject, injectable } from "tsyringe";
import { z } from "zod";

/** Adds a header to every response. */
@injectable()
export default class Stamp implements Plugin {
  static options = z.strictObject({ name: z.string().default("x-served-by"), text: z.string() });

  constructor(@inject(Options) private readonly options: z.infer<typeof Stamp.options>) {}

  response(_exchange: ResponseExchange, head: Head): void {
    head.headers.set(this.options.name, this.options.text);
  }
}
