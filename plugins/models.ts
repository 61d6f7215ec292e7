import {
  type AccessExchange,
  type Answer,
  type Caller,
  GatewayError,
  Health,
  type ListedModel,
  Marketplace,
  type Model,
  Options,
  type Plugin,
  type RouteExchange,
  type Target,
  Translations,
} from "model-gateway";
import { ObjectAccess } from "model-gateway/store";
import { inject, injectable } from "tsyringe";
import { z } from "zod";
import { balanceTargets } from "./models/balance.ts";
import { conversationPin, moveToFront } from "./models/continuity.ts";

const COUNT = z.number().nullable();
const PRICE = z.string().optional().describe("USD per token.");
/** A model in a list, for clients whose protocol has no format of its own. */
export const MODEL_ENTRY = z.strictObject({
  ...{
    id: z.string(),
    object: z.literal("model"),
    type: z.literal("model"),
    name: z.string(),
    display_name: z.string(),
  },
  ...{ description: z.string(), owned_by: z.string() },
  created: z.number().describe("Unix seconds."),
  created_at: z.iso.datetime(),
  canonical_slug: z.string(),
  context_length: COUNT.describe("Size of the context window in tokens; null: unknown."),
  ...{ max_input_tokens: COUNT, max_tokens: COUNT, max_output_tokens: COUNT },
  architecture: z.strictObject({ input_modalities: z.array(z.string()), output_modalities: z.array(z.string()) }),
  top_provider: z.strictObject({
    ...{ context_length: COUNT, max_completion_tokens: COUNT, is_moderated: z.boolean() },
  }),
  supported_parameters: z.array(z.string()),
  capabilities: z.record(z.string(), z.literal(true)),
  protocols: z
    .record(z.string(), z.enum(["native", "translated"]))
    .describe("Protocols in which it can be requested, and whether requests are translated."),
  pricing: z.strictObject({ prompt: PRICE, completion: PRICE, input_cache_read: PRICE, input_cache_write: PRICE }),
});
/** For clients of some protocols: in the vendor's format. */
const VENDOR_FORMAT = z.record(z.string(), z.unknown());
export const MODEL_LIST = z.strictObject({
  ...{ object: z.literal("list"), data: z.array(MODEL_ENTRY), has_more: z.boolean() },
  ...{ first_id: z.string().nullable(), last_id: z.string().nullable() },
});

/** Resolves the requested model name into targets, and lists the names that a caller may use. */
@injectable()
export default class Models implements Plugin {
  static after = ["auth", "scrub"];
  static answers = { all: z.union([MODEL_LIST, VENDOR_FORMAT]), one: z.union([MODEL_ENTRY, VENDOR_FORMAT]) };
  static options = z.strictObject({
    continuity: z
      .enum(["on", "off"])
      .default("on")
      .describe("Send all requests of a conversation to the target with which it began, while that is available."),
  });

  constructor(
    private readonly marketplace: Marketplace,
    private readonly objects: ObjectAccess,
    private readonly translations: Translations,
    private readonly health: Health,
    @inject(Options) private readonly options: z.infer<typeof Models.options>,
  ) {}

  route(exchange: RouteExchange): void | Promise<void> {
    const { requestedModel: asked, caller, operation } = exchange;
    if (operation.storedResponseId !== undefined) return this.routeToOwner(operation.storedResponseId, exchange);
    if (asked === undefined)
      throw new GatewayError("invalid_field", { message: "The request names no model.", param: "model" });
    const model = this.marketplace.require(asked, caller);
    exchange.model = model;
    const { fallback } = model;
    // Without fallbacks, as most models are, nothing is copied.
    const others = fallback.length > 0 ? fallback.flatMap((name) => this.marketplace.find(name, caller) ?? []) : NONE;
    const choice = hasChoice(model) || others.some(hasChoice);
    const pin = choice && this.options.continuity === "on" ? conversationPin(exchange) : undefined;
    exchange.conversation = pin;
    const targets = this.preferStateOwner(balanceTargets(model, pin, this.health), exchange);
    exchange.targets = others.length > 0 ? [...targets, ...this.fallbackTargets(others, pin)] : targets;
    if (exchange.targets.length === 0)
      throw new GatewayError("no_target", {
        message: `No provider of the model "${model.id}" is switched on.`,
        hint: "Its providers want credentials; the operator's verb check says which.",
        retry: false,
      });
  }

  private fallbackTargets(others: readonly Model[], pin: string | undefined): Target[] {
    return others.flatMap((other) => balanceTargets(other, pin && `${pin} ${other.id}`, this.health));
  }

