import { checkKeyScope } from "../core/key-scope.ts";
import type { Limits } from "../core/limit-kinds.ts";
import { CALLER, type Caller } from "../core/marketplace.ts";
import { type Shape, shaped } from "../core/shape.ts";

/** A gateway key as it is kept: never the key itself, only its SHA-256. Times are Unix milliseconds. */
export interface KeyRecord extends Caller {
  /** SHA-256 of the whole key, hex. */
  hash: string;
  /** Where it comes from: gateway.yaml or the store. */
  source: "file" | "store";
  created: number;
  /** Set while it is switched off. */
  disabled?: number;
  revoked?: number;
  /** Until when what it was before its last rotation works too. */
  rotating?: number;
  /** Of a former secret: until when it works after the rotation that replaced it. */
  replaced?: number;
}

export const KEY_RECORD: Shape<KeyRecord> = {
  ...CALLER,
  ...{ hash: true, source: true, created: true, disabled: true, revoked: true, rotating: true, replaced: true },
};

/** What an operator says of a key. */
export interface KeyFields {
  models?: readonly string[];
  paths?: readonly string[];
  addresses?: readonly string[];
  group?: string;
  owner?: string;
  tags?: Readonly<Record<string, string>>;
  /** What it may use, of a key that is made at run time. */
  limits?: Limits;
  /** Unix milliseconds. */
  expires?: number;
}

export interface NewKey extends KeyFields {
  name: string;
}

/** What is to be different; null takes a field away. */
export type KeyEdit = { [Field in keyof NewKey]?: NewKey[Field] | null };

/** A key that is shown, this once. */
export interface IssuedKey {
  key: string;
  record: KeyRecord;
}

/** Something has happened to a key: it opens nothing any more, or is another one now. */
export interface KeyChange {
  readonly id: string;
  readonly kind: "revoked" | "disabled" | "changed";
}

/**
 * Knows the keys this gateway issued or was given. Where a key is named, that is by its id or its name; a name stands for
 * the key that holds it now. A key of gateway.yaml can only be changed there.
 */
export abstract class Keys {
  /** Records stay as long as their keys are remembered. */
  private readonly callers = new WeakMap<KeyRecord, Caller>();

  /**
   * The record of a presented key, revoked, disabled and expired ones included, or undefined. Cheap for text that cannot be
   * a key. Of a key that is being rotated both are found; the old one expires.
   * @throws GatewayError `store_unavailable` when the store cannot answer and the key is not known.
   */
  abstract find(presented: string): KeyRecord | undefined | Promise<KeyRecord | undefined>;
  /** Who holds a key: the same for each request, as long as the key is. */
  callerOf(record: KeyRecord): Caller {
    let caller = this.callers.get(record);
    if (!caller) {
      caller = shaped<Caller>(CALLER, record);
      this.callers.set(record, caller);
    }
    return caller;
  }

  /**
   * Whether a caller's key may be used for that method on that path, from that address.
   * @throws GatewayError key_not_allowed, which says what it allows
   */
  check(caller: Caller, asked: { method: string; path: string; address: string }): void {
    checkKeyScope(caller, asked);
  }

  /**
   * Tells what happens to keys, whichever process does it: within half a second on one machine. Expiry comes by itself, and
   * is not told. The answer ends it.
   */
  abstract watch(listener: (change: KeyChange) => void): () => void;
  /** Makes a key; the answer holds the only copy of it that will ever be shown. */
  abstract create(key: NewKey): Promise<IssuedKey>;
  abstract list(): Promise<KeyRecord[]>;
  /** Undefined where there is none. */
  abstract show(idOrName: string): Promise<KeyRecord | undefined>;
  /** Undefined where there is none that could be changed. */
  abstract edit(idOrName: string, edit: KeyEdit): Promise<KeyRecord | undefined>;
  /**
   * Makes another key of the same id, name and scope; undefined where there is none to change.
   * @param overlap milliseconds for which the old one works too; of an earlier rotation nothing works any more
   */
  abstract rotate(idOrName: string, overlap: number): Promise<IssuedKey | undefined>;
  /** Undefined where there is none that could be switched. */
  abstract disable(idOrName: string): Promise<KeyRecord | undefined>;
  abstract enable(idOrName: string): Promise<KeyRecord | undefined>;
  /** For good; false when there is none. */
  abstract revoke(idOrName: string): Promise<boolean>;
  abstract close(): void;
}
