import { createCipheriv, createDecipheriv, createHmac, randomBytes } from "node:crypto";

const NONCE_BYTES = 12;
const TAG_BYTES = 16;

/** Encrypts and authenticates what a browser stores for the admin side: it can neither read nor forge it. */
export class Seal {
  private readonly key: Buffer;

  /** @param secret of all gateways that must open each other's data */
  constructor(secret: string | Buffer) {
    this.key = createHmac("sha256", secret).update("model-gateway admin").digest();
  }

  /** Seals content. @param purpose `unseal` needs the same one */
  seal(content: object, purpose: string): string {
    const nonce = randomBytes(NONCE_BYTES);
    const cipher = createCipheriv("aes-256-gcm", this.key, nonce).setAAD(Buffer.from(purpose));
    const sealed = Buffer.concat([cipher.update(JSON.stringify(content)), cipher.final()]);
    return Buffer.concat([nonce, cipher.getAuthTag(), sealed]).toString("base64url");
  }

  /** Returns what was sealed for that purpose; undefined: not sealed with this secret for this purpose. */
  unseal(sealed: string, purpose: string): unknown {
    const bytes = Buffer.from(sealed, "base64url");
    if (bytes.length < NONCE_BYTES + TAG_BYTES) return undefined;
    const decipher = createDecipheriv("aes-256-gcm", this.key, bytes.subarray(0, NONCE_BYTES));
    decipher.setAAD(Buffer.from(purpose)).setAuthTag(bytes.subarray(NONCE_BYTES, NONCE_BYTES + TAG_BYTES));
    try {
      const content = Buffer.concat([decipher.update(bytes.subarray(NONCE_BYTES + TAG_BYTES)), decipher.final()]);
      return JSON.parse(content.toString());
    } catch {
      return undefined;
    }
  }
}
