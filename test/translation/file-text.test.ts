import t from "tap";
import type { Media, Part } from "../../src/translation/conversation.ts";
import { rewriteTextFiles } from "../../src/translation/file-text.ts";
import { runAtOnce } from "../../src/translation/steps.ts";

const file = (bytes: Buffer | string, mime?: string, more: Partial<Media> = {}): Media => ({
  ...{ kind: "media", at: "x", media: "file", source: { base64: Buffer.from(bytes).toString("base64") } },
  ...(mime === undefined ? {} : { mime }),
  ...more,
});
const latin = Buffer.from("t\xe4xt", "latin1");

/** Returns type and text of a file once its conversation has been rewritten. */
function rewritten(part: Media, around: (part: Media) => Part = (same) => same): [string | undefined, string] {
  const turns = [{ role: "user" as const, at: "", parts: [around(part)] }];
  runAtOnce(rewriteTextFiles({ protocol: "p", task: "generate", stream: false, turns, tools: [], uses: [] }));
  return [part.mime, "base64" in part.source ? Buffer.from(part.source.base64, "base64").toString() : "none"];
}

t.test("a text file in a character set that its type names becomes UTF-8, also in a tool's result", async (t) => {
  for (const [part, mime] of [
    [file(latin, "text/plain; charset=iso-8859-1"), "text/plain"],
    [file(latin, 'text/csv;header=present; Charset="windows-1252"'), "text/csv"],
    [file(Buffer.from("täxt", "utf16le"), "text/markdown;charset=UTF-16LE"), "text/markdown"],
  ] as const)
    t.same(rewritten(part), [mime, "täxt"]);
  const result = (part: Media): Part => ({ kind: "tool_result", callId: "c", at: "", parts: [part] });
  t.same(rewritten(file(latin, "text/plain; charset=latin1"), result), ["text/plain", "täxt"]);
});

t.test("any other file stays as it is", async (t) => {
  for (const part of [
    file("täxt", "text/plain"),
    file("täxt", "text/plain; charset=utf-8"),
    file(latin, "text/plain; charset=unheard-of"),
    file(Buffer.from([0xd8, 0xd8, 0xd8]), "text/plain; charset=utf-16le"),
    file(latin, "application/pdf; charset=latin1"),
    file(latin),
    file(latin, "text/plain; charset=latin1", { media: "image" }),
    file(latin, "text/plain; charset=latin1", { source: { url: "https://a/b.txt" } }),
  ]) {
    const before = structuredClone(part);
    rewritten(part);
    t.same(part, before);
  }
});

t.test("a long text is rewritten in many turns, also where a character is cut", async (t) => {
  // After one letter, each piece ends within a surrogate pair.
  const long = `x${"😀".repeat(200_000)}`;
  const part = file(Buffer.from(long, "utf16le"), "text/plain;charset=utf-16le");
  const turns = [{ role: "user" as const, at: "", parts: [part] }];
  const steps = rewriteTextFiles({ protocol: "p", task: "generate", stream: false, turns, tools: [], uses: [] });
  let count = 1;
  while (!steps.next().done) count++;
  t.equal(count, 4);
  t.equal("base64" in part.source && Buffer.from(part.source.base64, "base64").toString(), long);
  const broken = file(Buffer.concat([Buffer.alloc(300_000, "a"), Buffer.from([0xd8])]), "text/plain;charset=euc-jp");
  t.match(rewritten(broken), ["text/plain;charset=euc-jp", /^a{300000}/], "it stays as it is");
});
