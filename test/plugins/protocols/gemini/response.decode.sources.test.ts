import t from "tap";
import { CandidateSources } from "../../../../plugins/protocols/gemini/response.decode.sources.ts";

const web = (name: string) => ({ web: { uri: `https://${name}`, title: name } });
const support = (segment: object, ...chunks: number[]) => ({ segment, groundingChunkIndices: chunks });

t.test("offsets are bytes there and characters here", async (t) => {
  const sources = new CandidateSources();
  sources.read({
    groundingMetadata: {
      groundingChunks: [web("a"), web("b")],
      groundingSupports: [
        support({ endIndex: 7, text: "Größe" }, 0),
        support({ startIndex: 8, endIndex: 12, text: "😀" }, 0, 1),
      ],
    },
  });
  t.strictSame(sources.takeCitations("Größe 😀!", true), [
    { url: "https://a", title: "a", start: 0, end: 5 },
    ...["a", "b"].map((title) => ({ url: `https://${title}`, title, start: 6, end: 8 })),
  ]);
  t.notOk(sources.hasUncited);
});

t.test("wrong offsets are corrected by the text beside them", async (t) => {
  const sources = new CandidateSources();
  sources.read({
    groundingMetadata: {
      groundingChunks: [web("a")],
      groundingSupports: [support({ startIndex: 90, endIndex: 95, text: "world" }, 0)],
    },
  });
  t.match(sources.takeCitations("hello world", true), [{ start: 6, end: 11 }]);
});

t.test("a support waits for its text; without one it has no position", async (t) => {
  const sources = new CandidateSources();
  const metadata = {
    groundingChunks: [web("a"), web("b")],
    groundingSupports: [support({ endIndex: 3, text: "two" }, 1), support({ endIndex: 9, text: "elsewhere" }, 0)],
  };
  sources.read({ groundingMetadata: metadata });
  t.strictSame(sources.takeCitations("one", false), []);
  t.ok(sources.hasUncited);
  t.strictSame(sources.takeCitations("two", true), [
    { url: "https://b", title: "b", start: 0, end: 3 },
    { url: "https://a", title: "a" },
  ]);
});

t.test("sources that no support refers to are reported once, of any kind", async (t) => {
  const sources = new CandidateSources();
  const chunks = [
    { retrievedContext: { title: "file.pdf", text: "said" } },
    { maps: { uri: "https://m", title: "Here" } },
    { image: {} },
  ];
  sources.read({ groundingMetadata: { groundingChunks: chunks } });
  t.strictSame(sources.takeCitations("x", false), [
    { title: "file.pdf", quote: "said" },
    { url: "https://m", title: "Here" },
  ]);
  t.strictSame(sources.takeCitations("y", true), []);
});

t.test("a later value replaces an earlier one, an empty one changes nothing", async (t) => {
  const sources = new CandidateSources();
  sources.read({ groundingMetadata: { groundingChunks: [web("old")] } });
  sources.read({ groundingMetadata: { groundingChunks: [web("new")] } });
  sources.read({ groundingMetadata: {} });
  t.match(sources.takeCitations("x", true), [{ url: "https://new" }]);
});

t.test("recitations count the bytes of texts that ended before any source was known", async (t) => {
  const sources = new CandidateSources();
  t.strictSame(sources.takeCitations("é", false), []);
  sources.read({ citationMetadata: { citationSources: [{ uri: "https://a", startIndex: 3, endIndex: 5 }] } });
  t.strictSame(sources.takeCitations("xyz", true), [{ url: "https://a", start: 1, end: 3 }]);
});

t.test("recitations count the bytes of all texts", async (t) => {
  const sources = new CandidateSources();
  const cite = (uri: string | undefined, startIndex: number, endIndex: number) => ({ uri, startIndex, endIndex });
  sources.read({
    citationMetadata: {
      citationSources: [cite("https://a", 0, 3), cite("https://b", 5, 7), cite(undefined, 0, 1), { uri: "https://c" }],
    },
  });
  t.strictSame(sources.takeCitations("éab", false), [{ url: "https://a", start: 0, end: 2 }]);
  t.strictSame(sources.takeCitations("xyz", true), [{ url: "https://b", start: 1, end: 3 }, { url: "https://c" }]);
});

t.test("a source that a support names twice is reported once, and positions in long texts are right", async (t) => {
  const words = Array.from({ length: 400 }, (_, n) => `größe😀${n}`);
  const text = words.join(" ");
  const bytesBefore = (at: number) => Buffer.byteLength(text.slice(0, at));
  const places = words.map((word) => text.indexOf(word));
  const sources = new CandidateSources();
  sources.read({
    groundingMetadata: {
      groundingChunks: [web("a")],
      groundingSupports: words.map((word, n) => {
        const start = places[n] ?? 0;
        return support(
          { startIndex: bytesBefore(start), endIndex: bytesBefore(start + word.length), text: word },
          0,
          0,
        );
      }),
    },
  });
  t.strictSame(
    sources.takeCitations(text, false).map(({ start, end }) => text.slice(start, end)),
    words,
  );
});

t.test("a text is not searched repeatedly: the remaining sources have no position", async (t) => {
  const sources = new CandidateSources();
  sources.read({
    groundingMetadata: {
      groundingChunks: [web("a")],
      groundingSupports: Array.from({ length: 100 }, () => support({ endIndex: 9, text: "elsewhere" }, 0)),
    },
    citationMetadata: { citations: [{ uri: "https://b", startIndex: 2 ** 40, endIndex: 2 ** 41 }] },
  });
  const told = sources.takeCitations("x".repeat(1024 * 1024), false);
  t.ok(told.length > 10 && told.length < 90, `${told.length}`);
  t.ok(told.every((citation) => citation.start === undefined));
  t.equal(sources.takeCitations("elsewhere", false).length, 101 - told.length);
  t.notOk(sources.hasUncited);
});

t.test("more sources than any answer has are refused", async (t) => {
  const many = Array.from({ length: 10_001 }, () => web("a"));
  const one = { groundingChunks: [web("a")] };
  const tooMany = { code: "upstream_invalid" };
  t.throws(() => new CandidateSources().read({ groundingMetadata: { groundingChunks: many } }), tooMany);
  const groundingSupports = [support({ endIndex: 1 }, ...many.map(() => 0))];
  t.throws(() => new CandidateSources().read({ groundingMetadata: { ...one, groundingSupports } }), tooMany);
  t.throws(() => new CandidateSources().read({ citationMetadata: { citations: many } }), tooMany);
});

t.test("one long source that is cited very often is refused: each citation repeats it", async (t) => {
  const metadata = (length: number) => ({
    groundingChunks: [{ web: { uri: "https://a", title: "x".repeat(length) } }],
    groundingSupports: Array.from({ length: 1000 }, () => support({ endIndex: 3, text: "one" }, 0)),
  });
  const cite = (length: number) => {
    const sources = new CandidateSources();
    sources.read({ groundingMetadata: metadata(length) });
    return sources.takeCitations("one", true);
  };
  t.equal(cite(8000).length, 1000);
  t.throws(() => cite(9000), { code: "upstream_invalid" });
});
