import t from "tap";
import chat from "../../plugins/protocols/openai-chat/index.ts";
import type { VendorObjects } from "../../src/core/object-members.ts";
import { bodyReferenceFinder } from "../../src/objects/body-reference-finder.ts";
import { ReferenceFinder } from "../../src/objects/reference-finder.ts";

const NAMING = [new ReferenceFinder((chat.vendorObjects as VendorObjects).bodyMembers)];

const LIMIT = 6000;

/** What a body names, in pieces of some bytes, or the code of its refusal. */
function named(type: string, text: string, step: number, allowed?: "json" | "any" | "piece"): string {
  try {
    const body = bodyReferenceFinder(type, NAMING, LIMIT, allowed);
    const found = [];
    for (let at = 0; at < text.length; at += step)
      found.push(...body.push(Buffer.from(text.slice(at, at + step), "latin1")));
    return [...found, ...body.end()].map(({ id, param }) => `${param}=${id}`).join(" ");
  } catch (thrown) {
    return String((thrown as { code?: string }).code);
  }
}

t.test(
  "the objects that a pass-through body names are found, however it is split and whatever its content type",
  async (t) => {
    const form = (head: string, value: string) =>
      `--b\r\ncontent-disposition: form-data; ${head}\r\n\r\n${value}\r\n--b--`;
    const json = '{"input_file_id":"file-1"}';
    for (const [type, text, expected] of [
      ["application/json", json, "input_file_id=file-1"],
      ["", `  \n${json}`, "input_file_id=file-1"],
      ["application/json", `[${json}]`, "0.input_file_id=file-1"],
      ["application/json", "\xef\xbb\xbf{}", "invalid_json"],
      ["application/json", "\0{\0}", "invalid_json"],
      ["application/json", `{"a":"${"x".repeat(LIMIT)}"}`, "body_too_large"],
      ["text/plain", " ".repeat(5000), "invalid_json"],
      ["image/x", "\0".repeat(5000) + json, ""],
      ["text/csv", "file-1", ""],
      ["application/ssml+xml", "<speak/>", ""],
      ["application/octet-stream", json, "input_file_id=file-1"],
      ["application/octet-stream", `${json}\n${json}`, "input_file_id=file-1"],
      ["application/octet-stream", `${json} x`, "input_file_id=file-1"],
      ["application/octet-stream", `{"a":1,"a":2,${json.slice(1)}`, "invalid_json"],
      ["application/octet-stream", `{"a":${"[".repeat(600)}${"]".repeat(600)},${json.slice(1)}`, "invalid_json"],
      ["image/png", `${json}\0`, "input_file_id=file-1"],
      ["text/csv", `${json.slice(0, -1)} x`, ""],
      ["application/json", '{"Input_File_Id":"file-1"}', "Input_File_Id=file-1"],
      ["application/json", '{"VOICE":{"id":"voice_1"}}', "VOICE.id=voice_1"],
      ["application/json", '{"\\u017fkill_id":"s_1"}', "\u017fkill_id=s_1"],
      ["multipart/form-data; boundary=b", form('name="s\xe2\x84\xaaill_id"', "s_1"), "s\u212aill_id=s_1"],
      ["application/octet-stream", `{"a":"${"x".repeat(LIMIT)}"}`, "body_too_large"],
      ["application/x-www-form-urlencoded", "file_id=file-1", "unsupported_media_type"],
      ["application/x-www-form-urlencoded", json, "input_file_id=file-1"],
      ["application/x-www-form-urlencoded", '["&input_file_id=file-1&"]', "unsupported_media_type"],
      ["application/x-www-form-urlencoded", ' {"a=b":1}', "unsupported_media_type"],
      ["multipart/form-data; boundary=b", form('name="file_id"', "file-1"), "file_id=file-1"],
      ["multipart/form-data; boundary=b", form('name="a[0].container[id]"', "cntr_1"), "a[0].container[id]=cntr_1"],
      ["multipart/form-data; boundary=b", form('name="container[type]"', "auto"), ""],
      ["multipart/form-data; boundary=b", form('name="file_id"; filename="x"', "file-1"), ""],
      ["multipart/form-data; boundary=b", form('name="file_id"', "x".repeat(200)), "invalid_field"],
      ...["file_id", "input_reference", 'session"; filename="x'].map(
        (name) =>
          [
            "multipart/form-data; boundary=b",
            form(`name="${name}"\r\ncontent-type: application/json; charset=utf-16`, "file-1"),
            "invalid_field",
          ] as const,
      ),
      [
        "multipart/form-data; boundary=b",
        form('name="file"; filename="x"\r\ncontent-type: text/plain; charset=utf-16', "file-1"),
        "",
      ],
      ["multipart/form-data; boundary=b", json, "invalid_form"],
      ["multipart/form-data; boundary=b; boundary=c", json, "unsupported_media_type"],
    ] as const)
      for (const step of [1, 5, 10_000])
        t.equal(named(type, text, step), expected, `${type} ${text.slice(0, 60)} by ${step}`);
  },
);

