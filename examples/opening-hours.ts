import { GatewayError, Options, type Plugin } from "model-gateway";
import { inject, injectable } from "tsyringe";
import { z } from "zod";

const time = z.string().regex(/^([01]\d|2[0-3]):[0-5]\d$/, { error: "expected a time like 08:30" });

/** Admits requests during a part of the day only. It may span midnight: `open: "22:00", close: "06:00"`. */
@injectable()
export default class OpeningHours implements Plugin {
  static options = z.strictObject({ open: time, close: time, zone: z.string().default("UTC") });

  private readonly clock: Intl.DateTimeFormat;

  /** @throws RangeError for an unknown time zone, which `npm start -- check` reports. */
  constructor(@inject(Options) private readonly options: z.infer<typeof OpeningHours.options>) {
    const timeZone = options.zone;
    this.clock = new Intl.DateTimeFormat("en-GB", { timeZone, hour: "2-digit", minute: "2-digit", hourCycle: "h23" });
  }

  access(): void {
    const { open, close, zone } = this.options;
    const now = this.clock.format();
    const within = open <= close ? open <= now && now < close : open <= now || now < close;
    if (!within)
      throw new GatewayError("key_not_allowed", { message: `Requests are taken from ${open} to ${close} (${zone}).` });
  }
}
