import { type GatewayError, storeUnavailable } from "../core/errors.ts";
import type { MaybePromise } from "../core/plugin.ts";
import type { OwnedObject } from "./owners.ts";

/** An object and when it was first seen, Unix milliseconds. */
export interface CreatedObject extends OwnedObject {
  readonly time: number;
}

/** The table `object` of a store. */
export interface ObjectRows {
  /** @throws Error when the store does not respond */
  find(id: string): MaybePromise<readonly OwnedObject[]>;
  /** Inserts all or none; ids that a provider already has stay unchanged. @throws Error on failure */
  insert(made: readonly CreatedObject[]): Promise<void>;
}

/** The error while owners cannot be determined. */
export const ownersUnavailable = (cause: unknown): GatewayError =>
  storeUnavailable("objects", "Who made the object is not known, as the gateway's store of that cannot answer.", cause);

/** Converts a row of the table to an object. */
export const rowToObject = ({ id, provider, key, group, model, credential }: Record<string, unknown>): OwnedObject => ({
  id: String(id),
  provider: String(provider),
  key: String(key),
  ...(group === null ? {} : { group: String(group) }),
  ...(model === null ? {} : { model: String(model) }),
  ...(credential === null ? {} : { credential: String(credential) }),
});
