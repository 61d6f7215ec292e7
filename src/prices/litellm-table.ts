import type { Price } from "../core/price.ts";

/** The part of a row that is kept. */
export interface LiteLlmModel {
  context?: number;
  output?: number;
  can?: string[];
  price?: Price;
}

/** The part of the table that is kept: models as `vendor:model`. */
export interface LiteLlmExtract {
  version: string;
  models: Record<string, LiteLlmModel>;
}

/** The extract as it is stored: many names, like those of regions, stand for equal models. */
export interface StoredLiteLlmExtract {
  version: string;
  /** What models can do; rows have the places in this list. */
  abilities: readonly string[];
  models: readonly StoredLiteLlmModel[];
}

/** A model, all of its names first. What is unknown is null, or left out at the end. */
export type StoredLiteLlmModel = readonly [
  names: readonly string[],
  can: readonly number[],
  context: number | null,
  output: number | null,
  price?: Price,
];

/** Returns a stored extract by names. */
export function unpackLiteLlm({ version, abilities, models }: StoredLiteLlmExtract): LiteLlmExtract {
  const unpacked = models.flatMap(([names, can, context, output, price]) => {
    const model: LiteLlmModel = {
      ...(context !== null && { context }),
      ...(output !== null && { output }),
      ...(can.length > 0 && { can: can.map((at) => abilities[at] as string) }),
      ...(price && { price }),
    };
    return names.map((name) => [name, model] as const);
  });
  return { version, models: Object.fromEntries(unpacked) };
}
