import t from "tap";
import { objects, vendorObjects } from "../../../../plugins/protocols/gemini/objects.ts";
import { ReferenceFinder } from "../../../../src/objects/reference-finder.ts";
import { HeaderList } from "../../../../src/wire/headers.ts";
import { hostileTexts, runLinear } from "../../../support/linear-work.ts";

const finder = new ReferenceFinder(vendorObjects.bodyMembers);
const named = (body: object) => finder.findInJson(body).map(({ id, param }) => `${param}=${id}`);
const FILE = "https://generativelanguage.googleapis.com/v1beta/files/theirs";

t.test("names and addresses of objects are found in members of any name", async (t) => {
  for (const [text, id] of [
    [FILE, "theirs"],
    [FILE.replace("https:", ""), "theirs"],
    [` ${FILE}`, "theirs"],
    ["files/theirs", "theirs"],
    ["v1beta/files/theirs", "theirs"],
    ["corpora/theirs/documents/own", "theirs"],
    ["models/m/operations/theirs", "theirs"],
    ["projects/p/locations/l/cachedContents/theirs", "theirs"],
    ["projects/p/locations/l/datasets/theirs", "theirs"],
    ["projects/p/secrets/s/versions/theirs", "theirs"],
    ["files/own/../theirs", "theirs"],
    ["gs://theirs/x y.png", "gs://theirs"],
    ["GS://theirs/x", "gs://theirs"],
    ["bq://p.d.theirs", "p.d.theirs"],
    ["https://storage.googleapis.com/theirs/x", "gs://theirs"],
  ] as const) {
    t.same(named({ instances: [{ video: { uri: text } }] }), [`instances.0.video.uri=${id}`], text);
    t.same(named({ parameters: { anyNewName: [text] } }), [`parameters.anyNewName.0=${id}`], text);
    t.match(finder.findInField("source", text), [{ id, param: "source" }], text);
  }
});

t.test("what people write, and what clients keep for themselves, may begin like a name", async (t) => {
  for (const text of ["files/a.txt", "gs://mine/x", FILE, "projects/p/locations/l/x", "//storage.googleapis.com/x"])
    for (const body of [
      { input: text },
      { input: [{ type: "text", text }, { content: text }] },
      { system_instruction: text, instances: [{ prompt: text }], stopSequences: [text] },
      { input: [{ type: "function_call", arguments: { path: text, paths: [{ uri: text }] } }] },
      { input: [{ type: "function_result", result: { path: text, uri: text } }] },
      { input: [{ type: "function_result", result: [{ type: "text", text }, text] }] },
      { tools: [{ type: "function", parameters: { properties: { a: { enum: [text], default: { uri: text } } } } }] },
      { sources: [{ type: "inline", content: text, target: text }], env: { A: text }, file: { name: text } },
      { contents: [{ parts: [{ functionCall: { args: { a: text } } }, { inlineData: { data: text } }] }] },
    ])
      t.same(named(body), [], JSON.stringify(body));
  for (const text of ["files/x is broken", "files", "files/", "my files/x", "gs: a note", "// words", "bq", "v1/x"])
    t.same(named({ note: text }), [], text);
  for (const text of ["https://example.com/files/x", "projects/p/locations/l/publishers/google/models/m", "models/m"])
    t.same(named({ note: text, model: text }), [], text);
  t.same(finder.findInField("name", "files/x"), []);
});

t.test("content in a tool's result is looked up", async (t) => {
  const result = [{ type: "image", uri: FILE }];
  t.same(named({ input: [{ type: "function_result", result }] }), ["input.0.result.0.uri=theirs"]);
});

t.test("the work on a name or an address grows no faster than it", async (t) => {
  const starts = ["", " ", "//", "files/", "v1beta/files/", "projects/p/locations/", "projects/p/secrets/", "gs://"];
  const parts = [" ", "/", "a", ".", "..", "/..", "files/", "/ ", "projects/", "models/a/", "v1/", "\\"];
  for (const text of starts.flatMap((start) => hostileTexts(parts, start, " x")))
    t.doesNotThrow(() => runLinear(() => vendorObjects.bodyMembers.recognized?.id(text, "x")), text.slice(0, 40));
});

