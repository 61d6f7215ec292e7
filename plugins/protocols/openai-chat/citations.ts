import { asObject, asText, type Citation, defined } from "model-gateway/protocol";

/**
 * A `url_citation`. Its indices count characters of the whole content; where they are equal (recorded from OpenRouter:
 * always 0) they say nothing.
 * @param before characters of the content before the block that the citation is for
 */
export function citationOf(annotation: unknown, before = 0): Citation | undefined {
  const source = asObject(asObject(annotation)?.["url_citation"]);
  if (!source) return undefined;
  const [start, end] = [source["start_index"], source["end_index"]];
  const spans = typeof start === "number" && typeof end === "number" && end > start && start >= before;
  return defined({
    url: asText(source["url"]),
    title: asText(source["title"]),
    quote: asText(source["content"]),
    start: spans ? start - before : undefined,
    end: spans ? end - before : undefined,
  });
}

/** The annotation for a citation; indices count from the start of the whole content. */
export const annotationOf = ({ url, title, quote, start, end }: Citation, before: number) => ({
  type: "url_citation",
  url_citation: defined({
    // The SDK's types have no optional member here.
    start_index: before + (start ?? 0),
    end_index: before + (end ?? 0),
    url: url ?? "",
    title: title ?? "",
    content: quote,
  }),
});
