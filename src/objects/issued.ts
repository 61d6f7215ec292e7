import { createHmac, timingSafeEqual } from "node:crypto";

/** Hexadecimal digits of a mark. */
const MARK_DIGITS = 16;
const MARKED_ID = new RegExp(`^(.+)_([0-9a-f]{${MARK_DIGITS}})$`);

/**
 * Ids that the gateway issues for items of responses which no provider stores. Each has a mark of its owner (an HMAC), so that a
 * client's reference to one is recognised, after a restart and at every instance with the same secret.
 */
export class IssuedIds {
  private readonly key: Buffer;

  constructor(secret: string | Buffer) {
    this.key = createHmac("sha256", secret).update("model-gateway ids").digest();
  }

  /** Returns the id with its owner's mark, 17 characters longer. */
  mark(id: string, owner: string): string {
    return `${id}_${this.markOf(id, owner)}`;
  }

  /** Reports whether the gateway issued an id to one of these owners. */
  isIssuedTo(id: string, owners: readonly string[]): boolean {
    const [, bare, mark] = MARKED_ID.exec(id) ?? [];
    if (bare === undefined || mark === undefined) return false;
    return owners.some((owner) => timingSafeEqual(Buffer.from(this.markOf(bare, owner)), Buffer.from(mark)));
  }

  private markOf(id: string, owner: string): string {
    return createHmac("sha256", this.key).update(`${owner.length} ${owner}${id}`).digest("hex").slice(0, MARK_DIGITS);
  }
}
