import { createBrotliDecompress, createGunzip, createInflate, createZstdDecompress } from "node:zlib";
import { GatewayError } from "../core/errors.ts";
import { isDecompressionBomb, MAX_RATIO } from "../wire/decompression-bomb.ts";
import type { HeaderList } from "../wire/headers.ts";
import type { BodyInspector, BodyReceiver, UpstreamResponse } from "./response.ts";
import { UpstreamFault } from "./transport-error.ts";

type Decoder = ReturnType<typeof createGunzip | typeof createZstdDecompress>;

const DECODERS: Record<string, () => Decoder> = {
  gzip: createGunzip,
  "x-gzip": createGunzip,
  deflate: createInflate,
  br: createBrotliDecompress,
  zstd: createZstdDecompress,
};

/** Headers that describe the encoded body. */
const CODING_HEADERS: ReadonlySet<string> = new Set(["content-encoding", "content-length"]);

/**
 * Returns the one coding in a content-encoding value; undefined where there is none.
 *
 * @throws GatewayError upstream_invalid for an unknown coding, or more than one.
 */
export function codingOf(encoding: string): string | undefined {
  const codings = encoding
    .toLowerCase()
    .split(",")
    .map((coding) => coding.trim())
    .filter((coding) => coding !== "" && coding !== "identity");
  const [coding, ...others] = codings;
  if (coding === undefined) return undefined;
  if (others.length > 0 || !Object.hasOwn(DECODERS, coding)) {
    throw new GatewayError("upstream_invalid", {
      message: "The provider's answer has a content-encoding that was not asked for and cannot be undone.",
    });
  }
  return coding;
}

/** @param coding a result of {@link codingOf} */
export const createResponseDecoder = (coding: string): Decoder => (DECODERS[coding] as () => Decoder)();

/** A response that is encoded although identity was requested; decoded while it is read. */
export class DecodedResponse implements UpstreamResponse {
  readonly status: number;
  readonly headers: HeaderList;
  private decoder: Decoder | undefined;
  private truncation: GatewayError | undefined;

  /** @param coding a result of {@link codingOf}. */
  constructor(
    private readonly encoded: UpstreamResponse,
    private readonly coding: string,
    private readonly host: string,
  ) {
    this.status = encoded.status;
    this.headers = encoded.headers.filter((name) => !CODING_HEADERS.has(name));
  }

  read(receiver: BodyReceiver): void {
    this.encoded.read({
      chunk: (bytes) => {
        this.decoder ??= this.createDecoder(receiver);
        return this.decoder.write(bytes);
      },
      end: () => {
        // A response without a body (204, 304, HEAD) has nothing to decode.
        if (this.decoder) this.decoder.end();
        else receiver.end();
      },
      fail: (error) => {
        // Bytes that arrived before a truncation are still decoded and delivered; after an error of the gateway's own none are.
        this.truncation = error;
        if (this.decoder && error.code === "upstream_truncated") return void this.decoder.end();
        this.discard();
        receiver.fail(error);
      },
    });
  }

  /** An encoded body cannot be inspected. */
  peek(inspect: BodyInspector): void {
    inspect([], true, false);
  }

  resume(): void {
    this.decoder?.resume();
  }

  destroy(): void {
    this.discard();
    this.encoded.destroy();
  }

  /** Detaches the decoder: Node keeps it in memory until V8 marks the whole heap. */
  private discard(): void {
    this.decoder?.removeAllListeners().on("error", () => {});
    this.decoder?.destroy();
  }

  private createDecoder(receiver: BodyReceiver): Decoder {
    const decoder = createResponseDecoder(this.coding);
    let decoded = 0;
    decoder.on("data", (bytes: Buffer) => {
      decoded += bytes.length;
      if (isDecompressionBomb(decoded, decoder.bytesWritten)) {
        this.destroy();
        receiver.fail(bombError());
      } else if (!receiver.chunk(bytes)) decoder.pause();
    });
    decoder.on("drain", () => this.encoded.resume());
    decoder.once("end", () => {
      this.discard();
      if (this.truncation) receiver.fail(this.truncation);
      else receiver.end();
    });
    decoder.once("error", (error: NodeJS.ErrnoException) => {
      this.destroy();
      const code = error.code ?? "ERR_DECODING";
      const kind = code === "Z_BUF_ERROR" ? "upstream_truncated" : "upstream_invalid";
      receiver.fail(this.truncation ?? new GatewayError(kind, { cause: new UpstreamFault(code, this.host) }));
    });
    return decoder;
  }
}

const bombError = (): GatewayError =>
  new GatewayError("upstream_invalid", {
    message: `The provider's answer grows to more than ${MAX_RATIO} times its size when it is decoded.`,
  });
