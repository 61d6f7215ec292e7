import type { Redactor } from "../core/redactor.ts";

const CLOSE = 8;

/**
 * Follows the heads of WebSocket frames (RFC 6455 §5.2) in passing bytes: where a frame of ours may be inserted, how large
 * messages are, and with which code the other side closes. It keeps no bytes and validates none.
 */
export class FrameHeads {
  /** Code of the close frame that has passed; 1005 when it had none. */
  closeCode: number | undefined;
  /** Bytes of the largest message so far, including an incomplete one. */
  largest = 0;

  private readonly head = Buffer.alloc(16);
  private got = 0;
  /** Bytes of the head; for a close frame including its code. */
  private need = 2;
  /** Remaining bytes of the payload. */
  private left = 0;
  private message = 0;

  /** Whether the position is between two frames. */
  get between(): boolean {
    return this.got === 0 && this.left === 0;
  }

  /**
   * Follows more bytes.
   * @param stop whether to stop after the end of a frame
   * @param close false: stop before a close frame
   * @returns the number of bytes consumed
   */
  push(bytes: Buffer, stop = false, close = true): number {
    let at = 0;
    while (at < bytes.length) {
      if (!close && this.between && ((bytes[at] as number) & 15) === CLOSE) break;
      if (this.left > 0) {
        const passed = Math.min(this.left, bytes.length - at);
        this.left -= passed;
        at += passed;
      } else {
        this.head[this.got++] = bytes[at++] as number;
        if (this.got === 2) this.need = this.headLength();
        if (this.got >= this.need) this.begin();
      }
      if (stop && this.between) break;
    }
    return at;
  }

  private get size(): number {
    return (this.head[1] as number) & 127;
  }

  private headLength(): number {
    const extended = this.size === 126 ? 2 : this.size === 127 ? 8 : 0;
    const mask = (this.head[1] as number) & 128 ? 4 : 0;
    const code = this.opcode === CLOSE && this.size >= 2 ? 2 : 0;
    return 2 + extended + mask + code;
  }

  private get opcode(): number {
    return (this.head[0] as number) & 15;
  }

  private begin(): void {
    const { head, opcode, need } = this;
    let payload = this.size;
    if (payload === 126) payload = head.readUInt16BE(2);
    else if (payload === 127) payload = Number(head.readBigUInt64BE(2));
    this.left = payload;
    if (opcode === CLOSE) {
      this.closeCode ??= payload < 2 ? 1005 : this.codeIn(head.subarray(0, need));
      if (payload >= 2) this.left -= 2;
    } else if (opcode < CLOSE) {
      this.message += payload;
      this.largest = Math.max(this.largest, this.message);
      if ((head[0] as number) & 128) this.message = 0;
    }
    this.got = 0;
    this.need = 2;
  }

  private codeIn(head: Buffer): number {
    const code = head.readUInt16BE(head.length - 2);
    const masked = (head[1] as number) & 128;
    return masked ? code ^ head.readUInt16BE(head.length - 6) : code;
  }
}

/** Redacts the reason in a server's close frame; an invalid frame keeps only its code. */
export function cleanClose(frame: Buffer, redactor: Redactor): Buffer {
  const size = frame[1] as number;
  if (size < 2) return frame.subarray(0, 2);
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
