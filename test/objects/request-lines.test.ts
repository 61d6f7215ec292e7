import t from "tap";
import type { BodyReferenceFinder, ObjectReference } from "../../src/objects/reference-finder.ts";
import { RequestLines } from "../../src/objects/request-lines.ts";

/** Lines of which each names the object that it consists of; `bad` cannot be read. */
const wordLines = () => {
  let opened = 0;
  const finder = (): BodyReferenceFinder => {
    let text = "";
    opened++;
    return {
      push: (bytes) => {
        text += `${bytes}`;
        return [];
      },
      end: (): ObjectReference[] => {
        if (text === "bad") throw new Error("It is bad.");
        return [{ id: text, param: "x" }];
      },
    };
  };
  const lines = new RequestLines("file", { mayRefer: (bytes) => !`${bytes}`.startsWith("skipped"), finder });
  return { lines, opened: () => opened };
};

const TEXT = Buffer.from("one\n\ntwo\none\n");

t.test("each line tells what it names, once, however the file is cut", async (t) => {
  for (let step = 1; step <= TEXT.length; step++) {
    const { lines } = wordLines();
    for (let at = 0; at < TEXT.length; at += step) lines.push(TEXT.subarray(at, at + step));
    lines.end();
    t.equal(lines.pending, 2);
    const named = lines.take().map(({ id, param }) => `${param}=${id}`);
    t.same(named, ["file.1.x=one", "file.3.x=two"]);
    t.same(lines.take(), [], "each once");
  }
});

t.test("only a line that has not ended takes memory", async (t) => {
  const { lines } = wordLines();
  for (let i = 0; i < 3; i++) {
    lines.push(Buffer.from("x".repeat(1000)));
    t.ok(lines.buffered > 1000 * (i + 1));
  }
  lines.push(Buffer.from("\n"));
  t.equal(lines.buffered, 0);
});

t.test("whole lines that name nothing are not parsed", async (t) => {
  const { lines, opened } = wordLines();
  lines.push(Buffer.from("one\nskipped\nskipped\ntwo"));
  t.equal(opened(), 2);
  lines.end();
  t.same(
    lines.take().map(({ param }) => param),
    ["file.1.x", "file.4.x"],
  );
});

t.test("of whole lines only those are parsed that may name something, wherever they are", (t) => {
  const plain = ["{}", "", "{ }".repeat(99)];
  const texts = Array.from({ length: 500 }, (_, i) => plain[i % 3] as string);
  for (const at of [1, 7, 250, 498]) texts[at] = `@${at}`;
  const parsed: string[] = [];
  const finder = (): BodyReferenceFinder => {
    let text = "";
    return {
      push: (bytes) => {
        text += `${bytes}`;
        return [];
      },
      end: () => {
        parsed.push(text);
        return [{ id: text, param: "x" }];
      },
    };
  };
  const lines = new RequestLines("file", { mayRefer: (bytes) => bytes.includes("@"), finder });
  lines.push(Buffer.from(`\n${texts.join("\n")}\n`));
  t.same(parsed, ["@1", "@7", "@250", "@498"]);
  const places = lines.take().map(({ param }) => param);
  t.same(places, ["file.3.x", "file.9.x", "file.252.x", "file.500.x"]);
  t.end();
});

t.test("a line that cannot be read, or any reason given, refuses the file from there on", async (t) => {
  const { lines } = wordLines();
  lines.push(Buffer.from("one\nbad\ntwo\n"));
  const fault = { code: "invalid_field", param: "file", message: /^Line 2 of the file cannot be checked/ };
  t.throws(() => lines.take(), fault);
  lines.push(Buffer.from("three\n"));
  t.equal(lines.pending, 0);
  t.throws(() => lines.take(), fault);
  const other = wordLines().lines;
  other.fail("Too many.");
  t.throws(() => other.take(), { message: /Line 1 .* Too many\./ });
});

t.test("a carriage return may stand at the end of a line alone, as some readers end lines there", async (t) => {
  for (const [text, message] of [
    ["one\r\ntwo\r\nthree\r", undefined],
    ["one\ntwo\r three\n", /Line 2 .*carriage return/],
    ["one\n\rtwo\n", /Line 2 /],
    ["one\r\r\n", /Line 1 /],
  ] as const)
    for (let step = 1; step <= text.length; step++) {
      const { lines } = wordLines();
      for (let at = 0; at < text.length; at += step) lines.push(Buffer.from(text.slice(at, at + step)));
      lines.end();
      if (message) t.throws(() => lines.take(), { message }, `${JSON.stringify(text)} by ${step}`);
      else t.equal(lines.take().length, 3, `${JSON.stringify(text)} by ${step}`);
    }
});
