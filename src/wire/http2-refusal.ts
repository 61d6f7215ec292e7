/** Node's parser reports the preface of a connection that begins with HTTP/2 with this code. */
export const HTTP2_PREFACE = "HPE_PAUSED_H2_UPGRADE";

/** What such a client is told. */
export const HTTP2_MESSAGE = "This address speaks HTTP/1.1, and HTTP/2 only behind a proxy that translates it.";

const PROTOCOL_REQUIRED = 0xd; // HTTP_1_1_REQUIRED, RFC 9113 §7
const SETTINGS = 4;
const GOAWAY = 7;

/** A frame of stream 0 (RFC 9113 §4.1). */
function frame(type: number, payload: Buffer): Buffer {
  const head = Buffer.alloc(9);
  head.writeUIntBE(payload.length, 0, 3);
  head.writeUInt8(type, 3);
  return Buffer.concat([head, payload]);
}

/** Returns what a client that speaks HTTP/2 can read: empty settings, and a GOAWAY that asks for HTTP/1.1 and says why. */
export function http2Refusal(): Buffer {
  const codes = Buffer.alloc(8);
  codes.writeUInt32BE(PROTOCOL_REQUIRED, 4);
  return Buffer.concat([
    frame(SETTINGS, Buffer.alloc(0)),
    frame(GOAWAY, Buffer.concat([codes, Buffer.from(HTTP2_MESSAGE)])),
  ]);
}
