import { GatewayError, Options, type Plugin, type RouteExchange } from "model-gateway";
import { inject, injectable } from "tsyringe";
import { z } from "zod";

/** Restricts callers to providers of their region, fallbacks included: requests without a target there are refused. */
@injectable()
export default class Region implements Plugin {
  static options = z.strictObject({
    providers: z.record(z.string(), z.string()).describe("The region of each provider; one without is in none."),
    tag: z.string().default("region").describe("The tag of a key that names its region."),
    groups: z.record(z.string(), z.string()).default({}).describe("The region of groups, for keys without that tag."),
    otherwise: z.string().optional().describe("The region of everybody else; none: they may use all."),
  });
  static after = ["auth", "models"];
  static before = ["limits", "rewrite"];

  constructor(@inject(Options) private readonly options: z.infer<typeof Region.options>) {}

  route(exchange: RouteExchange): void {
    const { providers, tag, groups, otherwise } = this.options;
    const { tags, group = "" } = exchange.caller ?? {};
    const region = tags?.[tag] ?? groups[group] ?? groups[group.split("/")[0] ?? ""] ?? otherwise;
    if (region === undefined) return;
    exchange.targets = exchange.targets.filter(({ provider }) => providers[provider.name] === region);
    if (exchange.targets.length > 0) return;
    throw new GatewayError("region_without_target", {
      status: 403,
      message: `The model ${exchange.model?.id} is not served in the region ${region}.`,
    });
  }
}
