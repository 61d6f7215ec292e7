import type { Transform } from "node:stream";
import {
  constants,
  createBrotliDecompress,
  createGunzip,
  createInflate,
  createInflateRaw,
  createZstdDecompress,
} from "node:zlib";
import { GatewayError } from "../core/errors.ts";

/** A supported content-encoding; `deflate` is the zlib format or, as some clients send it, raw deflate. */
export type Coding = "gzip" | "deflate" | "br" | "zstd";

const CODINGS: ReadonlyMap<string, Coding | undefined> = new Map([
  ["", undefined],
  ["identity", undefined],
  ["gzip", "gzip"],
  ["x-gzip", "gzip"],
  ["deflate", "deflate"],
  ["br", "br"],
  ["zstd", "zstd"],
]);

/**
 * Returns the coding that a `content-encoding` header names; undefined for none. Several layers are refused, since each
 * multiplies what a few bytes can expand to.
 * @throws GatewayError `unsupported_encoding`
 */
export function readCoding(header: string | undefined): Coding | undefined {
  if (header === undefined) return undefined;
  const name = header.trim().toLowerCase();
  if (!CODINGS.has(name)) throw new GatewayError("unsupported_encoding");
  return CODINGS.get(name);
}

/** Receives the decoded bytes. */
interface DecoderOutput {
  piece(bytes: Buffer): void;
  end(): void;
  /** Reports that the compressed bytes are corrupt or truncated, or that something follows them. */
  error(cause: Error): void;
}

/** A decoder of compressed bytes. */
export interface BodyDecoder {
  write(chunk: Buffer): void;
  end(): void;
  /** Number of compressed bytes that have been decoded; others may be buffered. */
  consumed(): number;
  /** Stops all output. */
  destroy(): void;
}

/** log2 of 8 MiB, the limit of RFC 9659 for this coding: a larger window would be allocated as declared. */
const ZSTD_WINDOW = 23;
const ZSTD = { params: { [constants.ZSTD_d_windowLogMax]: ZSTD_WINDOW } };

/** Decoded bytes that a decoder keeps for itself at most; of gzip and deflate they are too few to count. */
export const DECODER_WINDOWS: Readonly<Record<Coding, number>> = {
  gzip: 0,
  deflate: 0,
  br: 1 << 24,
  zstd: 1 << ZSTD_WINDOW,
};

/** Returns a decoder that works chunk by chunk. */
export function createBodyDecoder(coding: Coding, output: DecoderOutput): BodyDecoder {
  if (coding === "gzip") return wrapStream(createGunzip(), output);
  if (coding === "br") return wrapStream(createBrotliDecompress(), output);
  if (coding === "zstd") return wrapStream(createZstdDecompress(ZSTD), output);
  let inner: BodyDecoder | undefined;
  return {
    write(chunk) {
      if (chunk.length === 0) return;
      // A zlib header begins with compression method 8, which raw deflate cannot begin with.
      inner ??= wrapStream(((chunk[0] as number) & 15) === 8 ? createInflate() : createInflateRaw(), output);
      inner.write(chunk);
    },
    end: () => (inner ? inner.end() : output.end()),
    consumed: () => inner?.consumed() ?? 0,
    destroy: () => inner?.destroy(),
  };
}

function wrapStream(
  stream: ReturnType<typeof createGunzip | typeof createZstdDecompress>,
  output: DecoderOutput,
): BodyDecoder {
  let received = 0;
  stream.on("data", (bytes: Buffer) => output.piece(bytes));
  stream.on("end", () => {
    detach(stream);
    // Node ends it early then, and would leave the rest, of any size, unread and unlimited.
    if (stream.bytesWritten < received) output.error(new Error("Something follows the end of the compressed data."));
    else output.end();
  });
  stream.on("error", (error) => {
    detach(stream);
    output.error(error);
  });
  return {
    write(chunk) {
      received += chunk.length;
      stream.write(chunk);
    },
    end: () => void stream.end(),
    consumed: () => stream.bytesWritten,
    destroy: () => void detach(stream).destroy(),
  };
}

/**
 * Removes what listens to a stream that is over: Node keeps it in memory until V8 marks the whole heap. A function from inside
 * another one would refer to that one's variables.
 */
const detach = (stream: Transform): Transform => stream.removeAllListeners().on("error", ignore);
const ignore = (): void => {};

/**
 * Checks the `content-type` of a JSON body: none, `application/json`, any `…+json`, `text/plain`; only as UTF-8.
 * @throws GatewayError `unsupported_media_type`
 */
export function checkMediaType(header: string | undefined): void {
  if (header === undefined || header === "application/json") return;
  const [type = "", ...parameters] = header.toLowerCase().split(";");
  if (!JSON_TYPE.test(type.trim())) throw new GatewayError("unsupported_media_type");
  for (const parameter of parameters) {
    const [name = "", value = ""] = parameter.split("=");
    if (name.trim() === "charset" && !UTF8.test(value.trim()))
      throw new GatewayError("unsupported_media_type", {
        message: "The request body's charset is not accepted here.",
        hint: "Send it in UTF-8.",
      });
  }
}

const JSON_TYPE = /^(?:application\/json|text\/plain|[^\s/]+\/[^\s/]+\+json|)$/;
const UTF8 = /^"?(?:utf-?8|us-ascii)"?$/;
