import t from "tap";
import { Sources } from "../../../../plugins/protocols/gemini/response.citations.ts";

const web = (name: string) => ({ web: { uri: `https://${name}`, title: name } });
const support = (segment: object, ...chunks: number[]) => ({ segment, groundingChunkIndices: chunks });

t.test("offsets are bytes there and characters here", async (t) => {
  const sources = new Sources();
  sources.learn({
    groundingMetadata: {
      groundingChunks: [web("a"), web("b")],
      groundingSupports: [
        support({ endIndex: 7, text: "Größe" }, 0),
        support({ startIndex: 8, endIndex: 12, text: "😀" }, 0, 1),
      ],
    },
  });
  t.strictSame(sources.of("Größe 😀!", true), [
    { url: "https://a", title: "a", start: 0, end: 5 },
    ...["a", "b"].map((title) => ({ url: `https://${title}`, title, start: 6, end: 8 })),
  ]);
  t.notOk(sources.waiting);
});

t.test("offsets that lie are mended by the text they stand beside", async (t) => {
  const sources = new Sources();
  sources.learn({
    groundingMetadata: {
      groundingChunks: [web("a")],
      groundingSupports: [support({ startIndex: 90, endIndex: 95, text: "world" }, 0)],
    },
  });
  t.match(sources.of("hello world", true), [{ start: 6, end: 11 }]);
});

t.test("a support waits for the text it is about; without one it has no place", async (t) => {
  const sources = new Sources();
  const metadata = {
    groundingChunks: [web("a"), web("b")],
    groundingSupports: [support({ endIndex: 3, text: "two" }, 1), support({ endIndex: 9, text: "elsewhere" }, 0)],
  };
  sources.learn({ groundingMetadata: metadata });
  t.strictSame(sources.of("one", false), []);
  t.ok(sources.waiting);
  t.strictSame(sources.of("two", true), [
    { url: "https://b", title: "b", start: 0, end: 3 },
    { url: "https://a", title: "a" },
  ]);
});

t.test("sources that no support names are told once, of whatever kind", async (t) => {
  const sources = new Sources();
  const chunks = [
    { retrievedContext: { title: "file.pdf", text: "said" } },
    { maps: { uri: "https://m", title: "Here" } },
    { image: {} },
  ];
  sources.learn({ groundingMetadata: { groundingChunks: chunks } });
  t.strictSame(sources.of("x", false), [
    { title: "file.pdf", quote: "said" },
    { url: "https://m", title: "Here" },
  ]);
  t.strictSame(sources.of("y", true), []);
});

t.test("a later word takes the place of an earlier one, an empty one says nothing", async (t) => {
  const sources = new Sources();
  sources.learn({ groundingMetadata: { groundingChunks: [web("old")] } });
  sources.learn({ groundingMetadata: { groundingChunks: [web("new")] } });
  sources.learn({ groundingMetadata: {} });
  t.match(sources.of("x", true), [{ url: "https://new" }]);
});

t.test("recitations count the bytes of texts that ended before anything was known of sources", async (t) => {
  const sources = new Sources();
  t.strictSame(sources.of("é", false), []);
  sources.learn({ citationMetadata: { citationSources: [{ uri: "https://a", startIndex: 3, endIndex: 5 }] } });
  t.strictSame(sources.of("xyz", true), [{ url: "https://a", start: 1, end: 3 }]);
});

t.test("recitations count the bytes of all texts", async (t) => {
  const sources = new Sources();
  const cite = (uri: string | undefined, startIndex: number, endIndex: number) => ({ uri, startIndex, endIndex });
  sources.learn({
    citationMetadata: {
      citationSources: [cite("https://a", 0, 3), cite("https://b", 5, 7), cite(undefined, 0, 1), { uri: "https://c" }],
    },
  });
  t.strictSame(sources.of("éab", false), [{ url: "https://a", start: 0, end: 2 }]);
  t.strictSame(sources.of("xyz", true), [{ url: "https://b", start: 1, end: 3 }, { url: "https://c" }]);
});
