import type { Health, Model, Target } from "model-gateway";
import { orderByPin, preferPrevious } from "./continuity.ts";

/** Input tokens per output token, for the comparison of prices. */
const IN_PER_OUT = 3;

/** The part of `Health` that balancing needs. */
export type TargetLoads = Pick<Health, "candidates" | "load" | "conversationTarget" | "recordConversation">;

/**
 * Orders a model's targets by its `balance`, best first; targets that are avoided come last.
 * @param pin of the conversation, if it is one
 * @param chance returns numbers from 0 to below 1
 */
export function balanceTargets(
  { targets, balance }: Pick<Model, "targets" | "balance">,
  pin: string | undefined,
  health: TargetLoads,
  chance: () => number = Math.random,
): Target[] {
  if (targets.length < 2) return [...targets];
  const candidates = health.candidates(targets);
  const best = BALANCE[balance](candidates, pin, health, chance);
  return candidates.length === targets.length
    ? best
    : [...best, ...targets.filter((target) => !candidates.includes(target))];
}

type Order = (
  targets: readonly Target[],
  pin: string | undefined,
  health: TargetLoads,
  chance: () => number,
) => Target[];

const BALANCE: Readonly<Record<Model["balance"], Order>> = {
  weighted: (targets, pin, _, chance) => (pin === undefined ? byWeight(targets, chance()) : orderByPin(targets, pin)),
  latency: (targets, pin, health, chance) => {
    const order = byLatency(targets, health, chance);
    return pin === undefined ? order : preferPrevious(order, pin, health);
  },
  cheapest: (targets) => targets.toSorted((a, b) => priceOf(a) - priceOf(b)),
};

/** Chooses the first by weighted chance; the others follow, heaviest first. */
function byWeight(targets: readonly Target[], chance: number): Target[] {
  const point = chance * targets.reduce((sum, target) => sum + target.weight, 0);
  let passed = 0;
  const first = targets.find((target) => {
    passed += target.weight;
    return passed > point;
  });
  if (!first) return [...targets];
  return [first, ...targets.filter((target) => target !== first).sort((a, b) => b.weight - a.weight)];
}

/** Puts the less loaded of two random targets first: sorting all by load would send every request to the same one. */
function byLatency(targets: readonly Target[], health: TargetLoads, chance: () => number): Target[] {
  if (targets.length < 2) return [...targets];
  const rest = targets.toSorted((a, b) => health.load(a) - health.load(b));
  const one = Math.floor(chance() * rest.length);
  const other = Math.floor(chance() * (rest.length - 1));
  const [first] = rest.splice(Math.min(one, other < one ? other : other + 1), 1) as [Target];
  return [first, ...rest];
}

/** Returns a target's current average price per token, for input and output. An unknown price counts as the highest. */
function priceOf({ prices }: Target): number {
  const price = prices?.versionAt(Date.now())?.price;
  if (!price) return Number.MAX_VALUE;
  return (IN_PER_OUT * (price.input ?? 0) + (price.output ?? 0)) / (IN_PER_OUT + 1) + (price.request ?? 0);
}
