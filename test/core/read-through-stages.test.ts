import t from "tap";
import { splitReceived } from "../../src/core/answer-frames.ts";
import type { Head } from "../../src/core/head.ts";
import { readThroughStages } from "../../src/core/read-through-stages.ts";
import { runStages, type Stage } from "../../src/core/stage.ts";
import { Frame } from "../../src/wire/frame.ts";
import { HeaderList } from "../../src/wire/headers.ts";

const END = new Frame("end", Buffer.alloc(0));
const headOf = (text: string, more: Partial<Head> = {}): Head =>
  ({ ...more, readBody: async () => Buffer.from(text) }) as unknown as Head;
const whole = async (head: Head): Promise<string> => String(await head.readBody?.(100));

t.test("a response that is read completely has passed the stages so far, each of which sees it once", async (t) => {
  const texts = {
    sse: ["data: 1\n\ndata: 2\n\n", "data: 10\n\ndata: 20\n\n"],
    array: ["[1,2]", "[10,20]"],
    none: ["12", "120"],
  } as const;
  for (const [framing, [before, after]] of Object.entries(texts)) {
    let seen = 0;
    const stages: Stage[] = [];
    const head = headOf(before, framing === "none" ? {} : { framing: framing as "sse" | "array" });
    readThroughStages(head, stages);
    stages.push((frame) => {
      seen++;
      return frame.kind === "end"
        ? frame
        : new Frame(frame.kind, Buffer.from(frame.bytes.toString().replace(/\d(?!\d)/, "$&0")));
    });
    t.equal(await whole(head), after, framing);
    const calls = seen;
    const out: Frame[] = [];
    for (const frame of [new Frame("piece", Buffer.from(before)), END]) runStages(stages, frame, out);
    t.equal(Buffer.concat(out.map(({ bytes }) => bytes)).toString(), after, "and it is passed on to the next stages");
    t.equal(out.at(-1)?.kind, "end");
    t.equal(seen, calls);
  }
});

t.test("a plugin further up reads the result of more stages", async (t) => {
  const stages: Stage[] = [];
  const head = headOf("a");
  readThroughStages(head, stages);
  const adding =
    (text: string): Stage =>
    (frame) =>
      frame.kind === "end" ? [new Frame("piece", Buffer.from(text)), frame] : frame;
  stages.push(adding("b"));
  t.equal(await whole(head), "ab");
  stages.push(adding("c"));
  t.equal(await whole(head), "abc");
  t.equal(await whole(head), "abc");
});

t.test("a translated response is split by its original framing", async (t) => {
  const kinds: string[] = [];
  const stages: Stage[] = [];
  const head = headOf("data: 1\n\n", { translated: { framing: "sse" } } as Partial<Head>);
  readThroughStages(head, stages);
  stages.push((frame) => void kinds.push(frame.kind));
  await whole(head);
  t.same(kinds, ["event", "end"]);
});

t.test("an empty response has only an end, and one that cannot be read completely stays so", async (t) => {
  const kinds: string[] = [];
  const stages: Stage[] = [];
  const head = headOf("");
  readThroughStages(head, stages);
  stages.push((frame) => void kinds.push(frame.kind));
  t.equal(await whole(head), "");
  t.same(kinds, ["end"]);
  const bare = {} as Head;
  readThroughStages(bare, []);
  t.equal(bare.readBody, undefined);
});

t.test("of a response that breaks off the stages see what arrived, once, and its error is reported", async (t) => {
  for (const [framing, text, kinds] of [
    ["sse", "data: 1\n\ndata: 2\n\ndata: 3", ["event", "event"]],
    ["array", "[1,2", ["element"]],
    [undefined, '{"a":"b', ["piece"]],
    [undefined, "", []],
  ] as const) {
    const seen: string[] = [];
    const stages: Stage[] = [];
    const head = { ...(framing && { framing }), readBody: () => Promise.reject(new Error("left")) } as unknown as Head;
    head.received = () => splitReceived(Buffer.from(text), framing);
    readThroughStages(head, stages);
    stages.push((frame) => void seen.push(frame.kind));
    stages.push(() => {
      if (seen.length === kinds.length) throw new Error("a stage that cannot go on");
    });
    const reading = head.readBody?.(100);
    // A plugin may await it later than it fails.
    await new Promise((later) => setTimeout(later, 1));
    await t.rejects(Promise.resolve(reading), { message: "left" });
    await t.rejects(whole(head), { message: "left" });
    t.same(seen, kinds);
  }
});

t.test("other work gets turns while a response of many frames passes through the stages", async (t) => {
  const frames = 20_000;
  const bytes = Buffer.from("data: 1\n\n".repeat(frames));
  for (const readBody of [async () => bytes, () => Promise.reject(new Error("left"))]) {
    let turns = 0;
    let seen = 0;
    let isReading: boolean | undefined;
    const head: Head = { status: 200, headers: new HeaderList(), framing: "sse", readBody };
    head.received = () => splitReceived(bytes, "sse");
    const stages: Stage[] = [];
    readThroughStages(head, stages);
    stages.push(() => {
      isReading = head.isReading;
      if (seen++ === 0)
        setImmediate(function count() {
          turns++;
          if (seen < frames) setImmediate(count);
        });
    });
    const read = await head.readBody?.(1e9).catch(() => undefined);
    t.ok(turns >= 4, `${turns} turns`);
    t.ok(seen >= frames);
    if (read) t.same(read, bytes);
    if (read) t.equal(isReading, true, "this is not the plugin's time");
    t.notOk(head.isReading);
  }
});

t.test(
  "where a stage fails meanwhile, the response ends with its error, and no stage sees the response again",
  async (t) => {
    let seen = 0;
    const stages: Stage[] = [];
    const head = headOf("a");
    readThroughStages(head, stages);
    stages.push(() => {
      seen++;
      throw new Error("no");
    });
    await t.rejects(whole(head), { message: "no" });
    t.throws(() => runStages(stages, new Frame("piece", Buffer.from("a")), []), { message: "no" });
    t.equal(seen, 1);
  },
);
