import {
  constants,
  createBrotliDecompress,
  createGunzip,
  createInflate,
  createInflateRaw,
  createZstdDecompress,
} from "node:zlib";
import { GatewayError } from "../core/errors.ts";

/** A content-encoding that is understood; `deflate` is zlib's format or, as some clients send it, without its frame. */
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
 * The one coding that a `content-encoding` header names; undefined for none. Several layers are refused, for each
 * multiplies what a few bytes can grow to.
 * @throws GatewayError `unsupported_encoding`
 */
export function readCoding(header: string | undefined): Coding | undefined {
  if (header === undefined) return undefined;
  const name = header.trim().toLowerCase();
  if (!CODINGS.has(name)) throw new GatewayError("unsupported_encoding");
  return CODINGS.get(name);
}

/** What takes the decoded bytes. */
interface DecoderOutput {
  piece(bytes: Buffer): void;
  end(): void;
  /** The compressed bytes are broken or end too early. */
  error(cause: Error): void;
}

/** Takes compressed bytes. */
export interface BodyDecoder {
  write(chunk: Buffer): void;
  end(): void;
  /** Compressed bytes that have been decoded; others may wait. */
  readonly taken: number;
  /** Nothing goes to the sink any more. */
  destroy(): void;
}

/** Window of 8 MiB, which RFC 9659 makes the limit of this coding: a larger one would be allocated as it is announced. */
const ZSTD = { params: { [constants.ZSTD_d_windowLogMax]: 23 } };

/** Decodes chunk by chunk. */
export function decoder(coding: Coding, output: DecoderOutput): BodyDecoder {
  if (coding === "gzip") return connect(createGunzip(), output);
  if (coding === "br") return connect(createBrotliDecompress(), output);
  if (coding === "zstd") return connect(createZstdDecompress(ZSTD), output);
  let inner: BodyDecoder | undefined;
  return {
    write(chunk) {
      if (chunk.length === 0) return;
      // A zlib frame begins with its method, 8; a bare stream cannot begin so.
      inner ??= connect(((chunk[0] as number) & 15) === 8 ? createInflate() : createInflateRaw(), output);
      inner.write(chunk);
    },
    end: () => (inner ? inner.end() : output.end()),
    get taken() {
      return inner?.taken ?? 0;
    },
    destroy: () => inner?.destroy(),
  };
}

function connect(
  stream: ReturnType<typeof createGunzip | typeof createZstdDecompress>,
  output: DecoderOutput,
): BodyDecoder {
  stream.on("data", (bytes: Buffer) => output.piece(bytes));
  stream.on("end", () => output.end());
  stream.on("error", (error) => output.error(error));
  return {
    write: (chunk) => void stream.write(chunk),
    end: () => void stream.end(),
    get taken() {
      return stream.bytesWritten;
    },
    destroy: () => void stream.destroy(),
  };
}

/**
 * Lets a JSON body in by its `content-type`: none, `application/json`, any `…+json`, `text/plain`; only as UTF-8.
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
