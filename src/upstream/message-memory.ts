const MIB = 1024 * 1024;

/**
 * Bytes of each socket that are not counted, so that messages of the usual size are accepted while others have taken all of the
 * memory. 500 sockets need 32 MB for them.
 */
const FREE_BYTES = 64 * 1024;
/** Bytes for the sockets of one key, unless a single message may be larger. */
const KEY_BYTES = 16 * MIB;
/** Number of keys that can use all of their bytes at the same time. */
const KEYS = 4;

/** Bounds the memory for incomplete WebSocket messages that are parsed, in a process and for each key. */
export class MessageMemory {
  private used = 0;
  private readonly usedByKey = new Map<string, number>();

  /** Bytes that are counted now. */
  get size(): number {
    return this.used;
  }

  /** Opens an account of one socket. @param key its caller's; empty: none @param largest maximum bytes of a message */
  account(key: string, largest: number): MemoryAccount {
    const keyLimit = Math.max(KEY_BYTES, largest);
    let counted = 0;
    return {
      set: (bytes) => {
        const wanted = Math.max(0, bytes - FREE_BYTES);
        const more = wanted - counted;
        const ofKey = (this.usedByKey.get(key) ?? 0) + more;
        if (more > 0 && (ofKey > keyLimit || this.used + more > keyLimit * KEYS)) return false;
        counted = wanted;
        this.used += more;
        if (ofKey > 0) this.usedByKey.set(key, ofKey);
        else this.usedByKey.delete(key);
        return true;
      },
    };
  }
}

/** What one socket uses of a `MessageMemory`. */
export interface MemoryAccount {
  /** Changes the bytes in use; 0 at the end. @returns whether there is room for them; otherwise nothing has changed */
  set(bytes: number): boolean;
}
