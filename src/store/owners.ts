import type { MaybePromise } from "../core/plugin.ts";
/** An object stored by a provider: a file, a store, a container, a response or an item of one. */
export interface OwnedObject {
  /** The vendor's id of it. */
  readonly id: string;
  /** The provider that stores it. */
  readonly provider: string;
  /** Id of the key that created it. */
  readonly key: string;
  /** The group of that key at the time. */
  readonly group?: string;
  /** For a response: the marketplace's model that generated it. */
  readonly model?: string;
  /** The id of the credential that created it, where its provider has several: another one may be another account's. */
  readonly credential?: string;
}

/** Records which key created which object. */
export abstract class Owners {
  /**
   * Returns the objects with that id, at most one per provider; added objects are found at once.
   * @throws GatewayError `store_unavailable` when the store does not respond.
   */
  abstract find(id: string): MaybePromise<readonly OwnedObject[]>;
  /**
   * Does the same where an id is refused: waits briefly for what another gateway may have just added.
   * @param suffices reports whether the caller may use one of these; others are waited for as if there were none, so that the time
   * does not tell whether another key has the object
   * @throws GatewayError like `find`
   */
  findSoon(id: string, _suffices: (found: readonly OwnedObject[]) => boolean): MaybePromise<readonly OwnedObject[]> {
    return this.find(id);
  }
  /**
   * Records the creators of objects; ids that a provider already has stay unchanged. Never throws and never blocks: objects are
   * on disk at the end of this turn of the event loop, except for a store in memory.
   */
  abstract add(objects: readonly OwnedObject[]): void;
  abstract close(): Promise<void>;
}
