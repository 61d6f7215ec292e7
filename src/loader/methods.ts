import type { KnownPlugin } from "../config/plugins.ts";
import { nearest } from "../config/suggest.ts";
import { PHASES, type PluginClass } from "../core/plugin.ts";

/** Methods of a plugin that the engine calls: its phases, and those outside of an exchange. */
export const PLUGIN_METHODS: readonly string[] = [...PHASES, "serve", "recorded", "start", "close"];

/** Returns the names of an object's methods, including inherited ones and functions in fields. */
export function methodsOf(object: object): string[] {
  const names = new Set<string>();
  for (let each = object; each !== Object.prototype && each !== null; each = Object.getPrototypeOf(each))
    for (const [name, { value }] of Object.entries(Object.getOwnPropertyDescriptors(each)))
      if (typeof value === "function" && name !== "constructor") names.add(name);
  return [...names];
}

/**
 * Returns the phases of a plugin from its class alone. Phases in fields exist only in an instance, so assignments in the source
 * count too: it is better to find one too many than to miss one.
 */
export function phasesOf(Class: PluginClass): string[] {
  const methods = methodsOf(Class.prototype);
  let source = "";
  for (let each: object = Class; each !== Function.prototype; each = Object.getPrototypeOf(each)) source += each;
  return PHASES.filter((phase) => methods.includes(phase) || new RegExp(`\\b${phase}\\s*=`).test(source));
}

/** Returns what the checks of gateway.yaml have to know about a plugin's class. */
export function knownPlugin(Class: PluginClass): KnownPlugin {
  const { options, after, before, twice } = Class;
  const placed = { ...(after && { after }), ...(before && { before }), ...(twice && { twice }) };
  return { options, phases: phasesOf(Class), ...placed };
}

/** Describes unknown methods whose names are close to those of phases. */
export function misspeltMethods(methods: readonly string[]): string[] {
  const free = PLUGIN_METHODS.filter((name) => !methods.includes(name));
  return methods.flatMap((name) => {
    const meant = PLUGIN_METHODS.includes(name) ? undefined : nearest(name, free);
    return meant === undefined ? [] : [`${name} is no phase, did you mean ${meant}?`];
  });
}
