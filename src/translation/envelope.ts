import { createCipheriv, createDecipheriv, createHmac, randomBytes } from "node:crypto";
import { GatewayError } from "../core/errors.ts";
import { IssuedIds } from "../objects/issued.ts";
import { UploadTickets } from "../objects/upload-tickets.ts";
import { asObject, asText } from "../wire/values.ts";
import { ByteSearch } from "../wire/window.ts";
import type { Opaque } from "./events.ts";
import { KeptEnvelopes } from "./kept-envelopes.ts";

/**
 * The prefix of every envelope. It is whole bytes in base64, of characters in both base64 alphabets: clients may decode an
 * envelope and encode it again in either.
 */
const MARK = "gw1state";
const MARK_BYTES = Buffer.from(MARK, "base64");
/** The mark as it appears in JSON. */
const QUOTED_MARK = Buffer.from(`"${MARK}`);
const QUOTE = QUOTED_MARK[0] as number;
const MARK_SEARCH = new ByteSearch(QUOTED_MARK);
const NO_BYTES = Buffer.alloc(0);
const NONCE_BYTES = 12;
const TAG_BYTES = 16;
/** Maximum characters of an envelope. Signatures on images are the longest that vendors send. */
const MAX_ENVELOPE = 16 * 1024 * 1024;

/** Maximum number of envelopes that are opened to find one that names an account: those of citations name none. */
const MAX_OPENED = 500;

/** How an opaque string is packed: as the bytes that its base64 or base64url decodes to, or as text. */
const CODINGS = ["base64", "base64url", "utf8"] as const;

/**
 * State that only one provider can read, in a form that any client's protocol can carry. It is encrypted, so that a client
 * can neither read which account it comes from nor forge it, and bound to its owner, so that it opens for no other caller.
 * The same content gives the same owner the same envelope.
 */
export class Envelopes {
  /** Ids that the gateway generates beside envelopes. */
  readonly ids: IssuedIds;
  /** Proofs of which key began an upload. */
  readonly uploads: UploadTickets;
  private readonly encryptionKey: Buffer;
  private readonly nonceKey: Buffer;
  private readonly kept: KeptEnvelopes;

  /**
   * @param secret its owner can open and forge envelopes; without one they are valid only for this process's lifetime.
   */
  constructor(secret: string | Buffer = randomBytes(32), now: () => number = Date.now) {
    this.kept = new KeptEnvelopes(now);
    this.ids = new IssuedIds(secret);
    this.uploads = new UploadTickets(secret);
    this.encryptionKey = createHmac("sha256", secret).update("model-gateway envelope").digest();
    this.nonceKey = createHmac("sha256", secret).update("model-gateway nonce").digest();
  }

  /**
   * Returns standard base64 with padding, the only form that all clients accept.
   * @throws GatewayError `upstream_invalid` for content of many megabytes.
   */
  seal(opaque: Opaque, owner = ""): string {
    const plain = pack(opaque);
    // A nonce derived from the content repeats only for the same content of the same owner.
    const nonceHmac = createHmac("sha256", this.nonceKey).update(`${owner.length} ${owner}`);
    const nonce = nonceHmac.update(plain).digest().subarray(0, NONCE_BYTES);
    const cipher = createCipheriv("aes-256-gcm", this.encryptionKey, nonce).setAAD(Buffer.from(owner));
    const sealed = [MARK_BYTES, nonce, cipher.update(plain), cipher.final(), cipher.getAuthTag()];
    const envelope = Buffer.concat(sealed).toString("base64");
    if (envelope.length > MAX_ENVELOPE)
      throw new GatewayError("upstream_invalid", {
        message: "The provider's opaque state is too large to be carried.",
      });
    return envelope;
  }

  /** Reports whether a JSON text, given in pieces, may hold an envelope. */
  mayBeIn(pieces: readonly Buffer[]): boolean {
    const overlap = QUOTED_MARK.length - 1;
    let tail: Buffer = NO_BYTES;
    for (const piece of pieces) {
      if (MARK_SEARCH.indexIn(piece) >= 0) return true;
      if (tail.length > 0 && Buffer.concat([tail, piece.subarray(0, overlap)]).includes(QUOTED_MARK)) return true;
      tail = (piece.length < overlap ? Buffer.concat([tail, piece]) : piece).subarray(-overlap);
    }
    return false;
  }

  /**
   * Returns the content of the last envelope in a JSON text that names an account, as all do that only one account can read; undefined
   * where there is none, it is another owner's, or very many follow that name none.
   */
  openLast(pieces: readonly Buffer[], owners?: readonly string[]): Opaque | undefined {
    if (!this.mayBeIn(pieces)) return undefined;
    const text = Buffer.concat(pieces);
    let start = text.length;
    for (let opened = 0; opened < MAX_OPENED; opened++) {
      start = text.subarray(0, start).lastIndexOf(QUOTED_MARK);
      if (start < 0) return undefined;
      const end = text.indexOf(QUOTE, start + 1);
      if (end < 0 || end - start > MAX_ENVELOPE) return undefined;
      try {
        const opaque = this.open(JSON.parse(text.toString("latin1", start, end + 1)) as string, owners);
        if (opaque.account !== undefined) return opaque;
      } catch {
        // The request's decoder reports the error.
        return undefined;
      }
    }
    return undefined;
  }

