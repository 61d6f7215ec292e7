// @ts-check
// Runs the gateway's, its plugins' and its tests' TypeScript as written: one module hook around oxc-transform, with legacy
// decorators and decorator metadata. Plain JavaScript on purpose: as .ts it would load Node's own type stripper first.
import { readFileSync } from "node:fs";
import * as nodeModule from "node:module";
import { fileURLToPath } from "node:url";

if (typeof nodeModule.registerHooks !== "function") {
  console.error(
    `model-gateway needs Node.js 24 or newer; this is ${process.version} at ${process.execPath}.\n` +
      "npm ci installs a suitable one: start with `npm start`, or put node_modules/.bin first on PATH.",
  );
  process.exit(1);
}
const { transformSync } = await import("oxc-transform");
await import("reflect-metadata");
// Beside the packages, so that nobody else can put code into it; where this folder cannot be written, there is none.
nodeModule.enableCompileCache?.(fileURLToPath(new URL("../../node_modules/.cache/compile", import.meta.url)));
process.setSourceMapsEnabled(true);

// oxc's decorator helpers, as globals (helpers.mode External), so that no import lines are added to a module.
/** @type {any} */ (globalThis).babelHelpers ??= {
  decorate(/** @type {any[]} */ decorators, /** @type {any} */ target, /** @type {any[]} */ ...member) {
    const [key, given] = member;
    const onClass = member.length === 0;
    let result = onClass ? target : given === null ? Object.getOwnPropertyDescriptor(target, key) : given;
    for (const decorator of decorators.toReversed()) {
      const changed = onClass ? decorator(result) : decorator(target, key, result);
      result = changed || result;
    }
    if (!onClass && result) Object.defineProperty(target, key, result);
    return result;
  },
  decorateParam:
    (/** @type {number} */ index, /** @type {any} */ decorator) =>
    (/** @type {any} */ target, /** @type {any} */ key) =>
      decorator(target, key, index),
  decorateMetadata: (/** @type {any} */ key, /** @type {any} */ value) =>
    /** @type {any} */ (Reflect).metadata(key, value),
};

const HOST = import.meta.url;

/** Whose classes and registries the host and its plugins must share: a copy of the plugin's own would not be known here. */
const SHARED = /^(?:model-gateway|tsyringe|reflect-metadata)(?:\/|$)/;

nodeModule.registerHooks({
  resolve(specifier, context, next) {
    if (SHARED.test(specifier)) return next(specifier, { ...context, parentURL: HOST });
    try {
      return next(specifier, context);
    } catch (error) {
      const bare = /^[^./#]/.test(specifier) && !specifier.includes(":");
      if (/** @type {any} */ (error).code !== "ERR_MODULE_NOT_FOUND" || !bare) throw error;
      // What a plugin's own folder does not have may be one of the host's packages.
      try {
        return next(specifier, { ...context, parentURL: HOST });
      } catch {
        throw error;
      }
    }
  },
  load(url, context, next) {
    const path = url.startsWith("file:") ? fileURLToPath(url.split(/[?#]/)[0] ?? url) : "";
    if (!/\.m?ts$/.test(path)) return next(url, context);
    const result = transformSync(path, readFileSync(path, "utf8"), {
      lang: "ts",
      sourceType: "module",
      sourcemap: true,
      target: "esnext",
      decorator: { legacy: true, emitDecoratorMetadata: true },
      helpers: { mode: /** @type {any} */ ("External") },
    });
    if (result.errors.length > 0) {
      const error = new SyntaxError(
        result.errors
          .map((found) => found.codeframe ?? found.message)
          .join("\n")
          .trim(),
      );
      error.stack = `SyntaxError in ${path}\n${error.message}`;
      throw error;
    }
    // Without the sources themselves: Node would keep a copy of each, 10 MiB in all, and can read the file.
    const map = Buffer.from(JSON.stringify({ ...result.map, sourcesContent: undefined })).toString("base64");
    return {
      format: "module",
      shortCircuit: true,
      source: `${result.code}\n//# sourceMappingURL=data:application/json;base64,${map}`,
    };
  },
});