t.test("a file that is JSON to some parsers only is refused, however it is split", async (t) => {
  const json = '{"input_file_id":"file-1"}';
  const wide = (text: string, before: string, after: string) => [...text].map((each) => before + each + after).join("");
  for (const bytes of [0, 8, 5200])
    for (const step of [1, 5, 10_000])
      for (const [mark, before, after] of [
        ["\xef\xbb\xbf", "", ""],
        ["\xff\xfe", "", "\0"],
        ["\xfe\xff", "\0", ""],
        ["\xff\xfe\0\0", "", "\0\0\0"],
        ["\0\0\xfe\xff", "\0\0\0", ""],
      ] as const)
        for (const start of before + after === "" ? [mark] : [mark, ""]) {
          const blank = " ".repeat(bytes / (1 + before.length + after.length));
          const text = start + wide(blank + json, before, after);
          const about = `${JSON.stringify(text.slice(0, 20))} after ${bytes} by ${step}`;
          t.equal(named("audio/wav", text, step), "invalid_json", about);
          t.equal(named("audio/wav", text, step, "piece"), "", about);
        }
  t.equal(named("audio/wav", " ".repeat(5000) + json, 5), "invalid_json", "white space");
  for (const text of ["\0".repeat(5000) + json, "\xff\xfe\0{", "\xef\xbb\xbfa,b", `${json.slice(0, -1)} x`])
    for (const step of [1, 5, 10_000]) t.equal(named("audio/wav", text, step), "", JSON.stringify(text.slice(0, 20)));
});

t.test("a body that is neither JSON, a form nor a file is refused, as its vendor may read JSON in it", async (t) => {
  const json = '{"input_file_id":"file-1"}';
  for (const type of ["", "application/json", "text/plain", "text/json", "*/*", "multipart/mixed; boundary=b"])
    for (const step of [1, 5, 10_000]) {
      t.equal(named(type, json, step), "input_file_id=file-1", type);
      for (const text of [`/* Words. */ ${json}`, `)]}'\n${json}`, `\xa0${json}`, "+AHs-", "--b\r\n", "file-1", "7"])
        t.equal(named(type, text, step), "unsupported_media_type", `${type} ${text}`);
      t.equal(named(type, "file-1", step, "any"), "", `${type} where anything may be sent`);
      t.equal(named(type, "", step), "", type);
    }
});

t.test("a piece of an upload may have the content type that curl gives to all bodies", async (t) => {
  for (const text of ["%PDF-1.7 a=b", "[a=b]", '{"a=b":1}'])
    for (const step of [1, 5, 10_000])
      t.equal(named("application/x-www-form-urlencoded", text, step, "piece"), "", text);
});

t.test("where anything may be sent, a URL-encoded form is read as JSON if it is", async (t) => {
  const type = "application/x-www-form-urlencoded";
  for (const [text, expected] of [
    ["a=b", ""],
    ['{"input_file_id":"file-1","a":"="}', "input_file_id=file-1"],
  ] as const)
    for (const step of [1, 5, 10_000]) t.equal(named(type, text, step, "any"), expected, text);
});

t.test("JSON in a character set in which names may be others is refused", async (t) => {
  const json = '{"input+AF8-file+AF8-id":"file-1"}';
  for (const charset of ["utf-7", '"UTF-7"', " utf-7", "utf-8x", "utf-8;charset=utf-7"])
    for (const type of [`application/json; charset=${charset}`, `text/csv;charset=${charset}; header=present`])
      for (const allowed of [undefined, "json", "any"] as const)
        t.equal(named(type, json, 5, allowed), "unsupported_media_type", `${type} ${allowed}`);
  for (const charset of ["utf-8", '"UTF8"', "us-ascii", "utf-8; x=y"])
    t.equal(named(`application/json; charset=${charset}`, '{"input_file_id":"file-1"}', 5), "input_file_id=file-1");
});

t.test("where files are uploaded elsewhere a body is JSON or a form, whatever its type", async (t) => {
  const json = '{"input_file_id":"file-1"}';
  for (const type of ["application/json", "application/x-protobuf", "audio/wav", "multipart/mixed; boundary=b", ""])
    for (const step of [1, 5, 10_000]) {
      t.equal(named(type, json, step, "json"), "input_file_id=file-1", type);
      t.equal(named(type, "J\x14cachedContents/erin12", step, "json"), "unsupported_media_type", type);
      t.equal(named(type, `\xef\xbb\xbf${json}`, step, "json"), "invalid_json", type);
      const spaced = named(type, " ".repeat(5000) + json, step, "json");
      t.equal(spaced, step < 5000 ? "invalid_json" : "input_file_id=file-1", type);
      t.equal(named(type, "", step, "json"), "", type);
    }
  t.equal(named("multipart/form-data; boundary=b", "--b\r\n\r\n--b--", 5, "json"), "invalid_form");
});
