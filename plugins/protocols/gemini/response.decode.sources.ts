import {
  asCount,
  asList,
  asObject,
  asText,
  type Citation,
  defined,
  GatewayError,
  type JsonObject,
} from "model-gateway/protocol";
import { TextOffsets } from "./wire.ts";

/** The most sources, and mentions of them, that a candidate may name; recorded answers name a handful. [F] */
const MOST = 10_000;

/** Characters that may be searched for places, and what each try counts for. Beyond, citations have no place. */
const EFFORT = 64 * 1024 * 1024;
const TRY = 64;

/**
 * The sources of one answer, from `groundingMetadata` and `citationMetadata`. The vendor's offsets are bytes of a part's
 * text; ours are UTF-16 characters of the block's. Where a segment quotes its text, that decides which block is meant.
 */
export class CandidateSources {
  private chunks: readonly (JsonObject | undefined)[] = [];
  private supports: (JsonObject | undefined)[] = [];
  private cited: (JsonObject | undefined)[] = [];
  /** Bytes of the text blocks before, which offsets of `citationMetadata` go on counting. */
  private before = 0;
  private plain = false;
  /** Characters that may still be searched. */
  private effort = EFFORT;

  /**
   * Reads the sources of a candidate; those of a later frame replace them.
   * @throws GatewayError `upstream_invalid` when it names too many
   */
  learn(candidate: JsonObject): void {
    const grounding = asObject(candidate["groundingMetadata"]);
    const chunks = asList(grounding?.["groundingChunks"]);
    if (chunks.length > 0) {
      const supports = asList(grounding?.["groundingSupports"]).map(asObject);
      const mentions = supports.map((support) => asList(support?.["groundingChunkIndices"]).length);
      bounded(mentions.reduce((sum, each) => sum + each, chunks.length + supports.length));
      this.chunks = chunks.map(asObject);
      this.supports = supports;
      this.plain = true;
    }
    const cited = asObject(candidate["citationMetadata"]);
    const citations = asList(cited?.["citations"] ?? cited?.["citationSources"]);
    bounded(citations.length);
    if (citations.length > 0) this.cited = citations.map(asObject);
  }

  /** True while there are sources that no text has cited yet. */
  get waiting(): boolean {
    return this.plain || this.supports.length > 0 || this.cited.length > 0;
  }

  /**
   * The citations of a text block that ends. Must be asked for each one.
   * @param last no text follows: what fits nowhere is cited without a place
   */
  of(text: string, last: boolean): Citation[] {
    if (!this.waiting) {
      this.before += Buffer.byteLength(text);
      return [];
    }
    const offsets = new TextOffsets(text);
    const found: Citation[] = [];
    const lost: Citation[] = [];
    // Before the supports, of which those that are cited are forgotten.
    const unused = this.unused();
    this.supports = this.supports.filter((support) => {
      const place = this.placeOf(support, text, offsets);
      if (!place && !last && this.effort > 0) return true;
      for (const source of this.sourcesOf(support)) (place ? found : lost).push({ ...source, ...place });
      return false;
    });
    this.cite(offsets, last, found);
    this.before += offsets.length;
    return [...found, ...unused, ...lost];
  }

  /** Where a support's segment stands in a text; undefined where it is another text's. */
  private placeOf(support: JsonObject | undefined, text: string, offsets: TextOffsets): CharacterRange | undefined {
    if (this.effort <= 0) return undefined;
    this.effort -= TRY;
    const segment = asObject(support?.["segment"]);
    const place = charactersOf(offsets, asCount(segment?.["startIndex"]) ?? 0, asCount(segment?.["endIndex"]) ?? 0);
    const quoted = asText(segment?.["text"]);
    if (quoted === undefined || (place && text.slice(place.start, place.end) === quoted)) return place;
    if (quoted === "") return undefined;
    this.effort -= text.length;
    const start = text.indexOf(quoted);
    return start < 0 ? undefined : { start, end: start + quoted.length };
  }

  private sourcesOf(support: JsonObject | undefined): Citation[] {
    const indices = new Set(asList(support?.["groundingChunkIndices"]).map((index) => asCount(index) ?? -1));
    return [...indices].flatMap((index) => sourceOf(this.chunks[index]) ?? []);
  }

  /** Chunks that no support names; cited once. */
  private unused(): Citation[] {
    if (!this.plain) return [];
    this.plain = false;
    const named = new Set(this.supports.flatMap((support) => asList(support?.["groundingChunkIndices"])));
    return this.chunks.flatMap((chunk, n) => (named.has(n) ? [] : (sourceOf(chunk) ?? [])));
  }

  /** What `citationMetadata` names of a text. */
  private cite(offsets: TextOffsets, last: boolean, found: Citation[]): void {
    this.cited = this.cited.filter((source) => {
      this.effort -= TRY;
      const from = (asCount(source?.["startIndex"]) ?? 0) - this.before;
      const place = charactersOf(offsets, from, (asCount(source?.["endIndex"]) ?? -1) - this.before);
      if (!place && !last && this.effort > 0) return true;
      const named = defined({ url: asText(source?.["uri"]), title: asText(source?.["title"]) });
      if (Object.keys(named).length > 0) found.push({ ...named, ...place });
      return false;
    });
  }
}

function bounded(sources: number): void {
  if (sources > MOST)
    throw new GatewayError("upstream_invalid", { message: `The provider names more than ${MOST} sources.` });
}

interface CharacterRange {
  start: number;
  end: number;
}

/** Bytes of a text as its characters; undefined where it has no such bytes. */
function charactersOf(offsets: TextOffsets, from: number, to: number): CharacterRange | undefined {
  if (from < 0 || to <= from || to > offsets.length) return undefined;
  return { start: offsets.charactersBefore(from), end: offsets.charactersBefore(to) };
}

/** The source that a grounding chunk names: a page, a document of the client's, a place. */
function sourceOf(chunk: JsonObject | undefined): Citation | undefined {
  const source = asObject(chunk?.["web"] ?? chunk?.["retrievedContext"] ?? chunk?.["maps"]);
  const url = asText(source?.["uri"]) ?? asText(source?.["fileSearchStore"]);
  const named = defined({ url, title: asText(source?.["title"]), quote: asText(source?.["text"]) });
  return Object.keys(named).length === 0 ? undefined : named;
}
