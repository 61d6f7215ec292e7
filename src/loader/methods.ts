import { nearest } from "../config/suggest.ts";
import { PHASES, type PluginClass } from "../core/plugin.ts";

/** What the engine calls of a plugin: its phases, and what is no phase of an exchange. */
export const METHODS: readonly string[] = [...PHASES, "serve", "recorded", "start", "close"];

/** Names of an object's methods, inherited ones and functions in fields included. */
export function methodsOf(object: object): string[] {
  const names = new Set<string>();
  for (let each = object; each !== Object.prototype && each !== null; each = Object.getPrototypeOf(each))
    for (const [name, { value }] of Object.entries(Object.getOwnPropertyDescriptors(each)))
      if (typeof value === "function" && name !== "constructor") names.add(name);
  return [...names];
}

/**
 * Phases of a plugin by its class alone. Those in fields exist only once it is built, so what its source sets counts too:
 * rather one too many than one too few.
 */
export function phasesOf(Class: PluginClass): string[] {
  const methods = methodsOf(Class.prototype);
  let source = "";
  for (let each: object = Class; each !== Function.prototype; each = Object.getPrototypeOf(each)) source += each;
  return PHASES.filter((phase) => methods.includes(phase) || new RegExp(`\\b${phase}\\s*=`).test(source));
}

/** Methods that nobody calls and whose names are nearly those of phases, in words. */
export function misspelt(methods: readonly string[]): string[] {
  const free = METHODS.filter((name) => !methods.includes(name));
  return methods.flatMap((name) => {
    const meant = METHODS.includes(name) ? undefined : nearest(name, free);
    return meant === undefined ? [] : [`${name} is no phase, did you mean ${meant}?`];
  });
}
