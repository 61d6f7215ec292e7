import t from "tap";
import { citationFrom, citationOf, citationRest } from "../../../../plugins/protocols/anthropic-messages/citations.ts";

const CITATIONS = [
  { type: "web_search_result_location", url: "https://a", title: "A", cited_text: "q", encrypted_index: "x" },
  { type: "search_result_location", source: "https://a", title: null, cited_text: "q", search_result_index: 0 },
  { type: "char_location", cited_text: "q", document_title: "D", document_index: 0, start_char_index: 1 },
  { type: "constructor", url: "https://a" },
  { url: 1, title: ["A"] },
];

t.test("a citation's address, title and quote are told, and all of it comes back", async (t) => {
  const told = [
    { url: "https://a", title: "A", quote: "q" },
    { url: "https://a", quote: "q" },
    { title: "D", quote: "q" },
    { url: "https://a" },
    {},
  ];
  t.same(CITATIONS.map(citationFrom), told);
  for (const citation of CITATIONS) t.same(citationOf(citationFrom(citation), citationRest(citation)), citation);
});

t.test("what is no object says nothing", async (t) => {
  for (const value of [undefined, null, 1, "x", []]) t.same(citationFrom(value), {});
});
