import {
  type AccessExchange,
  type Answer,
  GatewayError,
  type Head,
  type ListedModel,
  Marketplace,
  type Model,
  type Plugin,
  type ResponseExchange,
  type RouteExchange,
  type Stage,
  type Target,
} from "model-gateway";
import { injectable } from "tsyringe";
import { keeper, placeOf, remembering } from "./models/kept.ts";
import { chanceOf } from "./models/session.ts";

/** Turns the name a client asks for into targets, and lists the names it may ask for. */
@injectable()
export default class Models implements Plugin {
  static after = ["auth", "scrub"];

  constructor(private readonly marketplace: Marketplace) {}

  route(exchange: RouteExchange): void {
    const { requestedModel: asked, caller, operation } = exchange;
    if (operation.kept !== undefined) {
      this.back(operation.kept, exchange);
      return;
    }
    if (asked === undefined)
      throw new GatewayError("invalid_field", { message: "The request names no model.", param: "model" });
    const model = this.marketplace.find(asked, caller);
    if (!model) throw this.unknown(asked, exchange);
    exchange.model = model;
    const targets = ordered(model.targets, exchange);
    for (const name of model.fallback) {
      const other = this.marketplace.find(name, caller);
      if (other) targets.push(...ordered(other.targets, exchange));
    }
    const keeps = keeper(exchange);
    exchange.targets = keeps === undefined ? targets : targets.toSorted((a, b) => at(a, keeps) - at(b, keeps));
    if (exchange.targets.length === 0)
      throw new GatewayError("no_target", {
        message: `No provider of the model "${model.id}" is switched on.`,
        hint: "Its providers want credentials: see the gateway's start-up message.",
      });
  }

  response(exchange: ResponseExchange, head: Head): Stage | undefined {
    return head.status < 300 ? remembering(exchange) : undefined;
  }

  /** `GET /v1/models`, `GET /v1/models/{id}` (an id may hold slashes) and the same in a protocol's own shape. */
  serve(exchange: AccessExchange): Answer {
    const { caller, path, protocol } = exchange;
    const id = /^\/[^/]+\/models\/(.+)$/.exec(path)?.[1];
    if (id === undefined) {
      const models = this.marketplace.list(caller).map(listed);
      return { status: 200, body: JSON.stringify(protocol.listing ? protocol.listing.list(models) : list(models)) };
    }
    const asked = decodeURIComponent(id);
    const model = this.marketplace.find(asked, caller);
    if (!model) throw this.unknown(asked, exchange);
    const one = listed(model);
    return { status: 200, body: JSON.stringify(protocol.listing ? protocol.listing.one(one) : entry(one)) };
  }

  /** A kept answer is where it was made. */
  private back(id: string, exchange: RouteExchange): void {
    const place = placeOf(id, exchange.caller);
    const model = place && this.marketplace.find(place.model, exchange.caller);
    const target = model?.targets.find(({ provider }) => provider.name === place?.provider);
    if (!model || !target) throw new GatewayError("answer_not_found");
    exchange.model = model;
    exchange.targets = [target];
  }

  /** Suggests only names that the caller may see. */
  private unknown(asked: string, { caller }: AccessExchange): GatewayError {
    const near = this.marketplace.near(asked, caller);
    const seen = this.marketplace.list(caller).length;
    return new GatewayError("model_not_found", {
      message: `No model "${asked}".${near.length > 0 ? ` Did you mean ${near.map((id) => `"${id}"`).join(" or ")}?` : ""}`,
      hint: `This key may use ${seen} ${seen === 1 ? "model" : "models"}: GET /v1/models.`,
      param: "model",
    });
  }
}

const at = ({ provider }: Target, name: string): number => (provider.name === name ? 0 : 1);

/** The first by weighted chance, the same one all through a session; the others behind it, heaviest first. */
function ordered(targets: readonly Target[], exchange: RouteExchange): Target[] {
  if (targets.length < 2) return [...targets];
  const point = chanceOf(exchange) * targets.reduce((sum, target) => sum + target.weight, 0);
  let passed = 0;
  const first = targets.find((target) => {
    passed += target.weight;
    return passed > point;
  });
  if (!first) return [...targets];
  return [first, ...targets.filter((target) => target !== first).sort((a, b) => b.weight - a.weight)];
}

const listed = (model: Model): ListedModel => ({
  id: model.id,
  name: model.name,
  created: model.created,
  can: model.can,
  price: model.price,
  ...(model.description === undefined ? {} : { description: model.description }),
  ...(model.context === undefined ? {} : { context: model.context }),
  ...(model.output === undefined ? {} : { output: model.output }),
});

/** One body that OpenAI, Anthropic and OpenRouter-style clients can all read. */
const list = (models: readonly ListedModel[]) => ({
  object: "list",
  data: models.map(entry),
  has_more: false,
  first_id: models[0]?.id ?? null,
  last_id: models.at(-1)?.id ?? null,
});

function entry(model: ListedModel) {
  const { id, name, created, context = null, output = null, can, price } = model;
  const able = (what: string) => can.includes(what);
  return {
    id,
    object: "model",
    type: "model",
    name,
    display_name: name,
    description: model.description ?? "",
    owned_by: id.includes("/") ? id.split("/", 1)[0] : "model-gateway",
    created,
    created_at: new Date(created * 1000).toISOString().replace(".000Z", "Z"),
    canonical_slug: id,
    context_length: context,
    max_input_tokens: context,
    max_tokens: output,
    max_output_tokens: output,
    architecture: {
      input_modalities: [
        "text",
        ...["vision", "audio", "file"].filter(able).map((what) => (what === "vision" ? "image" : what)),
      ],
      output_modalities: able("image_output") ? ["image"] : ["text"],
    },
    top_provider: { context_length: context, max_completion_tokens: output, is_moderated: false },
    supported_parameters: able("tools") ? ["tools", "tool_choice", "max_tokens"] : ["max_tokens"],
    capabilities: Object.fromEntries(can.map((what) => [what, true])),
    pricing: {
      prompt: perToken(price.input),
      completion: perToken(price.output),
      input_cache_read: perToken(price.cached),
      input_cache_write: perToken(price.cache_write),
    },
  };
}

/** USD per token as decimal text, from USD per million. */
const perToken = (million: number | undefined): string =>
  million === undefined ? "0" : (million / 1e6).toFixed(12).replace(/\.?0+$/, "");
