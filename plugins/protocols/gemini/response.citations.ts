import { asCount, asList, asObject, asText, type Citation, defined, type JsonObject } from "model-gateway";

/**
 * The sources of one answer, from `groundingMetadata` and `citationMetadata`. The vendor's offsets are bytes of a part's
 * text; ours are UTF-16 characters of the block's. A text that is told beside its offsets decides which block is meant.
 */
export class Sources {
  private chunks: readonly (JsonObject | undefined)[] = [];
  private supports: (JsonObject | undefined)[] = [];
  private cited: (JsonObject | undefined)[] = [];
  /** Bytes of the text blocks before, which offsets of `citationMetadata` go on counting. */
  private before = 0;
  private plain = false;

  /** Takes what a candidate says of its sources; a later word takes the place of an earlier one. */
  learn(candidate: JsonObject): void {
    const grounding = asObject(candidate["groundingMetadata"]);
    const chunks = asList(grounding?.["groundingChunks"]);
    if (chunks.length > 0) {
      this.chunks = chunks.map(asObject);
      this.supports = asList(grounding?.["groundingSupports"]).map(asObject);
      this.plain = true;
    }
    const cited = asObject(candidate["citationMetadata"]);
    const citations = asList(cited?.["citations"] ?? cited?.["citationSources"]);
    if (citations.length > 0) this.cited = citations.map(asObject);
  }

  /** True while something is not told yet. */
  get waiting(): boolean {
    return this.plain || this.supports.length > 0 || this.cited.length > 0;
  }

  /**
   * The citations of a text block that ends, which must be told of each one.
   * @param last no text follows: what fits nowhere is told without a place
   */
  of(text: string, last: boolean): Citation[] {
    if (!this.waiting) {
      this.before += Buffer.byteLength(text);
      return [];
    }
    const found: Citation[] = [];
    const lost: Citation[] = [];
    const bytes = Buffer.from(text);
    const kept = this.supports.filter((support) => {
      const segment = asObject(support?.["segment"]);
      const place = placed(text, bytes, segment);
      const sources = this.sourcesOf(support);
      if (place) found.push(...sources.map((source) => ({ ...source, ...place })));
      else if (last) lost.push(...sources);
      return !place && !last;
    });
    found.push(...this.cites(bytes, last), ...this.unused(), ...lost);
    this.supports = kept;
    this.before += bytes.length;
    return found;
  }

  private sourcesOf(support: JsonObject | undefined): Citation[] {
    const indices = asList(support?.["groundingChunkIndices"]).map((index) => asCount(index) ?? -1);
    return indices.flatMap((index) => sourceOf(this.chunks[index]) ?? []);
  }

  /** Chunks that no support names; told once. */
  private unused(): Citation[] {
    if (!this.plain) return [];
    this.plain = false;
    const named = new Set(this.supports.flatMap((support) => asList(support?.["groundingChunkIndices"])));
    return this.chunks.flatMap((chunk, n) => (named.has(n) ? [] : (sourceOf(chunk) ?? [])));
  }

  private cites(bytes: Buffer, last: boolean): Citation[] {
    const found: Citation[] = [];
    this.cited = this.cited.filter((source) => {
      const from = (asCount(source?.["startIndex"]) ?? 0) - this.before;
      const to = (asCount(source?.["endIndex"]) ?? -1) - this.before;
      const inside = from >= 0 && to > from && to <= bytes.length;
      if (!inside && !last) return true;
      const place = inside ? characters(bytes, from, to) : {};
      const named = defined({ url: asText(source?.["uri"]), title: asText(source?.["title"]) });
      if (Object.keys(named).length > 0) found.push({ ...named, ...place });
      return false;
    });
    return found;
  }
}

const characters = (bytes: Buffer, from: number, to: number) => ({
  start: bytes.toString("utf8", 0, from).length,
  end: bytes.toString("utf8", 0, to).length,
});

/** Where a segment stands in a text; undefined where it is another text's. */
function placed(text: string, bytes: Buffer, segment: JsonObject | undefined) {
  const from = asCount(segment?.["startIndex"]) ?? 0;
  const to = asCount(segment?.["endIndex"]) ?? 0;
  const told = asText(segment?.["text"]);
  const fits = to > from && to <= bytes.length;
  if (told === undefined) return fits ? characters(bytes, from, to) : undefined;
  if (fits && bytes.toString("utf8", from, to) === told) return characters(bytes, from, to);
  const start = told === "" ? -1 : text.indexOf(told);
  return start < 0 ? undefined : { start, end: start + told.length };
}

/** The source that a grounding chunk names: a page, a document of the client's, a place. */
function sourceOf(chunk: JsonObject | undefined): Citation | undefined {
  const source = asObject(chunk?.["web"] ?? chunk?.["retrievedContext"] ?? chunk?.["maps"]);
  const url = asText(source?.["uri"]) ?? asText(source?.["fileSearchStore"]);
  const named = defined({ url, title: asText(source?.["title"]), quote: asText(source?.["text"]) });
  return Object.keys(named).length === 0 ? undefined : named;
}
