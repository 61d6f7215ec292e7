import t from "tap";
import chat from "../../plugins/protocols/openai-chat/index.ts";
import { GatewayError } from "../../src/core/errors.ts";
import type { RequestFiles, VendorObjects } from "../../src/core/object-members.ts";
import { bodyReferenceFinder } from "../../src/objects/body-reference-finder.ts";
import { ReferenceFinder } from "../../src/objects/reference-finder.ts";

const { bodyMembers, requestFiles } = chat.vendorObjects as VendorObjects;
const FINDERS = [new ReferenceFinder(bodyMembers)];
const LIMIT = 4 << 20;

/** Returns what a form with one part names, in pieces of some bytes, or the code and field of its refusal. */
function named(head: string, value: string, step: number): string {
  const form = `--b\r\ncontent-disposition: form-data; ${head}\r\n\r\n${value}\r\n--b--`;
  try {
    const body = bodyReferenceFinder(
      "multipart/form-data; boundary=b",
      FINDERS,
      LIMIT,
      "file",
      requestFiles as RequestFiles,
    );
    const found = [];
    for (let at = 0; at < form.length; at += step) found.push(...body.push(Buffer.from(form.slice(at, at + step))));
    return [...found, ...body.end()].map(({ id, param }) => `${param}=${id}`).join(" ");
  } catch (thrown) {
    const { code, param } = GatewayError.from(thrown);
    return `${code} ${param}`;
  }
}

const JSON_PART = 'filename="blob"\r\ncontent-type: application/json';

t.test("objects in the value of a form's field are found, however the form is split", async (t) => {
  for (const [head, value, expected] of [
    ['name="input_reference"', '{"file_id":"file-abc1"}', "input_reference.file_id=file-abc1"],
    ['name="input_reference"', ' \n{"File_Id":"file-abc1"}', "input_reference.File_Id=file-abc1"],
    ['name="a"', '[{"b":{"file\\u005fid":"file-abc1"}}]', "a.0.b.file_id=file-abc1"],
    ['name="session"', '{"prompt":{"id":"pmpt_1"},"tools":[]}', "session.prompt.id=pmpt_1"],
    ['name="session"\r\ncontent-type: application/sdp+json', '{"file_id":"file-abc1"}', "session.file_id=file-abc1"],
    [`name="session"; ${JSON_PART}`, '{"file_id":"file-abc1"}', "session.file_id=file-abc1"],
    ['name="other_id"', "file-abc1", "other_id=file-abc1"],
    ['name="prompt"', "[music] file_id file-abc1", ""],
    ['name="prompt"', "{ says she", ""],
    ['name="language"', "en", ""],
    ['name="image"; filename="a.json"', '{"file_id":"file-abc1"}', ""],
    [`name="file"; ${JSON_PART}`, '{"file_id":"file-abc1"}', ""],
    [`name="files[]"; ${JSON_PART}`, '{"file_id":"file-abc1"}', ""],
    ['name="session"', '{"file_id":"file-abc1","file_id":"file-abc2"}', "invalid_field session"],
  ] as const)
    for (const step of [1, 7, 10_000]) t.equal(named(head, value, step), expected, `${head} ${value} by ${step}`);
});

t.test("a field with more JSON than is buffered is refused, and a longer text of any other kind is not", async (t) => {
  const text = "x".repeat(600 * 1024);
  t.equal(named('name="session"', `{"a":"${text}","file_id":"file-abc1"}`, 65_536), "invalid_field session");
  for (const step of [65_536, 1_000_000]) {
    t.equal(named('name="prompt"', text, step), "");
    t.equal(named('name="prompt"', `[music] ${text}`, step), "");
  }
});
