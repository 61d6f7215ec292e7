import t from "tap";
import {
  audioFormat,
  audioMediaType,
  defaultFilename,
  EFFORTS,
  formatDataUrl,
  isImageDetail,
  parseDataUrl,
  parseEffort,
  readDataUrl,
  servedTier,
  serviceTier,
} from "../../../../plugins/protocols/openai/wire.ts";

t.test("audio formats have a type, and accepted types have a format", async (t) => {
  for (const format of ["wav", "mp3"]) t.equal(audioFormat(audioMediaType(format)), format);
  t.same(["audio/x-wav", "audio/WAVE", "audio/mp3", "audio/mpeg"].map(audioFormat), ["wav", "wav", "mp3", "mp3"]);
  t.equal(audioMediaType("opus"), "audio/opus");
  for (const type of ["audio/opus", "", undefined, "constructor"]) t.equal(audioFormat(type), undefined);
});

t.test("a data: URL in base64 has a type, bytes and a prefix", async (t) => {
  for (const [prefix, mime] of [
    ["data:image/png;base64,", "image/png"],
    ["data:text/plain;charset=utf-8;base64,", "text/plain"],
    ['data:text/plain; Charset="UTF-8";base64,', "text/plain"],
    ["data:text/plain;name=a.txt;charset=iso-8859-1;base64,", "text/plain;charset=iso-8859-1"],
    ["data:image/png;charset=iso-8859-1;base64,", "image/png"],
    ["data:;base64,", ""],
    ["DATA:image/png;BASE64,", "image/png"],
  ] as const)
    t.same(parseDataUrl(`${prefix}AAAA`), { mime, base64: "AAAA", prefix });
  for (const url of ["https://a.example/;base64,AAAA", "data:,AAAA", "data:image/png,;base64,A", "", "data:"])
    t.equal(parseDataUrl(url), undefined, url);
  t.same(parseDataUrl(formatDataUrl("image/png", "AAAA")), {
    mime: "image/png",
    base64: "AAAA",
    prefix: "data:image/png;base64,",
  });
});

t.test("a client's data: URL without base64 is refused with its path", async (t) => {
  t.throws(() => readDataUrl("data:text/plain,hello", "messages.0"), { code: "invalid_field", param: "messages.0" });
  t.equal(readDataUrl("https://a.example", "messages.0"), undefined);
  t.match(readDataUrl("data:a/b;base64,AA", "messages.0"), { mime: "a/b", base64: "AA" });
});

t.test("a client's data: URL with too many parameters is refused with its path, at any length", async (t) => {
  const [most, more] = [4096 - "data:a/b;".length - ";base64,".length, 12 << 20];
  t.match(readDataUrl(`data:a/b;${"a".repeat(most)};base64,AA`, "messages.0"), { mime: "a/b", base64: "AA" });
  for (const parameters of ["a".repeat(most + 1), "a;".repeat(more / 2), "a".repeat(more)])
    t.throws(() => readDataUrl(`data:a/b;${parameters};base64,AA`, "messages.0"), {
      ...{ code: "invalid_field", param: "messages.0" },
      message: "messages.0 has more than 4096 characters before the bytes of its data: URL.",
    });
  t.match(readDataUrl(`data:a/b;base64,${"A,".repeat(more / 2)}`, "messages.0"), { mime: "a/b" });
});

t.test("a file without a name gets one that matches its type", async (t) => {
  t.same(
    ["application/pdf", "text/plain; charset=utf-8", "text/markdown", "application/vnd.ms-excel", "", undefined].map(
      defaultFilename,
    ),
    ["file.pdf", "file.txt", "file.md", "file.bin", "file.bin", "file.bin"],
  );
});

t.test("only the vendor's details are accepted", async (t) => {
  t.same(["auto", "low", "high", "original", "huge"].filter(isImageDetail), ["auto", "low", "high", "original"]);
});

t.test("only the vendor's values are efforts", async (t) => {
  for (const effort of EFFORTS) t.equal(parseEffort(effort), effort);
  for (const word of ["default", "HIGH", "", 3, null, undefined, "constructor"]) t.equal(parseEffort(word), undefined);
});

t.test("every protocol's name of a tier is the vendor's", async (t) => {
  t.same(
    ["auto", "Standard", "standard_only", "FLEX", "priority", "fast"].map((tier) => serviceTier(tier)),
    ["auto", "default", "default", "flex", "priority", "fast"],
  );
});

t.test("a tier that the vendor does not have is none, unless the protocol in use has it", async (t) => {
  for (const tier of ["ultrafast", "batch", "constructor", ""]) t.equal(serviceTier(tier), undefined);
  t.equal(serviceTier("Ultrafast", "ultrafast"), "ultrafast");
});

t.test("the tier that served a request has the vendor's name, or none", async (t) => {
  t.equal(servedTier(undefined), undefined);
  t.equal(servedTier({ in: {}, out: {}, raw: {} }), undefined);
  for (const [tier, served] of [
    ["standard", "default"],
    ["priority", "priority"],
    ["ON_DEMAND", "default"],
    ["on_demand", "default"],
    ["ON_DEMAND_PRIORITY", "priority"],
    ["ON_DEMAND_FLEX", "flex"],
    ["scale", "scale"],
    ["PROVISIONED_THROUGHPUT", undefined],
    ["provisioned", undefined],
    ["batch", undefined],
    ["ultrafast", undefined],
    ["constructor", undefined],
    ["", undefined],
  ] as const)
    t.equal(servedTier({ in: {}, out: {}, raw: {}, tier }), served, tier);
  t.equal(servedTier({ in: {}, out: {}, raw: {}, tier: "ultrafast" }, "ultrafast"), "ultrafast");
});
