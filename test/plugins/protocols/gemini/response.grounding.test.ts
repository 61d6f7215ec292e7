import t from "tap";
import { Sources } from "../../../../plugins/protocols/gemini/response.citations.ts";
import { Grounding } from "../../../../plugins/protocols/gemini/response.grounding.ts";
import type { Citation } from "../../../../src/translation/events.ts";

const A: Citation = { url: "https://a", title: "A" };
const json = (grounding: Grounding): unknown => JSON.parse(grounding.json());
const cited = (grounding: Grounding, text: string, ...citations: Citation[]): void => {
  for (const citation of citations) grounding.cite(citation);
  grounding.place(text, 0, 0);
};

t.test("citations are told in bytes of the part that clients see", async (t) => {
  const grounding = new Grounding();
  grounding.cite({ ...A, start: 2, end: 5 });
  grounding.place("üü😀x", 0, 3);
  grounding.cite(A);
  grounding.cite({ title: "doc", quote: "said", start: 0, end: 1 });
  grounding.place("text", 2, 0);
  t.strictSame(json(grounding), {
    groundingChunks: [{ web: { uri: "https://a", title: "A" } }, { retrievedContext: { title: "doc", text: "said" } }],
    groundingSupports: [
      { segment: { startIndex: 7, endIndex: 12, text: "😀x" }, groundingChunkIndices: [0] },
      { segment: { partIndex: 2, endIndex: 4, text: "text" }, groundingChunkIndices: [0] },
      { segment: { partIndex: 2, endIndex: 1, text: "t" }, groundingChunkIndices: [1] },
    ],
  });
});

t.test("places far into a text are right", async (t) => {
  const words = Array.from({ length: 400 }, (_, n) => `größe😀${n}`);
  const text = words.join(" ");
  const grounding = new Grounding();
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

t.test("without citations there is nothing to tell", async (t) => {
  const grounding = new Grounding();
  grounding.place("text", 0, 0);
  t.ok(grounding.empty);
  grounding.cite(A);
  t.notOk(grounding.empty);
});

t.test("a source without a place backs its whole text, and none where there is no text", async (t) => {
  const grounding = new Grounding();
  cited(grounding, "", A);
  t.strictSame(json(grounding), {
    groundingChunks: [{ web: { uri: "https://a", title: "A" } }],
    groundingSupports: [],
  });
  cited(grounding, "all", A);
  t.match(json(grounding), { groundingSupports: [{ segment: { endIndex: 3, text: "all" } }] });
});

t.test("a place beyond the text ends with it, and one behind it is none", async (t) => {
  const grounding = new Grounding();
  cited(grounding, "text", { ...A, start: 2, end: 99 }, { ...A, start: 4, end: 9 }, { ...A, start: 3, end: 1 });
  t.match(json(grounding), { groundingSupports: [{ segment: { startIndex: 2, endIndex: 4, text: "xt" } }] });
});

t.test("sources of the same place are told together, so that their text is told once", async (t) => {
  const grounding = new Grounding();
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

t.test("what a page says is not told, which it says itself", async (t) => {
  const grounding = new Grounding();
  grounding.cite({ title: "doc", quote: "said" });
  t.notOk(grounding.unquoted);
  grounding.cite({ ...A, quote: "said" });
  t.ok(grounding.unquoted);
});

t.test("what citations hold is bounded, whatever they are", async (t) => {
  const endless = (next: (n: number) => Citation) => () => {
    const grounding = new Grounding();
    for (let n = 0; n < 200_000; n++) grounding.cite(next(n));
  };
  const wide = "w".repeat(1_000_000);
  for (const flood of [
    endless(() => A),
    endless((n) => ({ url: `https://a/${n}` })),
    endless((n) => ({ quote: `${n}${wide}` })),
    () => cited(new Grounding(), wide, ...Array.from({ length: 20 }, (_, n) => ({ ...A, start: n, end: 999_999 }))),
  ])
    t.throws(flood, { code: "upstream_invalid", message: /8 MiB/ });
  const many = new Grounding();
  cited(many, wide, ...Array.from({ length: 1000 }, (_, n) => ({ url: `https://a/${n}` })));
  t.ok(many.json().length < 2_000_000);
});

t.test("what is written is read again", async (t) => {
  const text = "Größe: 😀 ist da.";
  const citations = [
    { url: "https://a", title: "A", start: 0, end: 5 },
    { url: "https://b", start: 7, end: 17 },
  ];
  const grounding = new Grounding();
  cited(grounding, text, ...citations);
  const sources = new Sources();
  sources.learn({ groundingMetadata: json(grounding) });
  t.strictSame(sources.of(text, true), citations);
});
