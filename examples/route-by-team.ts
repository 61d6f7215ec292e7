import { GatewayError, Options, type Plugin, type RequestExchange } from "model-gateway";
import { inject, injectable } from "tsyringe";
import { z } from "zod";

/** Maps one name, which all clients request, to their team's model: by a header, else by the name of their key. */
@injectable()
export default class RouteByTeam implements Plugin {
  static options = z.strictObject({
    name: z.string().default("auto").describe("The name that clients ask for."),
    header: z.string().default("x-team").describe("The header in which a client names its team."),
    teams: z.record(z.string(), z.string()).describe("The model of each team."),
  });
  static after = ["auth"];

  constructor(@inject(Options) private readonly options: z.infer<typeof RouteByTeam.options>) {}

  request(exchange: RequestExchange): void {
    const { name, header, teams } = this.options;
    if (exchange.requestedModel !== name) return;
    const team = exchange.headers.get(header) ?? exchange.caller?.name ?? "";
    if (!Object.hasOwn(teams, team))
      throw new GatewayError("team_unknown", { status: 403, message: `No model is meant for the team "${team}".` });
    exchange.requestedModel = teams[team];
  }
}