  /** Responds to `GET /v1/models`, `GET /v1/models/{id}` (an id may hold slashes) and the same in a protocol's own format. */
  serve(exchange: AccessExchange): Answer {
    const { caller, path, protocol, query } = exchange;
    const id = /^\/[^/]+\/models\/(.+)$/.exec(path)?.[1];
    const { listing } = protocol;
    if (id === undefined) {
      const usable = this.marketplace.usable(caller).filter((model) => this.isOn(model, caller));
      const models = usable.map((model) => this.listedModel(model, caller));
      // A list in a protocol's own format cannot express that a model is unavailable in that protocol.
      const list = listing
        ? listing.list(
            models.filter(({ protocols }) => protocols[protocol.name]),
            query,
          )
        : modelList(models);
      return { status: 200, body: JSON.stringify(list) };
    }
    const found = this.listedModel(this.marketplace.require(decodeURIComponent(id), caller), caller);
    return { status: 200, body: JSON.stringify(listing ? listing.one(found) : modelEntry(found)) };
  }

  /** Reports whether an operator has left a target of the model, or of its fallbacks, switched on. */
  private isOn({ targets, fallback }: Model, caller: Caller | undefined): boolean {
    const others = fallback.flatMap((other) => this.marketplace.find(other, caller)?.targets ?? []);
    return this.health.enabled([...targets, ...others]).length > 0;
  }

  private listedModel(model: Model, caller: Caller | undefined): ListedModel {
    const { id, name, created, capabilities, description, context, output, fallback } = model;
    const others = fallback.flatMap((other) => this.marketplace.find(other, caller) ?? []);
    const protocols = Object.assign({}, ...[...others, model].map((each) => this.translations.reach(each)));
    const price = model.targets[0]?.prices?.versionAt(Date.now())?.price ?? {};
    return {
      ...{ id, name, created, capabilities, protocols, price },
      ...(description === undefined ? {} : { description }),
      ...(context === undefined ? {} : { context }),
      ...(output === undefined ? {} : { output }),
    };
  }

  /** Keeps a conversation that has moved at the target that created its newest state. */
  private preferStateOwner(order: Target[], exchange: RouteExchange): Target[] {
    if (order.length < 2 || this.options.continuity === "off") return order;
    const { account, model } = this.translations.stateOrigin(exchange) ?? {};
    const last =
      order.find((target) => target.provider.name === account && target.model === model) ??
      order.find((target) => target.provider.name === account);
    return last ? moveToFront(order, last) : order;
  }

  /** Routes a request about a stored response to where that was generated. */
  private async routeToOwner(id: string, exchange: RouteExchange): Promise<void> {
    const made = await this.objects.findStoredResponse(id, exchange.caller);
    const model = made?.model === undefined ? undefined : this.marketplace.find(made.model, exchange.caller);
    const target = model?.targets.find(({ provider }) => provider.name === made?.provider);
    if (!model || !target) throw new GatewayError("object_not_found");
    exchange.model = model;
    exchange.targets = [target];
  }
}

const NONE: readonly Model[] = [];

/** Reports whether requests could be served in different ways. */
const hasChoice = ({ targets }: Model): boolean => targets.length > 1 || targets.some(hasSeveralCredentials);

const hasSeveralCredentials = ({ provider }: Target): boolean => provider.credentials.length > 1;

/** Returns one body that OpenAI, Anthropic and OpenRouter-style clients can all parse. */
const modelList = (models: readonly ListedModel[]) => ({
  object: "list",
  data: models.map(modelEntry),
  has_more: false,
  first_id: models[0]?.id ?? null,
  last_id: models.at(-1)?.id ?? null,
});

/** Input modalities besides text, by the name of the capability. */
const INPUTS: Readonly<Record<string, string>> = { vision: "image", audio: "audio", video: "video", files: "file" };
/** Parameters by the model's required ability. */
const PARAMETERS: Readonly<Record<string, readonly string[]>> = {
  tools: ["tools", "tool_choice"],
  json_schema: ["response_format", "structured_outputs"],
  reasoning: ["reasoning", "include_reasoning"],
};

function modelEntry(model: ListedModel) {
  const { id, name, created, context = null, output = null, capabilities: can, protocols, price } = model;
  const able = (what: string) => can.includes(what);
  const writesText = Object.keys(protocols).some((protocol) => !/-(?:images|embeddings)$/.test(protocol));
  const of = (table: Readonly<Record<string, string | readonly string[]>>) =>
    Object.entries(table).flatMap(([what, names]) => (able(what) ? names : []));
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
      input_modalities: ["text", ...of(INPUTS)],
      output_modalities: [
        ...(writesText ? ["text"] : []),
        ...(able("images") ? ["image"] : []),
        ...(able("embeddings") ? ["embeddings"] : []),
      ],
    },
    top_provider: { context_length: context, max_completion_tokens: output, is_moderated: false },
    supported_parameters: [...(writesText ? ["max_tokens"] : []), ...of(PARAMETERS)],
    capabilities: Object.fromEntries(can.map((what) => [what, true])),
    protocols,
    pricing: {
      prompt: perToken(price.input),
      completion: perToken(price.output),
      input_cache_read: perToken(price.cached ?? price.input),
      input_cache_write: perToken(price.cache_write ?? price.input),
    },
  };
}

/** Converts USD per million to USD per token as decimal text. Unknown prices are left out: 0 would mean free. */
const perToken = (million: number | undefined): string | undefined =>
  million === undefined ? undefined : (million / 1e6).toFixed(12).replace(/\.?0+$/, "");