  /** Reports whether a string looks like an envelope. */
  isEnvelope(text: string): boolean {
    return text.startsWith(MARK);
  }

  /**
   * Opens an envelope.
   * @param envelope in either alphabet of base64, padded or not
   * @param owners the possible owners
   * @throws GatewayError `invalid_field` for an envelope that is forged, truncated, made with another secret, or of another
   * owner.
   */
  open(envelope: string, owners: readonly string[] = [""]): Opaque {
    if (!this.isEnvelope(envelope) || envelope.length > MAX_ENVELOPE) throw invalidEnvelope();
    const decoded = Buffer.from(envelope, "base64");
    const bytes = decoded.subarray(MARK_BYTES.length);
    // Buffer.from skips characters that are not base64, and ignores spare bits of the last one: compare the canonical spelling.
    if (
      bytes.length <= NONCE_BYTES + TAG_BYTES ||
      canonicalBase64(decoded.toString("base64")) !== canonicalBase64(envelope)
    )
      throw invalidEnvelope();
    for (const owner of owners) {
      const plain = this.decrypt(bytes, owner);
      if (plain) return unpack(plain);
    }
    throw invalidEnvelope();
  }

  private decrypt(bytes: Buffer, owner: string): Buffer | undefined {
    const decipher = createDecipheriv("aes-256-gcm", this.encryptionKey, bytes.subarray(0, NONCE_BYTES));
    decipher.setAAD(Buffer.from(owner)).setAuthTag(bytes.subarray(-TAG_BYTES));
    try {
      return Buffer.concat([decipher.update(bytes.subarray(NONCE_BYTES, -TAG_BYTES)), decipher.final()]);
    } catch {
      return undefined;
    }
  }

  /** Keeps the state of a caller's tool call, for an hour at most, for clients that strip fields they do not know. */
  remember(caller: string, callId: string, opaque: Opaque): void {
    this.kept.set(caller, callId, this.seal(opaque, caller));
  }

  /** Returns what was kept for a call of that caller. @param key not converted to a string where nothing is kept */
  recall(caller: string, key: { toString(): string }): Opaque | undefined {
    const envelope = this.kept.get(caller, key);
    return envelope === undefined ? undefined : this.open(envelope, [caller]);
  }
}

/** Returns base64 text in a canonical spelling. */
const canonicalBase64 = (text: string): string =>
  text
    .replaceAll("+", "-")
    .replaceAll("/", "_")
    .replace(/={1,2}$/, "");

const invalidEnvelope = (): GatewayError =>
  new GatewayError("invalid_field", {
    message:
      "The request carries opaque reasoning state that this gateway did not make for this key, or that was changed.",
    hint: "Send reasoning back unchanged, or leave it out; the state of another gateway or key, or from before a change of the secret, cannot be used.",
  });

/** Packs the head's length, the head as JSON, and the data as bytes. */
function pack({ protocol, account, model, kind, data, on, extra, textBehind }: Opaque): Buffer {
  const coding = CODINGS.findIndex((candidate) => Buffer.from(data, candidate).toString(candidate) === data);
  const members = [protocol, account ?? null, model ?? null, kind, coding < 0 ? data : coding, on ?? null, extra];
  const head = Buffer.from(JSON.stringify(textBehind === undefined ? members : [...members, textBehind]));
  const length = Buffer.alloc(4);
  length.writeUInt32BE(head.length);
  const body = Buffer.from(coding < 0 ? "" : data, CODINGS[coding] ?? "utf8");
  return Buffer.concat([length, head, body]);
}

function unpack(plain: Buffer): Opaque {
  const headEnd = 4 + plain.readUInt32BE();
  const [protocol, account, model, kind, coding, on, extra, textBehind] = JSON.parse(
    plain.toString("utf8", 4, headEnd),
  ) as unknown[];
  const data = typeof coding === "number" ? plain.subarray(headEnd).toString(CODINGS[coding]) : asText(coding);
  const call = asText(asObject(on)?.["call"]);
  const media = asText(asObject(on)?.["media"]);
  return {
    protocol: String(protocol),
    kind: String(kind),
    data: data ?? "",
    ...(typeof account === "string" ? { account } : {}),
    ...(typeof model === "string" ? { model } : {}),
    ...(on === "text" || on === "reasoning" ? { on } : {}),
    ...(call === undefined ? {} : { on: { call } }),
    ...(media === undefined ? {} : { on: { media } }),
    ...(extra === undefined || extra === null ? {} : { extra }),
    ...(typeof textBehind === "number" ? { textBehind } : {}),
  };
}
