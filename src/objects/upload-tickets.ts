import { createHmac, timingSafeEqual } from "node:crypto";

/** The query parameter of an upload's URL that holds a ticket. */
export const TICKET_PARAMETER = "gateway_upload";
/** Milliseconds for which a ticket is valid: no vendor keeps an unfinished upload for longer. */
const MAX_TICKET_AGE = 7 * 24 * 3_600_000;
const TICKET_FORMAT = /^([\w-]*)\.([0-9a-z]{1,10})\.([\w-]{43})$/;

/** An upload that a vendor has begun, on one path of gateway.yaml. */
interface Upload {
  /** The pattern of the path. */
  readonly path: string;
  /** The vendor's id of it. */
  readonly session: string;
}

/**
 * Signed proofs of which key began an upload. The gateway adds one to the URL where the upload continues: only that key may
 * continue it, and a client that sends no key there, as some vendors' SDKs do, is recognised by it. Valid after a restart and at
 * every instance with the same secret.
 */
export class UploadTickets {
  private readonly key: Buffer;

  constructor(secret: string | Buffer) {
    this.key = createHmac("sha256", secret).update("model-gateway uploads").digest();
  }

  /** Issues a ticket. @param key id of the key that began the upload; empty: a caller without a key */
  issue(key: string, upload: Upload, now: number): string {
    const expires = now + MAX_TICKET_AGE;
    const mac = this.mac(key, upload, expires).toString("base64url");
    return `${Buffer.from(key).toString("base64url")}.${expires.toString(36)}.${mac}`;
  }

  /** Returns the id of the key that began an upload; undefined: the ticket is invalid, expired, or another upload's. */
  keyOf(ticket: string, upload: Upload, now: number): string | undefined {
    const [, encoded = "", time = "", mac = ""] = TICKET_FORMAT.exec(ticket) ?? [];
    const [key, expires] = [Buffer.from(encoded, "base64url").toString(), Number.parseInt(time, 36)];
    // NaN if there is no match.
    if (!(expires > now)) return undefined;
    return timingSafeEqual(Buffer.from(mac, "base64url"), this.mac(key, upload, expires)) ? key : undefined;
  }

  private mac(key: string, { path, session }: Upload, expires: number): Buffer {
    return createHmac("sha256", this.key)
      .update(JSON.stringify([key, path, session, expires]))
      .digest();
  }
}
