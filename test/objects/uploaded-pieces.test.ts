import { createHash } from "node:crypto";
import t from "tap";
import type { ObjectReference } from "../../src/objects/reference-finder.ts";
import { RequestLines } from "../../src/objects/request-lines.ts";
import { PieceReader, UnfinishedUploads } from "../../src/objects/uploaded-pieces.ts";

/** Lines of which each names the object that it consists of. */
const wordLines = () =>
  new RequestLines("file", {
    mayRefer: () => true,
    finder: () => {
      let text = "";
      return {
        push: (bytes) => {
          text += `${bytes}`;
          return [];
        },
        end: () => (text === "" ? [] : [{ id: text, param: undefined }]),
      };
    },
  });
const sha256 = (text: string) => createHash("sha256").update(text).digest("hex");
const session = (id: string, key = "mine") => ({ provider: "up", key, id });

/** Sends a piece; returns its reader. */
async function send(
  uploads: UnfinishedUploads,
  to: ReturnType<typeof session>,
  text: string,
  piece: { offset: number; last: boolean },
  admit: (named: readonly ObjectReference[]) => void | Promise<void> = () => {},
) {
  const reader = new PieceReader(uploads, to, piece, wordLines, admit);
  for (const letter of text) await reader.push(Buffer.from(letter));
  await reader.end();
  return reader;
}

t.test("a file in pieces is read as one", async (t) => {
  for (const text of ["own\nmine\n", "own\nmine"])
    for (let cut = 0; cut <= text.length; cut++) {
      const uploads = new UnfinishedUploads();
      const named: string[] = [];
      const admit = (found: readonly ObjectReference[]) => void named.push(...found.map(({ id }) => id));
      const first = await send(uploads, session("s"), text.slice(0, cut), { offset: 0, last: false }, admit);
      t.notOk(first.hasRead(sha256(text.slice(0, cut))), "it is not whole");
      const last = await send(uploads, session("s"), text.slice(cut), { offset: cut, last: true }, admit);
      t.ok(last.hasRead(sha256(text)), `${cut}`);
      t.same(named, ["own", "mine"]);
      t.notOk(last.hasRead(sha256(`${text} `)), "the vendor has other bytes");
    }
});

t.test("a file is not read where a line is refused, at once or later, and its upload goes on", async (t) => {
  for (const later of [false, true]) {
    const refuse = (found: readonly ObjectReference[]) => {
      if (!found.some(({ id }) => id === "theirs")) return;
      if (later) return Promise.reject(new Error("not yours"));
      throw new Error("not yours");
    };
    for (const [text, is] of [
      ["own\n", true],
      ["own\ntheirs\nown\n", false],
      ["own\ntheirs", false],
    ] as const)
      for (let cut = 0; cut <= text.length; cut++) {
        const uploads = new UnfinishedUploads();
        await send(uploads, session("s"), text.slice(0, cut), { offset: 0, last: false }, refuse);
        const last = await send(uploads, session("s"), text.slice(cut), { offset: cut, last: true }, refuse);
        t.equal(last.hasRead(sha256(text)), is, `${JSON.stringify(text)} ${cut} ${later}`);
      }
  }
});

t.test("an answer that comes before the lines are judged makes no file a read one", async (t) => {
  const text = "theirs\n";
  const { promise, reject } = Promise.withResolvers<void>();
  const reader = new PieceReader(
    new UnfinishedUploads(),
    session("s"),
    { offset: 0, last: true },
    wordLines,
    () => promise,
  );
  const judged = reader.push(Buffer.from(text));
  t.notOk(reader.hasRead(sha256(text)));
  reject(new Error("not yours"));
  await judged;
  t.notOk(reader.hasRead(sha256(text)));
});

t.test("a last piece without bytes ends a file", async (t) => {
  for (const [text, admit, is] of [
    ["own\n", () => {}, true],
    ["own", () => {}, true],
    ["own", () => Promise.resolve(), false],
  ] as const) {
    const uploads = new UnfinishedUploads();
    await send(uploads, session("s"), text, { offset: 0, last: false }, admit);
    const last = new PieceReader(uploads, session("s"), { offset: text.length, last: true }, wordLines, admit);
    t.equal(last.hasRead(sha256(text)), is, text);
  }
});

t.test("a piece continues only what its key has begun and where that ended", async (t) => {
  for (const [to, offset, is] of [
    [session("s"), 4, true],
    [session("s"), 3, false],
    [session("s", "theirs"), 4, false],
    [session("other"), 4, false],
  ] as const) {
    const uploads = new UnfinishedUploads();
    await send(uploads, session("s"), "own\n", { offset: 0, last: false });
    const last = await send(uploads, to, "own\n", { offset, last: true });
    t.equal(last.hasRead(sha256("own\nown\n")), is, `${to.key} ${to.id} ${offset}`);
    const again = await send(uploads, to, "own\n", { offset, last: true });
    t.notOk(again.hasRead(sha256("own\nown\n")), "a second time");
  }
  const unplaced = new PieceReader(new UnfinishedUploads(), session("s"), undefined, wordLines, () => {});
  unplaced.push(Buffer.from("own\n"));
  unplaced.end();
  t.notOk(unplaced.hasRead(sha256("own\n")));
});

t.test("memory for unfinished uploads is bounded, and a key takes none of others'", async (t) => {
  const uploads = new UnfinishedUploads();
  await send(uploads, session("first"), "own", { offset: 0, last: false });
  const MIB = 1024 * 1024;
  for (let i = 0; i < 40; i++) {
    const reader = new PieceReader(uploads, session(`${i}`, "greedy"), { offset: 0, last: false }, wordLines, () => {});
    reader.push(Buffer.alloc(MIB, "x"));
    reader.end();
  }
  const kept = Array.from({ length: 40 }, (_, i) => uploads.take(session(`${i}`, "greedy")));
  t.equal(kept.filter((each) => each !== undefined).length, 15);
  t.ok(kept.at(-1), "the newest");
  t.ok(uploads.take(session("first")), "of another key");
  for (let i = 0; i < 100; i++) {
    const reader = new PieceReader(uploads, session("s", `key${i}`), { offset: 0, last: false }, wordLines, () => {});
    reader.push(Buffer.alloc(MIB, "x"));
    reader.end();
  }
  const all = Array.from({ length: 100 }, (_, i) => uploads.take(session("s", `key${i}`)));
  t.equal(all.filter((each) => each !== undefined).length, 60);
});
