import { createHash, type Hash } from "node:crypto";
import type { UploadPiece } from "../core/object-members.ts";
import type { MaybePromise } from "../core/plugin.ts";
import type { ObjectReference } from "./reference-finder.ts";
import type { RequestLines } from "./request-lines.ts";

/** Limits of bytes of memory for unfinished lines of a key's uploads, and of those of all keys. */
const [MAX_KEY_BYTES, MAX_BYTES] = [16 * 1024 * 1024, 64 * 1024 * 1024];
/** Bytes of memory for an upload besides its line. */
const UPLOAD_OVERHEAD = 64 * 1024;

/** An upload at one provider. */
interface UploadSession {
  readonly provider: string;
  /** The id of the key that began it. */
  readonly key: string;
  /** The vendor's id of it. */
  readonly id: string;
}

/** A file that is being uploaded, as far as it has arrived here. */
interface PartialFile {
  readonly key: string;
  /** Undefined: a line could not be read, or names an object of another key. */
  lines: RequestLines | undefined;
  readonly hash: Hash;
  length: number;
}

/** Files whose upload goes on in another request. */
export class UnfinishedUploads {
  /** The one that was continued last is the last. */
  private readonly files = new Map<string, PartialFile>();

  /** Returns an upload as its last piece left it, and removes it. */
  take(session: UploadSession): PartialFile | undefined {
    const id = sessionKey(session);
    const file = this.files.get(id);
    this.files.delete(id);
    return file;
  }

  /** Keeps an upload for its next piece; drops the oldest ones, first those of the same key, where there are too many. */
  keep(session: UploadSession, file: PartialFile): void {
    this.files.set(sessionKey(session), file);
    this.dropOldest(MAX_KEY_BYTES, ({ key }) => key === file.key);
    this.dropOldest(MAX_BYTES, () => true);
  }

  private dropOldest(limit: number, counts: (file: PartialFile) => boolean): void {
    const counted = [...this.files].filter(([, file]) => counts(file));
    let bytes = counted.reduce((sum, [, file]) => sum + bytesOf(file), 0);
    for (const [id, file] of counted) {
      if (bytes <= limit) return;
      bytes -= bytesOf(file);
      this.files.delete(id);
    }
  }
}

const sessionKey = ({ provider, key, id }: UploadSession): string => JSON.stringify([provider, key, id]);
const bytesOf = ({ lines }: PartialFile): number => UPLOAD_OVERHEAD + (lines?.buffered ?? 0);

/**
 * Reads the lines of a file while one piece of it is uploaded. A file that is not lines of JSON, or names an object of another key,
 * is uploaded all the same, as it may be a text; it does not count as a file of requests.
 */
export class PieceReader {
  private readonly file: PartialFile | undefined;
  private ended = false;

  /**
   * @param piece where the request says that it belongs; undefined: it does not say it
   * @param admit checks what the lines name
   */
  constructor(
    private readonly uploads: UnfinishedUploads,
    private readonly session: UploadSession,
    private readonly piece: UploadPiece | undefined,
    lines: () => RequestLines,
    private readonly admit: (named: readonly ObjectReference[]) => MaybePromise<void>,
  ) {
    const begun = uploads.take(session);
    if (piece?.offset === 0) this.file = { key: session.key, lines: lines(), hash: createHash("sha256"), length: 0 };
    else if (begun?.length === piece?.offset) this.file = begun;
  }

  /** Reads bytes before they are forwarded. Never throws. */
  push(bytes: Buffer): MaybePromise<void> {
    const { file } = this;
    if (!file?.lines) return;
    file.hash.update(bytes);
    file.length += bytes.length;
    return this.read((lines) => lines.push(bytes));
  }

  /** Called when all bytes of the piece have arrived, before the last one is forwarded. Never throws. */
  end(): MaybePromise<void> {
    const { file, piece } = this;
    if (this.ended || !file?.lines) return;
    this.ended = true;
    if (piece?.last) return this.read((lines) => lines.end());
    this.uploads.keep(this.session, file);
  }

  /**
   * Reports whether a file is the one that ended with this piece, and all its lines name only what the key may use. Which bytes the
   * vendor has put together is known from its hash alone.
   * @param sha256 the vendor's hash of the file, in hexadecimal
   */
  hasRead(sha256: string): boolean {
    const { file, piece } = this;
    // A request without a body has no end; what its last line names could not be waited for any more.
    if (!piece?.last || this.end() instanceof Promise) return false;
    return file?.lines !== undefined && file.hash.copy().digest("hex") === sha256;
  }

  private read(act: (lines: RequestLines) => void): MaybePromise<void> {
    const { file } = this;
    const lines = file?.lines;
    if (!file || !lines) return;
    // Stays so where anything fails.
    file.lines = undefined;
    const accept = () => {
      file.lines = lines;
    };
    try {
      act(lines);
      const named = lines.take();
      const admitted = named.length > 0 ? this.admit(named) : undefined;
      if (admitted) return admitted.then(accept, () => {});
      accept();
    } catch {
      // The upload goes on: it may be a text.
    }
  }
}
