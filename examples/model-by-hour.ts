import { Options, type Plugin, type RequestExchange } from "model-gateway";
import { inject, injectable } from "tsyringe";
import { z } from "zod";

const time = z.string().regex(/^([01]\d|2[0-3]):[0-5]\d$/, { error: "expected a time like 08:30" });

/** Maps one name to a model by the time of day: an expensive one in working hours, a cheap one at night. */
@injectable()
export default class ModelByHour implements Plugin {
  static options = z.strictObject({
    name: z.string().default("auto").describe("The name that clients ask for."),
    hours: z
      .array(z.strictObject({ from: time, to: time, model: z.string() }))
      .min(1)
      .describe("The first that fits counts; one may pass midnight."),
    otherwise: z.string().describe("The model at any other time."),
    zone: z.string().default("UTC").describe("Whose time it is, like Europe/Rome."),
  });

  private readonly clock: Intl.DateTimeFormat;

  /** @throws RangeError for an unknown time zone, which `npm start -- check` reports. */
  constructor(@inject(Options) private readonly options: z.infer<typeof ModelByHour.options>) {
    const timeZone = options.zone;
    this.clock = new Intl.DateTimeFormat("en-GB", { timeZone, hour: "2-digit", minute: "2-digit", hourCycle: "h23" });
  }

  request(exchange: RequestExchange): void {
    const { name, hours, otherwise } = this.options;
    if (exchange.requestedModel !== name) return;
    const now = this.clock.format(exchange.time);
    const fits = hours.find(({ from, to }) => (from <= to ? from <= now && now < to : from <= now || now < to));
    exchange.requestedModel = fits?.model ?? otherwise;
  }
}
