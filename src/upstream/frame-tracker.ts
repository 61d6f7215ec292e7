import type { Redactor } from "../core/redactor.ts";

const CLOSE = 8;
/** What a receiver needs for each frame and chunk of a message besides its bytes, roughly. */
const COST_PER_PIECE = 128;

/**
 * Follows the heads of WebSocket frames (RFC 6455 §5.2) in passing bytes: where a frame of ours may be inserted, how large
 * messages are, and with which code the other side closes. It keeps no bytes and validates none.
 */
export class FrameTracker {
  /** Code of the close frame that has passed; 1005 when it had none. */
  closeCode: number | undefined;
  /** Bytes of the largest message so far, including an incomplete one. */
  largestMessage = 0;
  /**
   * Memory that a receiver needs for the incomplete message: all bytes since its beginning, as it keeps whole chunks, and a cost
   * for each piece.
   */
  unfinishedBytes = 0;
  /** Number of complete messages. */
  messages = 0;
  /** Number of frames whose head is complete. */
  frames = 0;

  private readonly head = Buffer.alloc(16);
  private headBytes = 0;
  /** Bytes of the head; for a close frame including its code. */
  private headSize = 2;
  /** Remaining bytes of the payload. */
  private payloadRemaining = 0;
  private messageBytes = 0;
  private messageBegun = false;
  /** Whether the message ends with the current frame. */
  private isLastFrame = false;

  /** Whether the position is between two frames. */
  get atFrameBoundary(): boolean {
    return this.headBytes === 0 && this.payloadRemaining === 0;
  }

  /**
   * Follows more bytes, up to the end of a close frame: nothing may follow it (RFC 6455 §5.5.1).
   * @param stopAtBoundary whether to stop after the end of a frame
   * @param includeClose false: stop before a close frame
   * @returns the number of bytes consumed
   */
  push(bytes: Buffer, stopAtBoundary = false, includeClose = true): number {
    let offset = 0;
    if (this.messageBegun) this.unfinishedBytes += COST_PER_PIECE;
    while (offset < bytes.length) {
      const start = offset;
      if (this.closeCode !== undefined && this.atFrameBoundary) break;
      if (!includeClose && this.atFrameBoundary && ((bytes[offset] as number) & 15) === CLOSE) break;
      if (this.payloadRemaining > 0) {
        const passed = Math.min(this.payloadRemaining, bytes.length - offset);
        this.payloadRemaining -= passed;
        offset += passed;
      } else {
        this.head[this.headBytes++] = bytes[offset++] as number;
        if (this.headBytes === 2) this.headSize = this.headLength();
        if (this.headBytes >= this.headSize) this.completeHead();
      }
      if (this.messageBegun) this.unfinishedBytes += offset - start;
      if (this.isLastFrame && this.atFrameBoundary) this.endMessage();
      if (stopAtBoundary && this.atFrameBoundary) break;
    }
    return offset;
  }

  private get payloadSize(): number {
    return (this.head[1] as number) & 127;
  }

  private headLength(): number {
    const extended = this.payloadSize === 126 ? 2 : this.payloadSize === 127 ? 8 : 0;
    const mask = (this.head[1] as number) & 128 ? 4 : 0;
    const code = this.opcode === CLOSE && this.payloadSize >= 2 ? 2 : 0;
    return 2 + extended + mask + code;
  }

  private get opcode(): number {
    return (this.head[0] as number) & 15;
  }

  private completeHead(): void {
    const { head, opcode, headSize } = this;
    let payload = this.payloadSize;
    if (payload === 126) payload = head.readUInt16BE(2);
    else if (payload === 127) payload = Number(head.readBigUInt64BE(2));
    this.payloadRemaining = payload;
    if (opcode === CLOSE) {
      this.closeCode ??= payload < 2 ? 1005 : this.readCloseCode(head.subarray(0, headSize));
      if (payload >= 2) this.payloadRemaining -= 2;
    } else if (opcode < CLOSE) {
      this.messageBytes += payload;
      this.largestMessage = Math.max(this.largestMessage, this.messageBytes);
      this.messageBegun = true;
      this.isLastFrame = ((head[0] as number) & 128) !== 0;
      if (this.isLastFrame) this.messageBytes = 0;
    }
    if (this.messageBegun) this.unfinishedBytes += COST_PER_PIECE;
    this.headBytes = 0;
    this.headSize = 2;
    this.frames++;
  }

  private endMessage(): void {
    this.messageBegun = false;
    this.isLastFrame = false;
    this.unfinishedBytes = 0;
    this.messages++;
  }

  private readCloseCode(head: Buffer): number {
    const code = head.readUInt16BE(head.length - 2);
    const masked = (head[1] as number) & 128;
    return masked ? code ^ head.readUInt16BE(head.length - 6) : code;
  }
}

/** Redacts the reason in a server's close frame; an invalid frame keeps only its code, if it has one. */
export function redactCloseFrame(frame: Buffer, redactor: Redactor): Buffer {
  const size = frame[1] as number;
  if (size < 2) return Buffer.from([0x88, 0]);
  const code = frame.readUInt16BE(2);
  if (size > 125) return closeFrame(code, false);
  const reason = redactor.bytes(frame.subarray(4, 2 + size));
  return Buffer.concat([Buffer.from([frame[0] as number, 2 + reason.length]), frame.subarray(2, 4), reason]);
}

/** Returns a close frame; a client's frame is masked, here with zeros. @param reason ASCII, 100 characters at most */
export function closeFrame(code: number, masked: boolean, reason = ""): Buffer {
  const mask = masked ? [0, 0, 0, 0] : [];
  const length = 2 + reason.length;
  const head = Buffer.from([0x88, masked ? 0x80 | length : length, ...mask, code >> 8, code & 255]);
  return Buffer.concat([head, Buffer.from(reason, "latin1")]);
}

/** Returns a text message as a server sends it, of less than 64 KiB. */
export function textFrame(message: string): Buffer {
  const text = Buffer.from(message);
  const length = text.length < 126 ? [text.length] : [126, text.length >> 8, text.length & 255];
  return Buffer.concat([Buffer.from([0x81, ...length]), text]);
}
