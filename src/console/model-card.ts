import type { Marketplace, Model, Target } from "../core/marketplace.ts";
import type { PriceVersion } from "../core/price-list.ts";
import type { Protocol } from "../core/protocol.ts";
import { isTranslatable } from "../translation/codec.ts";
import { FEATURES, type Feature, type Support, supportOf } from "../translation/features.ts";
import { modelReach, type Reach } from "../translation/reach.ts";
import type { Health } from "../upstream/health.ts";

/** How many of a model's targets are well: all, or some; none, but one is tried again after its failures; or none is used. */
type ModelState = "ok" | "degraded" | "tried" | "down";

/** Members that a card copies from the model. */
type CopiedField = "id" | "name" | "description" | "aliases" | "created" | "context" | "output";

/** A model as the marketplace shows it. */
interface ModelCard extends Pick<Model, CopiedField> {
  can: readonly string[];
  state: ModelState;
  /** None of its own targets is well, but one of a fallback is. */
  fallbackAnswers?: true;
  /** Recent milliseconds to the first byte of its fastest target; absent: not measured yet. */
  firstByte?: number;
  /** USD per million tokens at the first target; absent: unknown. */
  price?: PriceVersion["price"];
  /** By a protocol's name. */
  protocols: Readonly<Record<string, Reach>>;
  targets: readonly TargetCard[];
}

/** A target of the model. */
interface TargetCard {
  provider: string;
  model: string;
  /** Its share of the model's requests, from 0 to 1; absent where the balance is not by weight. */
  share?: number;
  state: "closed" | "open" | "half-open" | "off" | "waiting" | "refused";
  firstByte?: number;
  speaks: readonly string[];
  price?: PriceVersion["price"];
  /** Where each figure of it comes from, by its name. */
  priceSources?: PriceVersion["sources"];
}

/** A protocol as the marketplace shows it. */
export interface ProtocolCard {
  name: string;
  /** The first path on which it is served. */
  path: string;
  /** Features that other protocols have and a translation into this one drops or refuses. */
  losses?: readonly { feature: Feature; what: string; support: Support; note?: string }[];
}

/** The data for a model's card. */
interface CardContext {
  marketplace: Pick<Marketplace, "find">;
  health: Health;
  protocols: readonly Protocol[];
  /** Unix milliseconds. */
  now: number;
}

/** Returns a model's card. @param served names of the protocols that have a path */
export function modelCard(
  model: Model,
  served: readonly string[],
  { marketplace, health, protocols, now }: CardContext,
): ModelCard {
  const all = model.targets.reduce((sum, { weight }) => sum + weight, 0);
  const targets = model.targets.map((target) =>
    targetCard(target, health, now, model.balance === "weighted" ? all : 0),
  );
  const used = model.targets.filter((target) => health.isUsable(target)).length;
  const well = model.targets.filter((target) => isWell(target, health)).length;
  const others = well > 0 ? [] : model.fallback.flatMap((name) => marketplace.find(name)?.targets ?? []);
  const quickest = Math.min(...targets.flatMap(({ firstByte }) => firstByte ?? []));
  const [first] = targets;
  return {
    id: model.id,
    name: model.name,
    ...(model.description === undefined ? {} : { description: model.description }),
    aliases: model.aliases,
    created: model.created,
    ...(model.context === undefined ? {} : { context: model.context }),
    ...(model.output === undefined ? {} : { output: model.output }),
    can: model.capabilities,
    state: well === targets.length ? "ok" : well > 0 ? "degraded" : used > 0 ? "tried" : "down",
    ...(others.some((target) => isWell(target, health)) && { fallbackAnswers: true as const }),
    ...(Number.isFinite(quickest) ? { firstByte: quickest } : {}),
    ...(first?.price && { price: first.price }),
    protocols: reachByProtocol(model, served, protocols),
    targets,
  };
}

/** Reports whether a target is used as usual: it is not being tried after failures. */
const isWell = (target: Target, health: Health): boolean =>
  health.isUsable(target) && health.report(target).state === "closed";

function targetCard(target: Target, health: Health, now: number, all: number): TargetCard {
  const { state, firstByte, credentials } = health.report(target);
  const known = target.prices?.versionAt(now);
  const resting = credentials.length > 0 && credentials.every((each) => each.state !== "ok");
  return {
    provider: target.provider.name,
    model: target.model,
    ...(all > 0 ? { share: target.weight / all } : {}),
    state:
      state === "closed" && resting
        ? credentials.some((each) => each.state === "waiting")
          ? "waiting"
          : "refused"
        : state,
    ...(firstByte === undefined ? {} : { firstByte: Math.round(firstByte) }),
    speaks: target.provider.speaks,
    ...(known && { price: known.price, priceSources: known.sources }),
  };
}

/** Returns how each protocol reaches a model, by the protocol's name. @param served names of the protocols that have a path */
export const reachByProtocol = (
  model: Model,
  served: readonly string[],
  protocols: readonly Protocol[],
): Readonly<Record<string, Reach>> =>
  Object.fromEntries(
    protocols.flatMap((protocol) => {
      const reach = served.includes(protocol.name) ? modelReach(protocol, model, protocols) : undefined;
      return reach ? [[protocol.name, reach]] : [];
    }),
  );

/** Returns the protocols that have a path, with the losses of a translation into each. */
export function protocolCards(protocols: readonly Protocol[], paths: ReadonlyMap<string, string>): ProtocolCard[] {
  return protocols.flatMap((protocol) => {
    const path = paths.get(protocol.name);
    if (path === undefined) return [];
    const card: ProtocolCard = { name: protocol.name, path };
    if (!isTranslatable(protocol)) return [card];
    const table = protocol.translation.request.support;
    const losses = (Object.keys(FEATURES) as Feature[]).flatMap((feature) => {
      const found = supportOf(table, feature);
      return found.support === "dropped" || found.support === "refused"
        ? [{ feature, what: FEATURES[feature], ...found }]
        : [];
    });
    return [{ ...card, losses }];
  });
}
