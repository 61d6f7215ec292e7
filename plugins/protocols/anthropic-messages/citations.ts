import { asObject, asText, type Citation, defined, entryOf, type JsonObject } from "model-gateway/protocol";
import { without } from "./words.ts";

/** Which member tells the address: a search result's `source` is whatever the client called it, most often a URL. */
const ADDRESS: Readonly<Record<string, string>> = {
  web_search_result_location: "url",
  search_result_location: "source",
};

/** Members of citations of all kinds: what is said there, where it is, and keys of the vendor's. [S] */
export const CITATION: readonly string[] = [
  ...["type", "cited_text", "url", "title", "source", "document_title", "document_index", "search_result_index"],
  ...["start_char_index", "end_char_index", "start_page_number", "end_page_number"],
  ...["start_block_index", "end_block_index", "encrypted_index", "file_id"],
];

const addressOf = (type: unknown): string => entryOf(ADDRESS, asText(type)) ?? "url";

/** Places in documents of the request call their title differently. */
const titleOf = (citation: JsonObject): string => ("document_title" in citation ? "document_title" : "title");

/** A citation of the vendor's in our words. */
export function citationFrom(value: unknown): Citation {
  const citation = asObject(value) ?? {};
  return defined({
    url: asText(citation[addressOf(citation["type"])]),
    title: asText(citation[titleOf(citation)]),
    quote: asText(citation["cited_text"]),
  });
}

/** What of a citation our words do not hold, for the way back. */
export function citationRest(value: unknown): JsonObject {
  const citation = asObject(value) ?? {};
  const uses = citationFrom(citation);
  const names = [
    ...(uses.url === undefined ? [] : [addressOf(citation["type"])]),
    ...(uses.title === undefined ? [] : [titleOf(citation)]),
    ...(uses.quote === undefined ? [] : ["cited_text"]),
  ];
  return { titled: titleOf(citation), ...without(citation, names) };
}

/** The vendor's citation, from our words and the rest. */
export function citationOf(uses: Citation, rest: JsonObject): JsonObject {
  const { titled, ...more } = rest;
  return {
    ...more,
    ...(uses.quote === undefined ? {} : { cited_text: uses.quote }),
    ...(uses.url === undefined ? {} : { [addressOf(more["type"])]: uses.url }),
    ...(uses.title === undefined ? {} : { [String(titled)]: uses.title }),
  };
}

/**
 * A citation that another protocol's answer made, as a web search result; undefined without a URL, which is all that this
 * form can name. Its `encrypted_index` is required by the SDK's types and is only the vendor's to fill.
 */
export function webCitation(uses: Citation): JsonObject | undefined {
  if (uses.url === undefined) return undefined;
  return {
    type: "web_search_result_location",
    cited_text: uses.quote ?? "",
    url: uses.url,
    title: uses.title ?? null,
    encrypted_index: "",
  };
}
