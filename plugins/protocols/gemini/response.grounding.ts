import { type Citation, defined, GatewayError } from "model-gateway/protocol";
import { Offsets } from "./response.offsets.ts";

/** The most that citations hold until the answer ends, in characters of their JSON; each counts for some more. */
const MOST = 8 * 1024 * 1024;
const EACH = 128;

/** A citation of the open block, whose text may still come. */
interface Cited {
  /** Number of its source. */
  chunk: number;
  start: number;
  /** Undefined: the text's end. */
  end: number | undefined;
}

/** A piece of a text, as JSON, and the numbers of the sources that back it. */
interface Support {
  segment: string;
  chunks: Set<number>;
}

/**
 * `groundingMetadata` of an answer while its texts are written. It belongs into the last frame, where the vendor's streams
 * have it [F]. Until then only the citations are held, with the pieces of text they are of.
 */
export class Grounding {
  /** Sources as JSON, each with its number. */
  private readonly chunks = new Map<string, number>();
  private readonly supports: Support[] = [];
  private waiting: Cited[] = [];
  private held = 0;
  /** A page was told with its own words, for which `web` has no member. */
  unquoted = false;

  get empty(): boolean {
    return this.chunks.size === 0;
  }

  /** Takes a citation of the block that is open. @throws GatewayError `upstream_invalid` when it is one too many */
  cite(citation: Citation): void {
    const source = chunkOf(citation);
    let chunk = this.chunks.get(source);
    if (chunk === undefined) {
      chunk = this.chunks.size;
      this.chunks.set(source, chunk);
      this.hold(source.length);
    }
    if (citation.url !== undefined && citation.quote !== undefined) this.unquoted = true;
    this.waiting.push({ chunk, start: citation.start ?? 0, end: citation.end });
    this.hold(EACH);
  }

  /**
   * The open block ends: its citations get their places. One without a place backs the whole text, if there is any.
   * @param part the part that clients join the text to, and `before` the bytes of that part before it
   * @throws GatewayError `upstream_invalid` when too much is cited
   */
  place(text: string, part: number, before: number): void {
    if (this.waiting.length === 0) return;
    const offsets = new Offsets(text);
    let last: { start: number; end: number; support: Support } | undefined;
    for (const { chunk, start, end: told } of this.waiting) {
      const end = Math.min(told ?? text.length, text.length);
      if (start >= end) continue;
      if (last?.start !== start || last.end !== end) {
        const from = before + offsets.bytesBefore(start);
        const support = { segment: segmentOf(text.slice(start, end), from, part), chunks: new Set<number>() };
        this.hold(support.segment.length);
        this.supports.push(support);
        last = { start, end, support };
      }
      last.support.chunks.add(chunk);
    }
    this.waiting = [];
  }

  /** The object as JSON text. */
  json(): string {
    const supports = this.supports.map(
      ({ segment, chunks }) => `{"segment":${segment},"groundingChunkIndices":[${[...chunks].join(",")}]}`,
    );
    return `{"groundingChunks":[${[...this.chunks.keys()].join(",")}],"groundingSupports":[${supports.join(",")}]}`;
  }

  private hold(more: number): void {
    this.held += more;
    if (this.held > MOST)
      throw new GatewayError("upstream_invalid", { message: "The provider's citations are longer than 8 MiB." });
  }
}

/** Clients show the pages of `web`, which has no member for what the page says. */
function chunkOf({ url, title, quote }: Citation): string {
  if (url !== undefined) return JSON.stringify({ web: defined({ uri: url, title }) });
  return JSON.stringify({ retrievedContext: defined({ title, text: quote }) });
}

/** Offsets are bytes of the part; the first part and its first byte go without saying, as in all of protobuf's JSON. */
function segmentOf(piece: string, from: number, part: number): string {
  const segment = {
    partIndex: part === 0 ? undefined : part,
    startIndex: from === 0 ? undefined : from,
    endIndex: from + Buffer.byteLength(piece),
    text: piece,
  };
  return JSON.stringify(segment);
}
