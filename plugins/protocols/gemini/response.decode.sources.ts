import {
  asCount,
  asList,
  asObject,
  asText,
  type Citation,
  dropUndefined,
  GatewayError,
  type JsonObject,
} from "model-gateway/protocol";
import { TextOffsets } from "./wire.ts";

/** The maximum number of sources, and of references to them, per candidate. Recorded responses have a handful. [F] */
const MAX_SOURCES = 10_000;

/** The maximum size of all citations of a candidate, in characters, and what each counts besides: many may name one long source. */
const MAX_CITATION_WEIGHT = 8 * 1024 * 1024;
const CITATION_WEIGHT = 64;

/** Characters that may be searched for positions, and the cost of each search. Once spent, citations have no position. */
const SEARCH_BUDGET = 64 * 1024 * 1024;
const SEARCH_COST = 64;

/**
 * The sources of one candidate, from `groundingMetadata` and `citationMetadata`. The vendor's offsets are bytes of a part's
 * text; those of events are UTF-16 code units of the block's text. Where a segment quotes its text, the quote determines the
 * block.
 */
export class CandidateSources {
  private chunks: readonly (JsonObject | undefined)[] = [];
  private supports: (JsonObject | undefined)[] = [];
  private citationSources: (JsonObject | undefined)[] = [];
  /** Bytes of the preceding text blocks: offsets of `citationMetadata` count from the first one. */
  private bytesBefore = 0;
  private chunksPending = false;
  /** Characters that may still be searched. */
  private searchBudget = SEARCH_BUDGET;
  private weight = 0;

  /**
   * Decodes the sources of a candidate; those of a later frame replace earlier ones.
   * @throws GatewayError `upstream_invalid` if there are too many
   */
  read(candidate: JsonObject): void {
    const grounding = asObject(candidate["groundingMetadata"]);
    const chunks = asList(grounding?.["groundingChunks"]);
    if (chunks.length > 0) {
      const supports = asList(grounding?.["groundingSupports"]).map(asObject);
      const mentions = supports.map((support) => asList(support?.["groundingChunkIndices"]).length);
      checkSourceCount(mentions.reduce((sum, count) => sum + count, chunks.length + supports.length));
      this.chunks = chunks.map(asObject);
      this.supports = supports;
      this.chunksPending = true;
    }
    const citationMetadata = asObject(candidate["citationMetadata"]);
    const citations = asList(citationMetadata?.["citations"] ?? citationMetadata?.["citationSources"]);
    checkSourceCount(citations.length);
    if (citations.length > 0) this.citationSources = citations.map(asObject);
  }

  /** Whether there are sources that no text has cited yet. */
  get hasUncited(): boolean {
    return this.chunksPending || this.supports.length > 0 || this.citationSources.length > 0;
  }

  /**
   * Returns the citations of a text block that ends. Must be called for every text block.
   * @param last whether no text follows: sources that match no text are then cited without a position
   * @throws GatewayError `upstream_invalid` if the citations are too large
   */
  takeCitations(text: string, last: boolean): Citation[] {
    if (!this.hasUncited) {
      this.bytesBefore += Buffer.byteLength(text);
      return [];
    }
    const offsets = new TextOffsets(text);
    const placed: Citation[] = [];
    const unplaced: Citation[] = [];
    // Must run before the supports are filtered: a support that is cited is removed.
    const unused = this.unusedSources();
    this.supports = this.supports.filter((support) => {
      const range = this.findRange(support, text, offsets);
      if (!range && !last && this.searchBudget > 0) return true;
      for (const source of this.sourcesOfSupport(support)) (range ? placed : unplaced).push({ ...source, ...range });
      return false;
    });
    this.addCitations(offsets, last, placed);
    this.bytesBefore += offsets.byteLength;
    const citations = [...placed, ...unused, ...unplaced];
    for (const citation of citations) this.addWeight(citation);
    return citations;
  }

  private addWeight({ url = "", title = "", quote = "" }: Citation): void {
    this.weight += CITATION_WEIGHT + url.length + title.length + quote.length;
    if (this.weight > MAX_CITATION_WEIGHT)
      throw new GatewayError("upstream_invalid", { message: "The provider's citations are longer than 8 MiB." });
  }

  /** Returns the range of a support's segment in a text; undefined if it belongs to another text. */
  private findRange(support: JsonObject | undefined, text: string, offsets: TextOffsets): CharacterRange | undefined {
    if (this.searchBudget <= 0) return undefined;
    this.searchBudget -= SEARCH_COST;
    const segment = asObject(support?.["segment"]);
    const range = characterRange(offsets, asCount(segment?.["startIndex"]) ?? 0, asCount(segment?.["endIndex"]) ?? 0);
    const quote = asText(segment?.["text"]);
    if (quote === undefined || (range && text.slice(range.start, range.end) === quote)) return range;
    if (quote === "") return undefined;
    this.searchBudget -= text.length;
    const start = text.indexOf(quote);
    return start < 0 ? undefined : { start, end: start + quote.length };
  }

  private sourcesOfSupport(support: JsonObject | undefined): Citation[] {
    const indices = new Set(asList(support?.["groundingChunkIndices"]).map((index) => asCount(index) ?? -1));
    return [...indices].flatMap((index) => chunkSource(this.chunks[index]) ?? []);
  }

  /** Returns the chunks that no support names, once. */
  private unusedSources(): Citation[] {
    if (!this.chunksPending) return [];
    this.chunksPending = false;
    const referenced = new Set(this.supports.flatMap((support) => asList(support?.["groundingChunkIndices"])));
    return this.chunks.flatMap((chunk, n) => (referenced.has(n) ? [] : (chunkSource(chunk) ?? [])));
  }

  /** Adds the citations of `citationMetadata` that belong to a text. */
  private addCitations(offsets: TextOffsets, last: boolean, citations: Citation[]): void {
    this.citationSources = this.citationSources.filter((source) => {
      this.searchBudget -= SEARCH_COST;
      const from = (asCount(source?.["startIndex"]) ?? 0) - this.bytesBefore;
      const range = characterRange(offsets, from, (asCount(source?.["endIndex"]) ?? -1) - this.bytesBefore);
      if (!range && !last && this.searchBudget > 0) return true;
      const citation = dropUndefined({ url: asText(source?.["uri"]), title: asText(source?.["title"]) });
      if (Object.keys(citation).length > 0) citations.push({ ...citation, ...range });
      return false;
    });
  }
}

function checkSourceCount(sources: number): void {
  if (sources > MAX_SOURCES)
    throw new GatewayError("upstream_invalid", {
      message: `The provider's answer names more than ${MAX_SOURCES} sources.`,
    });
}

interface CharacterRange {
  start: number;
  end: number;
}

/** Converts a range of bytes to one of characters; undefined if the text has no such bytes. */
function characterRange(offsets: TextOffsets, from: number, to: number): CharacterRange | undefined {
  if (from < 0 || to <= from || to > offsets.byteLength) return undefined;
  return { start: offsets.charactersBefore(from), end: offsets.charactersBefore(to) };
}

/** Returns the source in a grounding chunk: a page, a document of the client, a place on a map. */
function chunkSource(chunk: JsonObject | undefined): Citation | undefined {
  const source = asObject(chunk?.["web"] ?? chunk?.["retrievedContext"] ?? chunk?.["maps"]);
  const url = asText(source?.["uri"]) ?? asText(source?.["fileSearchStore"]);
  const citation = dropUndefined({ url, title: asText(source?.["title"]), quote: asText(source?.["text"]) });
  return Object.keys(citation).length === 0 ? undefined : citation;
}
