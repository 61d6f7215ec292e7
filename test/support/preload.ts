// For each process of test files: tap with the Domain of this folder.
import { registerHooks } from "node:module";

const DOMAIN = new URL("domain.ts", import.meta.url).href;

registerHooks({
  resolve: (specifier, context, next) =>
    specifier === "async-hook-domain"
      ? { url: DOMAIN, format: "module", shortCircuit: true }
      : next(specifier, context),
});
