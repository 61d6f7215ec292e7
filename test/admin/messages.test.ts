import { Readable } from "node:stream";
import t from "tap";
import { readJsonBody } from "../../src/admin/messages.ts";

const sent = (text: string, type?: string) =>
  Object.assign(Readable.from(text === "" ? [] : [Buffer.from(text)]), { headers: { "content-type": type } }) as never;

t.test("a body must be a JSON object with its content type, or absent", async (t) => {
  t.same(await readJsonBody(sent("")), {});
  t.same(await readJsonBody(sent('{"a":1}', "application/json; charset=utf-8")), { a: 1 });
  await t.rejects(readJsonBody(sent('{"a":1}', "text/plain")), { code: "bad_request" });
  await t.rejects(readJsonBody(sent("[1]", "application/json")), { code: "bad_request" });
  await t.rejects(readJsonBody(sent("{", "application/json")), { code: "bad_request" });
  await t.rejects(readJsonBody(sent(`"${"x".repeat(70_000)}"`, "application/json")), { code: "too_large" });
});
