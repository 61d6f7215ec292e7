import type { Config, ConfiguredProvider } from "../config/types.ts";
import { durationWords, partWords } from "../config/units.ts";
import { badness, type LiveCredential, type LiveProvider, type LiveTarget, PROVIDERS } from "./questions.ts";
import type { AdminSubject } from "./served.ts";

/** A provider, as the console shows it. */
export interface ShownProvider {
  readonly name: string;
  readonly url: string;
  readonly speaks: readonly string[];
  /** Why it takes no requests. */
  readonly off?: string;
  readonly concurrency?: number;
  /** When a target of it is left alone, in the words of gateway.yaml. */
  readonly health: Readonly<Record<string, string | number>>;
  /** What gateway.yaml says of its concurrency and health itself. */
  readonly written: object;
  readonly credentials: readonly LiveCredential[];
  readonly targets: readonly LiveTarget[];
}

/** All providers of gateway.yaml; what several processes find out of one is put together: the worst that any has found. */
export async function providers(subject: AdminSubject): Promise<ShownProvider[]> {
  const all = (await subject.askAll(PROVIDERS, null)).flat();
  const { config } = subject;
  return config.providers.map((provider) =>
    shown(
      provider,
      config.written,
      all.filter(({ name }) => name === provider.name),
    ),
  );
}

function shown(
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
    ...{ name, url: url === "demo:" ? url : url.href, speaks: [...speaks] },
    ...(off !== undefined && { off }),
    ...(concurrency > 0 && { concurrency }),
    health: healthWords(configured.health),
    written: written.providers.get(name) ?? {},
    credentials: worst(found.map(({ credentials }) => credentials)),
    targets: [...targets.values()].map(together),
  };
}

function healthWords({ failures, errors, requests, window, slow, open, longest }: ConfiguredProvider["health"]) {
  return {
    ...{ failures, errors: partWords(errors), requests, window: durationWords(window), slow: durationWords(slow) },
    ...{ open: durationWords(open), longest: durationWords(longest) },
  };
}

const TARGETS: readonly LiveTarget["state"][] = ["closed", "half-open", "open"];

function together(found: readonly LiveTarget[]): LiveTarget {
  const [bad] = found.toSorted((a, b) => TARGETS.indexOf(b.state) - TARGETS.indexOf(a.state));
  const times = found.flatMap(({ first_byte: time }) => time ?? []);
  const sum = (of: (target: LiveTarget) => number) => found.reduce((all, target) => all + of(target), 0);
  return {
    ...(bad as LiveTarget),
    in_flight: sum(({ in_flight: running }) => running),
    ...(times.length > 0 && { first_byte: Math.round(times.reduce((all, time) => all + time, 0) / times.length) }),
    recent: { requests: sum(({ recent }) => recent.requests), failed: sum(({ recent }) => recent.failed) },
    credentials: worst(found.map(({ credentials }) => credentials)),
  };
}

/** Of each credential what the process says that has found out the worst. */
function worst(found: readonly (readonly LiveCredential[])[]): LiveCredential[] {
  const byLabel = Map.groupBy(found.flat(), ({ label }) => label);
  return [...byLabel.values()].map(
    (all) => all.toSorted((a, b) => badness(b.state) - badness(a.state))[0] as LiveCredential,
  );
}
