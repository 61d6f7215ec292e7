import { formatMoney, parseLimit, parseMoney } from "../config/units.ts";
import type { Budget, Limits } from "../core/limit-kinds.ts";

/** Command line options for a key's limits. */
export const LIMIT_OPTIONS = {
  rpm: { type: "string" },
  tpm: { type: "string" },
  concurrency: { type: "string" },
  budget: { type: "string", multiple: true },
} as const;

/** Their values on the command line. */
export type LimitOptions = { [Name in "rpm" | "tpm" | "concurrency"]?: string } & { budget?: string[] };

/** Lines for a verb's help. */
export const LIMITS_HELP = `  --rpm N            requests a minute, like 300; off: no limit, also where gateway.yaml has one for all keys
  --tpm N            input and output tokens a minute, like 400k
  --concurrency N    requests at the same time
  --budget SUM       maximum spending: $10/month, $2/day, $1/hour, $5/week, or $100 in total; "$8/month soft" only warns; may be
                     given several times; off: no budget, also where gateway.yaml has one for all keys`;

/**
 * Merges options into existing limits. An empty text removes a limit, so that the one for all keys in gateway.yaml applies.
 * @returns undefined: no option was given; null: no limit is left
 * @throws Error that names the option and its accepted values
 */
export function mergeLimits(options: LimitOptions, before: Limits = {}): Limits | null | undefined {
  const { budget } = options;
  const counts = (["rpm", "tpm", "concurrency"] as const).filter((name) => options[name] !== undefined);
  if (counts.length === 0 && budget === undefined) return undefined;
  const limits: { -readonly [Name in keyof Limits]: Limits[Name] } = { ...before };
  for (const name of counts) {
    const text = options[name] ?? "";
    if (text === "") delete limits[name];
    else limits[name] = withOptionName(name, () => parseLimit(text));
  }
  if (budget?.every((text) => text === "")) delete limits.budgets;
  else if (budget) limits.budgets = withOptionName("budget", () => parseBudgets(budget));
  return Object.keys(limits).length === 0 ? null : limits;
}

function withOptionName<T>(option: string, read: () => T): T {
  try {
    return read();
  } catch (thrown) {
    throw new Error(`--${option}: ${(thrown as Error).message}.`);
  }
}

function parseBudgets(texts: readonly string[]): Budget[] {
  if (texts.includes("off")) {
    if (texts.length > 1) throw new RangeError("off cannot be combined with other budgets");
    return [];
  }
  return texts.map((text) => {
    const [, sum = "", soft] = /^(\S*)( +soft)?$/.exec(text.trim()) ?? [text, text];
    return { ...parseMoney(sum), soft: soft !== undefined };
  });
}

/** Formats limits as options; an unlimited value is absent. */
export function formatLimitOptions({ rpm = 0, tpm = 0, concurrency = 0, budgets = [] }: Limits): {
  rpm?: number;
  tpm?: number;
  concurrency?: number;
  budget?: string[];
} {
  return {
    ...(rpm > 0 && { rpm }),
    ...(tpm > 0 && { tpm }),
    ...(concurrency > 0 && { concurrency }),
    ...(budgets.length > 0 && { budget: budgets.map(formatBudgetOption) }),
  };
}

/** Formats limits in the form in which they are set; `off` is included where it overrides a limit for all keys. */
export function formatOwnLimits(limits: Limits) {
  const { rpm, tpm, concurrency, budgets } = limits;
  const lifted = Object.entries({ rpm, tpm, concurrency }).filter(([, limit]) => limit === 0);
  return {
    ...formatLimitOptions(limits),
    ...Object.fromEntries(lifted.map(([name]) => [name, "off"])),
    ...(budgets?.length === 0 && { budget: ["off"] }),
  };
}

/** Formats a budget as an option. */
export const formatBudgetOption = (budget: Budget): string => `${formatMoney(budget)}${budget.soft ? " soft" : ""}`;
