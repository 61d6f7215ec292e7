import { generationContainer, processContainer } from "../../src/container.ts";
import type { Log } from "../../src/core/log.ts";
import { Marketplace } from "../../src/core/marketplace.ts";
import { Redactor } from "../../src/core/redactor.ts";

type GenerationParts = Parameters<typeof generationContainer>[1];

/** Returns the container of a generation with these parts; all others are empty. */
export function containerWith(log: Log, parts: Partial<GenerationParts>) {
  const all = {
    ...{ keys: {}, values: {}, ledger: {}, levels: {}, limiter: {}, objects: {}, health: {}, translations: {} },
    ...{ marketplace: new Marketplace([]), redactor: new Redactor([]) },
    ...parts,
  };
  return generationContainer(processContainer({ log }), all as GenerationParts);
}
