import { type GatewayError, storeUnavailable } from "../core/errors.ts";
import type { OwnedObject } from "./owners.ts";

/** An object and when it was heard of, Unix milliseconds. */
export interface MadeObject extends OwnedObject {
  readonly time: number;
}

/** The table `object` of a store, wherever that is. */
export interface ObjectRows {
  /** @throws Error when the store cannot answer */
  find(id: string): readonly OwnedObject[] | Promise<readonly OwnedObject[]>;
  /** Writes all or none; of an id that a provider has already, nothing changes. @throws Error when it cannot */
  insert(made: readonly MadeObject[]): Promise<void>;
}

/** What is said while nobody knows who made what. */
export const ownersSilent = (cause: unknown): GatewayError =>
  storeUnavailable("objects", "Who made the object is not known, as the gateway's store of that cannot answer.", cause);

/** An object of a row of the table. */
export const objectOf = ({ id, provider, key, group, model }: Record<string, unknown>): OwnedObject => ({
  id: String(id),
  provider: String(provider),
  key: String(key),
  ...(group === null ? {} : { group: String(group) }),
  ...(model === null ? {} : { model: String(model) }),
});
