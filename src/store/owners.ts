/** An object that a provider keeps: a file, a store, a container, an answer or an item of one. */
export interface OwnedObject {
  /** The vendor's name of it. */
  readonly id: string;
  /** The provider that keeps it. */
  readonly provider: string;
  /** Id of the key that made it. */
  readonly key: string;
  /** The group of that key, then. */
  readonly group?: string;
  /** Of an answer: the marketplace's model that made it. */
  readonly model?: string;
}

/** Knows which key made which object. */
export abstract class Owners {
  /**
   * The objects of that id, of one provider each; what was added is found from then on.
   * @throws GatewayError `store_unavailable` when the store cannot answer.
   */
  abstract find(id: string): readonly OwnedObject[] | Promise<readonly OwnedObject[]>;
  /**
   * The same, where nothing found is a refusal: waits a little for what another gateway may have added just now.
   * @throws GatewayError as `find`
   */
  findSoon(id: string): readonly OwnedObject[] | Promise<readonly OwnedObject[]> {
    return this.find(id);
  }
  /**
   * Notes who made objects; of an id that a provider has already, nothing changes. Never throws and never waits: they are
   * on disk at the end of this turn of the event loop, but for a store in memory.
   */
  abstract add(objects: readonly OwnedObject[]): void;
  abstract close(): Promise<void>;
}
