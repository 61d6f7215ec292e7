import { CALLER_SHAPE, type Caller } from "../core/caller.ts";
import { FailureLimiter } from "../core/failure-limiter.ts";
import type { MaybePromise } from "../core/plugin.ts";
import { type Shape, withShape } from "../core/shape.ts";

/** A gateway key as stored: never the key itself, only its SHA-256. Times are Unix milliseconds. */
export interface KeyRecord extends Caller {
  /** SHA-256 of the whole key, hex. */
  hash: string;
  /** Its origin: gateway.yaml or the store. */
  source: "file" | "store";
  created: number;
  /** Set while it is disabled. */
  disabled?: number;
  revoked?: number;
  /** The time until which the key from before its last rotation works too. */
  rotating?: number;
  /** Of a former secret: until when it works after the rotation that replaced it. */
  replaced?: number;
}

/** All members of a record: records have one shape, as each request reads some. */
export const KEY_RECORD: Shape<KeyRecord> = {
  ...CALLER_SHAPE,
  ...{ hash: true, source: true, created: true, disabled: true, revoked: true, rotating: true, replaced: true },
};

/** The fields of a key that an operator sets, besides its name. */
export type KeyFields = Omit<Caller, "id" | "name">;

/** A key to be created. */
export type NewKey = Omit<Caller, "id">;

/** The fields to change; null removes a field. */
export type KeyEdit = { [Field in keyof NewKey]?: NewKey[Field] | null };

/** A new key, shown only this once. */
export interface IssuedKey {
  key: string;
  record: KeyRecord;
}

/** Counts a wrong key, as `Keys.countWrongKey`. */
type WrongKeyCounter = (address: string, limit: number) => Promise<number | undefined>;

/** A change of a key: it was revoked, disabled or edited; or of a group, which was disabled with all groups below it. */
export type KeyChange =
  | { readonly id: string; readonly kind: "revoked" | "disabled" }
  | {
      readonly id: string;
      readonly kind: "changed";
      /** Unix milliseconds until which each of its secrets works, by the secret's SHA-256 in hex; `Infinity`: always. */
      readonly secrets: ReadonlyMap<string, number>;
    }
  | { readonly group: string };

/**
 * Keys that this gateway issued or was given. Keys are named by id or name; a name means the key that has it now. A key of
 * gateway.yaml can only be changed there.
 */
export abstract class Keys {
  /** A caller lives as long as its record. */
  private readonly callers = new WeakMap<KeyRecord, Caller>();
  private readonly secrets = new WeakMap<Caller, string>();
  private readonly wrongKeys = new FailureLimiter();
  private countForAll: WrongKeyCounter | undefined;

  /**
   * Returns the record of a presented key, also if it is revoked, disabled or expired; undefined for an unknown key. Cheap for
   * text that cannot be a key. During a rotation both keys are found; the record of the old one has an expiry.
   * @throws GatewayError `store_unavailable` when the store does not respond and the key is not cached.
   */
  abstract find(presented: string): MaybePromise<KeyRecord | undefined>;
  /** Returns the caller of a key: the same object for each request, as long as the record lives. */
  callerOf(record: KeyRecord): Caller {
    return this.callers.get(record) ?? this.addCaller(record);
  }

  private addCaller(record: KeyRecord): Caller {
    const caller = withShape<Caller>(CALLER_SHAPE, record);
    this.callers.set(record, caller);
    this.secrets.set(caller, record.hash);
    return caller;
  }

  /** Returns the SHA-256 of the secret, in hex, by which a caller was found; undefined for a caller that a plugin has made. */
  secretOf(caller: Caller): string | undefined {
    return this.secrets.get(caller);
  }

  /**
   * Counts a wrong key.
   * @param address IPv6: its /64
   * @param limit per address and minute; 0: none
   * @returns the seconds until the address may send another one, where the limit is exceeded
   */
  countWrongKey(address: string, limit: number): MaybePromise<number | undefined> {
    const seconds = this.wrongKeys.add(address, limit);
    // An address that has exceeded it here need not be counted elsewhere too.
    if (seconds !== undefined || limit === 0 || !this.countForAll) return seconds;
    return this.countForAll(address, limit).catch(() => undefined);
  }

  /** Lets another process count wrong keys for all that serve together; without its answer only those of this one count. */
  shareWrongKeys(count: WrongKeyCounter): void {
    this.countForAll = count;
  }

  /**
   * Calls a listener on changes of keys and groups by any process: within half a second on one machine. Expiry is not reported.
   * Returns a function that ends it.
   */
  abstract watch(listener: (change: KeyChange) => void): () => void;
  /** Creates a key; the result holds the only copy that will ever be shown. */
  abstract create(key: NewKey): Promise<IssuedKey>;
  abstract list(): Promise<KeyRecord[]>;
  /** Undefined if there is no such key. */
  abstract show(idOrName: string): Promise<KeyRecord | undefined>;
  /**
   * Undefined if there is no such key in the store, or if it is revoked, except for its name, owner, group and tags.
   * @param version of the fields on which the edit is based, as `keyVersion` returns it
   * @throws GatewayError 409 if they are others now
   */
  abstract edit(idOrName: string, edit: KeyEdit, version?: string): Promise<KeyRecord | undefined>;
  /**
   * Creates a new key with the same id, name and scope; undefined if there is no such key in the store.
   * @param overlap milliseconds for which the old key works too; keys of earlier rotations stop working
   * @param deliver is called before the change is committed; if it throws, nothing is changed
   */
  abstract rotate(
    idOrName: string,
    overlap: number,
    deliver?: (issued: IssuedKey) => void,
  ): Promise<IssuedKey | undefined>;
  /** Undefined if there is no such key in the store. */
  abstract disable(idOrName: string): Promise<KeyRecord | undefined>;
  abstract enable(idOrName: string): Promise<KeyRecord | undefined>;
  /** Revokes a key permanently; false if there is none. */
  abstract revoke(idOrName: string): Promise<boolean>;
  /** Returns the group itself or the one above it that is disabled; undefined: none is. Cheap. */
  abstract disabledGroup(group: string): MaybePromise<string | undefined>;
  /** Lists groups that are disabled themselves, each with the Unix milliseconds since when. */
  abstract listDisabledGroups(): Promise<ReadonlyMap<string, number>>;
  /** Disables a group and all groups below it: their keys, those of gateway.yaml included, are refused. */
  abstract disableGroup(group: string): Promise<void>;
  abstract enableGroup(group: string): Promise<void>;
  abstract close(): void;
}

/** Returns the keys in use that were given limits. */
export const limitedKeys = async (keys: Pick<Keys, "list">): Promise<KeyRecord[]> =>
  (await keys.list()).filter(({ limits, revoked }) => limits && revoked === undefined);