t.test("a host in another script that is too long to compare counts as the vendor's", async (t) => {
  const at = (host: string) => objects.id?.(`https://${host}/x`);
  t.equal(at("\ufdfa".repeat(65)), "gs://googleapis.com");
  t.equal(at(`${"ä".repeat(60)}.de`), undefined);
  t.equal(at(`${"a".repeat(63)}.${"b".repeat(63)}.example`), undefined);
  const parts = Array.from({ length: 6000 }, () => ({ fileUri: `https://${"\ufdfa".repeat(420)}.com/x` }));
  t.throws(() => finder.findInJson({ parts }), { code: "invalid_field", message: /more than 5000 objects/ });
});

t.test("a batch's file is told from other files that a request names", async (t) => {
  const run = (body: object) => finder.findInJson(body).flatMap(({ id, isRun }) => (isRun ? [id] : []));
  t.same(run({ batch: { inputConfig: { fileName: "files/abc" } } }), ["abc"]);
  t.same(run({ batch: { input_config: { file_name: "abc" } } }), ["abc"]);
  t.same(run({ input_file_id: "files/abc" }), ["abc"]);
  t.same(run({ input_file_id: "file-abc" }), ["file-abc"]);
  t.same(run({ input_file_id: "file-AbC123" }), [], "another protocol's");
  t.same(run({ input_file_id: "files/AbC123" }), ["AbC123"]);
  t.match(finder.findInField("batch[inputConfig][fileName]", "files/abc"), [{ id: "abc", isRun: true }]);
  t.same(run({ fileName: "files/abc" }), [], "a document that a store imports");
  const contents = [{ parts: [{ fileData: { fileUri: FILE } }] }];
  t.same(run({ batch: { inputConfig: { requests: { requests: [{ request: { contents } }] } } } }), []);
});

t.test("the response to the last piece of an upload tells the file, its hash and its end", async (t) => {
  const uploads = vendorObjects.resumableUploads as NonNullable<typeof vendorObjects.resumableUploads>;
  const hex = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
  const expirationTime = "2026-01-02T00:00:00.5Z";
  const expected = { id: "abc", sha256: hex, expires: Date.UTC(2026, 0, 2, 0, 0, 0, 500) };
  const told = (file: unknown) => uploads.uploadedFile({ file } as Parameters<typeof uploads.uploadedFile>[0]);
  for (const sha256Hash of [
    hex,
    hex.toUpperCase(),
    Buffer.from(hex).toString("base64"),
    Buffer.from(hex, "hex").toString("base64"),
  ])
    t.same(told({ name: "files/abc", sha256Hash, expirationTime }), expected, sha256Hash);
  for (const file of [
    undefined,
    "files/abc",
    { sha256Hash: hex, expirationTime },
    { name: "files/abc", expirationTime },
    { name: "files/abc", sha256Hash: hex },
    { name: "files/abc", sha256Hash: hex.slice(1), expirationTime },
    { name: "files/abc", sha256Hash: hex, expirationTime: "soon" },
  ])
    t.equal(told(file), undefined, JSON.stringify(file));
});

t.test("a piece of an upload says where it belongs", async (t) => {
  const uploads = vendorObjects.resumableUploads as NonNullable<typeof vendorObjects.resumableUploads>;
  const place = (command: string, offset?: string) =>
    uploads.piece(
      new HeaderList([
        "X-Goog-Upload-Command",
        command,
        ...(offset === undefined ? [] : ["X-Goog-Upload-Offset", offset]),
      ]),
    );
  t.same(place("upload", "0"), { offset: 0, last: false });
  t.same(place("upload, finalize", "8388608"), { offset: 8_388_608, last: true });
  for (const offset of [undefined, "", "-1", "1e3", "0x1", "1".repeat(16)]) t.equal(place("upload", offset), undefined);
});
