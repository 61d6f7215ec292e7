import t from "tap";
import chat from "../../plugins/protocols/openai-chat/index.ts";
import type { VendorObjects } from "../../src/core/object-members.ts";
import { bodyReferenceFinder } from "../../src/objects/body-reference-finder.ts";
import { ReferenceFinder } from "../../src/objects/reference-finder.ts";

const VENDOR = chat.vendorObjects as VendorObjects;
const FINDERS = [new ReferenceFinder(VENDOR.bodyMembers)];
const LIMIT = 6000;

const part = (name: string, value: string, more = "") =>
  `--b\r\ncontent-disposition: form-data; name="${name}"${more}\r\n\r\n${value}\r\n`;
const purpose = (value: string, more = "") => part("purpose", value, more);
const file = (value: string) => part("file", value, '; filename="a.jsonl"');
const line = (id: string) =>
  JSON.stringify({ custom_id: "1", url: "/v1/responses", body: { input: [{ type: "input_file", file_id: id }] } });

/** What a form names, in pieces of some bytes, or the error. */
function named(parts: readonly string[], step: number): string {
  const form = Buffer.from(`${parts.join("")}--b--\r\n`);
  const finder = bodyReferenceFinder("multipart/form-data; boundary=b", FINDERS, LIMIT, "file", VENDOR.requestFiles);
  try {
    const found = [];
    for (let at = 0; at < form.length; at += step) found.push(...finder.push(form.subarray(at, at + step)));
    return [...found, ...finder.end()].map(({ id, param }) => `${param}=${id}`).join(" ");
  } catch (thrown) {
    const { code, message } = thrown as { code: string; message: string };
    return `${code}: ${message}`;
  }
}

const STEPS = [1, 7, 100, 10_000];

t.test("a batch's lines tell what they name, wherever the purpose stands and however the form is cut", async (t) => {
  const two = `${line("file-1")}\n\n${line("file-2")}\r\n${line("file-1")}`;
  const expected = "file.1.body.input.0.file_id=file-1 file.3.body.input.0.file_id=file-2";
  for (const step of STEPS) {
    for (const end of ["", "\n"]) {
      const sent = named([file(two + end), purpose(" Batch")], step);
      t.equal(sent, expected, `by ${step}`);
      t.match(named([purpose("batch"), file(two + end)], step), expected.split(" ")[1], `by ${step}`);
      t.match(named([purpose("batch-api"), file(two + end)], step), expected.split(" ")[0], `by ${step}`);
    }
    t.equal(named([purpose("batch", '; filename="x"'), file(line("file-1"))], step).endsWith("=file-1"), true);
    t.equal(named([file(line("file-1")), purpose("batch", '; filename="x"')], step).endsWith("=file-1"), true);
  }
});

t.test(
  "purpose and file are recognised in other letters, in lists and as JSON, as some servers read them",
  async (t) => {
    const found = "file.1.body.input.0.file_id=file-1";
    const other = (name: string) => part(name, line("file-1"), '; filename="a.jsonl"');
    for (const step of STEPS) {
      for (const name of ["Purpose", "purpose[]", "purpose[0]"]) {
        t.equal(named([part(name, "batch"), file(line("file-1"))], step), found, `${name} by ${step}`);
        t.match(named([part(name, "batch"), purpose("user_data"), file("")], step), /purpose occurs twice/, name);
      }
      for (const value of ['"batch"', '["batch"]', "batch\0"])
        t.equal(named([file(line("file-1")), purpose(value)], step), found, `${value} by ${step}`);
      for (const name of ["File", "file[]"])
        t.equal(named([purpose("batch"), other(name)], step), found, `${name} by ${step}`);
      t.equal(named([purpose("batch_output"), file(line("file-1"))], step), "");
    }
  },
);

t.test("a line tells what it names in a member that no list has", async (t) => {
  const own = JSON.stringify({ custom_id: "1", url: "/v1/new", body: { input: "hi", source_id: "file-1" } });
  for (const step of STEPS)
    t.equal(named([purpose("batch"), file(`{}\n${own}\n{}\n`)], step), "file.2.body.source_id=file-1", `by ${step}`);
});

