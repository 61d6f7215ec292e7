import t from "tap";
import { CandidateSources } from "../../../../plugins/protocols/gemini/response.decode.sources.ts";
import { GroundingWriter } from "../../../../plugins/protocols/gemini/response.encode.grounding.ts";
import type { Citation } from "../../../../src/translation/events.ts";

const A: Citation = { url: "https://a", title: "A" };
const json = (grounding: GroundingWriter): unknown => JSON.parse(grounding.json());
const cited = (grounding: GroundingWriter, text: string, ...citations: Citation[]): void => {
  for (const citation of citations) grounding.addCitation(citation);
  grounding.placeCitations(text, 0, 0);
};

t.test("citations have positions in bytes of the part that clients see", async (t) => {
  const grounding = new GroundingWriter();
  grounding.addCitation({ ...A, start: 2, end: 5 });
  grounding.placeCitations("üü😀x", 0, 3);
  grounding.addCitation(A);
  grounding.addCitation({ title: "doc", quote: "said", start: 0, end: 1 });
  grounding.placeCitations("text", 2, 0);
  t.strictSame(json(grounding), {
    groundingChunks: [{ web: { uri: "https://a", title: "A" } }, { retrievedContext: { title: "doc", text: "said" } }],
    groundingSupports: [
      { segment: { startIndex: 7, endIndex: 12, text: "😀x" }, groundingChunkIndices: [0] },
      { segment: { partIndex: 2, endIndex: 4, text: "text" }, groundingChunkIndices: [0] },
      { segment: { partIndex: 2, endIndex: 1, text: "t" }, groundingChunkIndices: [1] },
    ],
  });
});

t.test("a citation that begins or ends within a character has all of it", async (t) => {
  const grounding = new GroundingWriter();
  cited(grounding, "a😀b😀c", { ...A, start: 2, end: 3 }, { ...A, start: 3, end: 5 }, { ...A, start: 0, end: 1 });
  t.match(json(grounding), {
    groundingSupports: [
      { segment: { startIndex: 1, endIndex: 5, text: "😀" } },
      { segment: { startIndex: 5, endIndex: 10, text: "b😀" } },
      { segment: { endIndex: 1, text: "a" } },
    ],
  });
});

t.test("positions far into a text are right", async (t) => {
  const words = Array.from({ length: 400 }, (_, n) => `größe😀${n}`);
  const text = words.join(" ");
  const grounding = new GroundingWriter();
  const starts = words.map((word) => text.indexOf(word));
  cited(
    grounding,
    text,
    ...words.map(({ length }, n) => ({ ...A, start: starts[n] ?? 0, end: (starts[n] ?? 0) + length })),
  );
  const { groundingSupports: supports } = json(grounding) as {
    groundingSupports: { segment: { startIndex?: number; endIndex: number; text: string } }[];
  };
  t.strictSame(
    supports.map(({ segment: { startIndex, endIndex } }) => Buffer.from(text).toString("utf8", startIndex, endIndex)),
    words,
  );
});

t.test("without citations there is no metadata", async (t) => {
  const grounding = new GroundingWriter();
  grounding.placeCitations("text", 0, 0);
  t.ok(grounding.isEmpty);
  grounding.addCitation(A);
  t.notOk(grounding.isEmpty);
});

t.test("a source without a position cites its whole text, and none where there is no text", async (t) => {
  const grounding = new GroundingWriter();
  cited(grounding, "", A);
  t.strictSame(json(grounding), {
    groundingChunks: [{ web: { uri: "https://a", title: "A" } }],
    groundingSupports: [],
  });
  cited(grounding, "all", A);
  t.match(json(grounding), { groundingSupports: [{ segment: { endIndex: 3, text: "all" } }] });
});

t.test("a position beyond the text ends with it, and one after it is dropped", async (t) => {
  const grounding = new GroundingWriter();
  cited(grounding, "text", { ...A, start: 2, end: 99 }, { ...A, start: 4, end: 9 }, { ...A, start: 3, end: 1 });
  t.match(json(grounding), { groundingSupports: [{ segment: { startIndex: 2, endIndex: 4, text: "xt" } }] });
});

t.test("sources with the same position are written together, so that their text is written once", async (t) => {
  const grounding = new GroundingWriter();
  const sources = [A, { url: "https://b" }, { url: "https://c" }];
  cited(grounding, "text", ...sources, { ...A, start: 0, end: 2 }, { url: "https://b", start: 0, end: 2 }, A);
  cited(grounding, "text", A);
  t.match((json(grounding) as { groundingSupports: unknown[] }).groundingSupports, [
    { segment: { text: "text" }, groundingChunkIndices: [0, 1, 2] },
    { segment: { text: "te" }, groundingChunkIndices: [0, 1] },
    { segment: { text: "text" }, groundingChunkIndices: [0] },
    { segment: { text: "text" }, groundingChunkIndices: [0] },
  ]);
});

t.test("quotes that the page itself contains are not written", async (t) => {
  const grounding = new GroundingWriter();
  grounding.addCitation({ title: "doc", quote: "said" });
  t.notOk(grounding.hasDroppedQuote);
  grounding.addCitation({ ...A, quote: "said" });
  t.ok(grounding.hasDroppedQuote);
});

t.test("the memory for citations is limited, of any kind", async (t) => {
  const endless = (next: (n: number) => Citation) => () => {
    const grounding = new GroundingWriter();
    for (let n = 0; n < 200_000; n++) grounding.addCitation(next(n));
  };
  const wide = "w".repeat(1_000_000);
  for (const flood of [
    endless(() => A),
    endless((n) => ({ url: `https://a/${n}` })),
    endless((n) => ({ quote: `${n}${wide}` })),
    () =>
      cited(new GroundingWriter(), wide, ...Array.from({ length: 20 }, (_, n) => ({ ...A, start: n, end: 999_999 }))),
  ])
    t.throws(flood, { code: "upstream_invalid", message: /8 MiB/ });
  const many = new GroundingWriter();
  cited(many, wide, ...Array.from({ length: 1000 }, (_, n) => ({ url: `https://a/${n}` })));
  t.ok(many.json().length < 2_000_000);
});

t.test("what is encoded can be decoded again", async (t) => {
  const text = "Größe: 😀 ist da.";
  const citations = [
    { url: "https://a", title: "A", start: 0, end: 5 },
    { url: "https://b", start: 7, end: 17 },
  ];
  const grounding = new GroundingWriter();
  cited(grounding, text, ...citations);
  const sources = new CandidateSources();
  sources.read({ groundingMetadata: json(grounding) });
  t.strictSame(sources.takeCitations(text, true), citations);
});
