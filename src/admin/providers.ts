import { z } from "zod";
import { starKeys } from "../config/secrets.ts";
import type { Config, ConfiguredProvider } from "../config/types.ts";
import { formatDuration, formatPercent } from "../config/units.ts";
import type { AdminGateway } from "./admin-gateway.ts";
import { AdminError } from "./errors.ts";
import {
  credentialStateRank,
  type LiveCredential,
  type LiveProvider,
  type LiveTarget,
  PROVIDERS,
  TRY_NOW,
} from "./questions.ts";
import { type AdminHandler, type AdminRequest, type AdminResponse, parseBody } from "./route.ts";

/** A provider, as the console shows it. */
interface ShownProvider {
  readonly name: string;
  readonly url: string;
  readonly speaks: readonly string[];
  /** Why it takes no requests. */
  readonly off?: string;
  /** An operator has switched it off. */
  readonly switched_off?: true;
  readonly concurrency?: number;
  /** The circuit breaker's settings for its targets, in the form of gateway.yaml. */
  readonly health: Readonly<Record<string, string | number>>;
  /** Its concurrency and health settings as written in gateway.yaml. */
  readonly written: object;
  readonly credentials: readonly LiveCredential[];
  readonly targets: readonly LiveTarget[];
}

/** Returns all providers of gateway.yaml, each with the worst state that any process has found. */
export async function shownProviders(gateway: AdminGateway): Promise<ShownProvider[]> {
  const all = (await gateway.askAll(PROVIDERS, null)).flat();
  const { config } = gateway;
  return config.providers.map((provider) =>
    toShownProvider(
      provider,
      config.written,
      all.filter(({ name }) => name === provider.name),
    ),
  );
}

function toShownProvider(
  configured: ConfiguredProvider,
  written: Config["written"],
  found: readonly LiveProvider[],
): ShownProvider {
  const { name, url, speaks, off, concurrency = 0 } = configured;
  const targets = Map.groupBy(
    found.flatMap((each) => each.targets),
    ({ model }) => model,
  );
  return {
    ...{ name, url: url === "demo:" ? url : starKeys(url.href), speaks: [...speaks] },
    ...(off !== undefined && { off }),
    ...(found.some((each) => each.switched_off) && { switched_off: true as const }),
    ...(concurrency > 0 && { concurrency }),
    health: formatHealthLimits(configured.health),
    written: written.providers.get(name) ?? {},
    credentials: worstCredentials(found.map(({ credentials }) => credentials)),
    targets: [...targets.values()].map(mergeTarget),
  };
}

function formatHealthLimits({ failures, errors, requests, window, slow, open, longest }: ConfiguredProvider["health"]) {
  return {
    ...{
      failures,
      errors: formatPercent(errors),
      requests,
      window: formatDuration(window),
      slow: formatDuration(slow),
    },
    ...{ open: formatDuration(open), longest: formatDuration(longest) },
  };
}

const TARGET_STATES: readonly LiveTarget["state"][] = ["closed", "half-open", "open", "off"];

function mergeTarget(found: readonly LiveTarget[]): LiveTarget {
  const [bad] = found.toSorted((a, b) => TARGET_STATES.indexOf(b.state) - TARGET_STATES.indexOf(a.state));
  const times = found.flatMap(({ first_byte: time }) => time ?? []);
  const sum = (of: (target: LiveTarget) => number) => found.reduce((all, target) => all + of(target), 0);
  return {
    ...(bad as LiveTarget),
    in_flight: sum(({ in_flight: running }) => running),
    ...(times.length > 0 && { first_byte: Math.round(times.reduce((all, time) => all + time, 0) / times.length) }),
    recent: { requests: sum(({ recent }) => recent.requests), failed: sum(({ recent }) => recent.failed) },
    credentials: worstCredentials(found.map(({ credentials }) => credentials)),
  };
}

/** Returns each credential in the worst state that any process has found. */
function worstCredentials(found: readonly (readonly LiveCredential[])[]): LiveCredential[] {
  const byLabel = Map.groupBy(found.flat(), ({ label }) => label);
  return [...byLabel.values()].map(
    (all) => all.toSorted((a, b) => credentialStateRank(b.state) - credentialStateRank(a.state))[0] as LiveCredential,
  );
}

/** Selects one target of the provider in the path; absent: the whole provider. */
export const TargetChangeSchema = z.strictObject({ model: z.string().min(1).max(200).optional() });

/** Ends the pauses of a provider or a target. */
export const tryNow: AdminHandler = async (gateway, request) =>
  changeProvider(gateway, request, "try", (_, which) => gateway.askAll(TRY_NOW, which));

export const switchOff: AdminHandler = async (gateway, request) =>
  changeProvider(gateway, request, "off", (name) => gateway.switch(name, true));

export const switchOn: AdminHandler = async (gateway, request) =>
  changeProvider(gateway, request, "on", (name) => gateway.switch(name, false));

/** @throws AdminError where there is no such provider or target, or gateway.yaml has it off */
async function changeProvider(
  gateway: AdminGateway,
  { names: [name = ""], body }: AdminRequest,
  action: string,
  act: (full: string, which: { provider: string; model: string | undefined }) => unknown,
): Promise<AdminResponse> {
  const { model } = parseBody(TargetChangeSchema, body);
  const before = await findProvider(gateway, name);
  if (before.off !== undefined) throw new AdminError("conflict", `The provider ${name} is off: ${before.off}.`);
  if (model !== undefined && !before.targets.some((target) => target.model === model))
    throw new AdminError("not_found", `No model has a target ${name}:${model}.`);
  const full = model === undefined ? name : `${name}:${model}`;
  await act(full, { provider: name, model });
  const audit = { action: `providers.${action}`, subject: full, detail: {} };
  return { body: { provider: await findProvider(gateway, name) }, audit };
}

async function findProvider(gateway: AdminGateway, name: string): Promise<ShownProvider> {
  const found = (await shownProviders(gateway)).find((each) => each.name === name);
  if (!found) throw new AdminError("not_found", `There is no provider ${name}.`);
  return found;
}