t.test("what other files contain is not read", async (t) => {
  for (const step of STEPS)
    for (const value of [line("file-1"), `${line("file-1")}\nno JSON`, "\0\xff\n{}", "x".repeat(2 * LIMIT)])
      for (const parts of [
        [purpose("user_data"), file(value)],
        [file(value), purpose("fine-tune")],
        [file(value)],
        [purpose("batch"), part("other", value, '; filename="x"')],
      ])
        t.equal(named(parts, step), "", `${value.slice(0, 20)} by ${step}`);
});

t.test("a batch's line that cannot be read is refused, and so is a second purpose", async (t) => {
  for (const step of STEPS) {
    for (const [value, message] of [
      [`${line("file-1")}\nno JSON`, /^invalid_field: Line 2 /],
      [`{}\n${line("file-1").slice(0, -1)}`, /^invalid_field: Line 2 /],
      [`{}\n${Buffer.from(`${line("file-1")}\n`, "utf16le").toString("latin1")}`, /^invalid_field: Line 2 /],
      [`${line("file-1")}${line("file-2")}`, /^invalid_field: Line 1 /],
      [`${line("file-1")}\r${line("file-2")}`, /^invalid_field: Line 1 /],
      [`{"metadata":\r${line("file-1")}\r}`, /^invalid_field: Line 1 /],
      [`\ufeff${line("file-1")}`, /^invalid_field: Line 1 /],
      [`{"file_id":"file-1","file_id":null}`, /^invalid_field: Line 1 /],
      [`{}\n{"a":"${"x".repeat(LIMIT)}"}`, /^invalid_field: Line 2 .*too large/],
    ] as const) {
      t.match(named([purpose("batch"), file(value)], step), message, `by ${step}`);
      t.match(named([file(value), purpose("batch")], step), message, `by ${step}`);
    }
    t.match(named([purpose("user_data"), file(line("file-1")), purpose("batch")], step), /^invalid_form: .*twice/);
    const utf16 = "\r\ncontent-type: text/plain; charset=utf-16";
    const wide = Buffer.from("batch", "utf16le").toString("latin1");
    for (const parts of [
      [purpose(wide, utf16), file(line("file-1"))],
      [file(line("file-1")), purpose(wide, utf16)],
    ])
      t.equal(named(parts, step), 'invalid_field: The field "purpose" is in another character set.');
    const other = part("file", line("file-1"), `; filename="a.jsonl"${utf16}`);
    t.match(named([purpose("batch"), other], step), /^invalid_field: Line 1 .*character set than UTF-8/);
    t.match(named([other, purpose("batch")], step), /^invalid_field: Line 1 .*character set than UTF-8/);
    t.equal(named([other, purpose("user_data")], step), "", "a file that is not run may be in any");
  }
});

t.test("a long file is read line by line, and only what it names is kept", async (t) => {
  const finder = bodyReferenceFinder("multipart/form-data; boundary=b", FINDERS, LIMIT, "file", VENDOR.requestFiles);
  const lines = Array.from({ length: 1000 }, (_, n) => `${line(`file-${n % 7}`)}\n`).join("");
  const found = [...finder.push(Buffer.from(purpose("batch") + file(lines).slice(0, -2 - lines.length)))];
  for (let i = 0; i < 20; i++) found.push(...finder.push(Buffer.from(lines)));
  found.push(...finder.push(Buffer.from("\r\n--b--\r\n")), ...finder.end());
  t.equal(new Set(found.map(({ id }) => id)).size, 7);
  t.ok(found.length <= 7 * 22, `${found.length}`);
  const many = Array.from({ length: 50_001 }, (_, n) => `${line(`file-${n}`)}\n`).join("");
  t.match(named([file(many), purpose("batch")], 65_536), /^invalid_field: .*More than 50000 objects/);
  t.equal(named([file(many), purpose("evals")], 65_536), "");
});
