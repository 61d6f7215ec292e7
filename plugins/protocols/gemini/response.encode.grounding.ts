import { type Citation, dropUndefined, GatewayError } from "model-gateway/protocol";
import { TextOffsets } from "./wire.ts";

/** The maximum size of all citations, in characters of their JSON, and what each adds besides. */
const MAX_CITATION_WEIGHT = 8 * 1024 * 1024;
const CITATION_WEIGHT = 128;

/** A citation of the open block, whose text may still arrive. */
interface OpenCitation {
  /** The number of its source. */
  chunk: number;
  start: number;
  /** Undefined for the end of the text. */
  end: number | undefined;
}

/** A segment of a text, as JSON, and the numbers of the sources that support it. */
interface GroundingSupport {
  segment: string;
  chunks: Set<number>;
}

/**
 * Builds the `groundingMetadata` of a response. It belongs into the last frame, as in the vendor's streams [F]; until then
 * only the citations and their segments are kept.
 */
export class GroundingWriter {
  /** Numbers of the sources, by their JSON. */
  private readonly chunks = new Map<string, number>();
  private readonly supports: GroundingSupport[] = [];
  private openCitations: OpenCitation[] = [];
  private weight = 0;
  /** Whether a citation quotes a page: `web` has no member for it. */
  hasDroppedQuote = false;

  get isEmpty(): boolean {
    return this.chunks.size === 0;
  }

  /** Whether a citation of the open block waits for its end. */
  get hasOpenCitations(): boolean {
    return this.openCitations.length > 0;
  }

  /** Adds a citation of the open block. @throws GatewayError `upstream_invalid` if the citations are too large */
  addCitation(citation: Citation): void {
    const source = chunkJson(citation);
    let chunk = this.chunks.get(source);
    if (chunk === undefined) {
      chunk = this.chunks.size;
      this.chunks.set(source, chunk);
      this.addWeight(source.length);
    }
    if (citation.url !== undefined && citation.quote !== undefined) this.hasDroppedQuote = true;
    this.openCitations.push({ chunk, start: citation.start ?? 0, end: citation.end });
    this.addWeight(CITATION_WEIGHT);
  }

  /**
   * Determines the positions of the block's citations when it ends. A citation without a position refers to the whole text,
   * if there is any.
   * @param part the part into which clients join the text, and `before` the bytes that precede it there
   * @throws GatewayError `upstream_invalid` if the citations are too large
   */
  placeCitations(text: string, part: number, before: number): void {
    const offsets = new TextOffsets(text);
    let last: { start: number; end: number; support: GroundingSupport } | undefined;
    for (const { chunk, start: from, end: upTo } of this.openCitations) {
      // Vendors that count otherwise may end within a character: half of one is no Unicode, and strict JSON parsers refuse it.
      const start = isWithinCharacter(text, from) ? from - 1 : from;
      const end = Math.min(upTo ?? text.length, text.length) + (isWithinCharacter(text, upTo ?? 0) ? 1 : 0);
      if (start >= end) continue;
      if (last?.start !== start || last.end !== end) {
        const segment = segmentJson(text.slice(start, end), before + offsets.bytesBefore(start), part);
        const support = { segment, chunks: new Set<number>() };
        this.addWeight(support.segment.length);
        this.supports.push(support);
        last = { start, end, support };
      }
      last.support.chunks.add(chunk);
    }
    this.openCitations = [];
  }

  /** Returns the object as JSON text. */
  json(): string {
    const supports = this.supports.map(
      ({ segment, chunks }) => `{"segment":${segment},"groundingChunkIndices":[${[...chunks].join(",")}]}`,
    );
    return `{"groundingChunks":[${[...this.chunks.keys()].join(",")}],"groundingSupports":[${supports.join(",")}]}`;
  }

  private addWeight(added: number): void {
    this.weight += added;
    if (this.weight > MAX_CITATION_WEIGHT)
      throw new GatewayError("upstream_invalid", { message: "The provider's citations are longer than 8 MiB." });
  }
}

/** Reports whether an offset is between the halves of a surrogate pair. */
const isWithinCharacter = (text: string, at: number): boolean => at > 0 && (text.codePointAt(at - 1) ?? 0) > 0xffff;

/** Returns a source. Clients show the pages in `web`, which has no member for a quote. */
function chunkJson({ url, title, quote }: Citation): string {
  if (url !== undefined) return JSON.stringify({ web: dropUndefined({ uri: url, title }) });
  return JSON.stringify({ retrievedContext: dropUndefined({ title, text: quote }) });
}

/** Returns a segment. Offsets are bytes of the part; zeros are left out, as in all proto JSON. */
function segmentJson(text: string, from: number, part: number): string {
  const segment = {
    partIndex: part === 0 ? undefined : part,
    startIndex: from === 0 ? undefined : from,
    endIndex: from + Buffer.byteLength(text),
    text,
  };
  return JSON.stringify(segment);
}
