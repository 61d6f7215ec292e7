import { type Caller } from "../core/marketplace.ts";

/** A gateway key as it is kept: never the key itself, only its SHA-256. */
export interface KeyRecord extends Caller {
  /** SHA-256 of the whole key, hex. */
  hash: string;
  /** Where it comes from: gateway.yaml or the store. */
  source: "file" | "store";
  /** Unix milliseconds. */
  created: number;
  expires?: number;
  revoked?: number;
}

export interface NewKey {
  name: string;
  models?: readonly string[];
  /** Unix milliseconds. */
  expires?: number;
}

/** Knows the keys this gateway issued or was given. */
export abstract class Keys {
  /**
   * The record of a presented key, revoked and expired ones included, or undefined. Cheap for text that cannot be a key.
   * @throws GatewayError `internal` (503 to the client) when the store cannot answer and the key is not known.
   */
  abstract find(presented: string): KeyRecord | undefined | Promise<KeyRecord | undefined>;
  /** Makes a key; the answer holds the only copy of it that will ever be shown. */
  abstract create(key: NewKey): Promise<{ key: string; record: KeyRecord }>;
  abstract list(): Promise<KeyRecord[]>;
  /** By id or name; false when there is none. A key from gateway.yaml can only be removed there. */
  abstract revoke(idOrName: string): Promise<boolean>;
  abstract close(): void;
}
