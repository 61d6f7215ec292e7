import "reflect-metadata";
import { container, type DependencyContainer, type InjectionToken } from "tsyringe";
import { Levels } from "./core/limits.ts";
import { Log } from "./core/log.ts";
import { Marketplace } from "./core/marketplace.ts";
import { Options, type Plugin, type PluginClass } from "./core/plugin.ts";
import { Redactor } from "./core/redactor.ts";
import { ObjectAccess } from "./objects/objects.ts";
import { KeptValues } from "./store/kept-values.ts";
import { Keys } from "./store/keys.ts";
import { Ledger } from "./store/ledger.ts";
import { Limiter } from "./store/limiter.ts";
import { Translations } from "./translation/translations.ts";
import { Health } from "./upstream/health.ts";

/**
 * The dependencies that a plugin's constructor may inject. Three nested containers: process, generation, and one for each plugin
 * instance, which holds its options. Nothing is resolved per request.
 */
interface ProcessParts {
  log: Log;
}

/** The parts of a generation, by the classes that constructors ask for. */
const PART_CLASSES = {
  keys: Keys,
  values: KeptValues,
  ledger: Ledger,
  levels: Levels,
  limiter: Limiter,
  marketplace: Marketplace,
  objects: ObjectAccess,
  health: Health,
  translations: Translations,
  redactor: Redactor,
} as const;

type PartClasses = typeof PART_CLASSES;
type GenerationParts = { [Name in keyof PartClasses]: InstanceType<PartClasses[Name]> };

/** Casts an abstract class to a token: such classes are tokens at run time, which tsyringe's types do not allow. */
const token = (type: abstract new (...parts: never[]) => unknown): InjectionToken => type as unknown as InjectionToken;

/** Returns the container of a process, in which those of its generations are nested. */
export function processContainer(parts: ProcessParts): DependencyContainer {
  return container.createChildContainer().register(token(Log), { useValue: parts.log });
}

/** Returns the container of a generation, in which those of its plugins are nested. */
export function generationContainer(parent: DependencyContainer, parts: GenerationParts): DependencyContainer {
  const own = parent.createChildContainer();
  for (const name of Object.keys(PART_CLASSES) as (keyof PartClasses)[])
    own.register(token(PART_CLASSES[name]), { useValue: parts[name] });
  return own;
}

/** Names of the types that a plugin's constructor may inject. */
export const INJECTABLE: readonly string[] = [Log, ...Object.values(PART_CLASSES)].map(({ name }) => name).sort();

/** Returns the type of each constructor parameter of a class, or its explicit token (`@inject(…)`). */
export function injectedTypes(Class: PluginClass): readonly unknown[] {
  const types = (Reflect.getOwnMetadata("design:paramtypes", Class) ?? []) as readonly unknown[];
  const tokens = (Reflect.getOwnMetadata("injectionTokens", Class) ?? {}) as Record<number, unknown>;
  return types.map((type, i) => tokens[i] ?? type);
}

/**
 * Returns a plugin instance with its own options.
 * @throws Error that names the constructor parameter that cannot be injected
 */
export function buildPlugin(parent: DependencyContainer, Class: PluginClass, options: unknown): Plugin {
  const own = parent.createChildContainer().register(Options, { useValue: options });
  return own.resolve(Class as unknown as InjectionToken<Plugin>);
}
