import t from "tap";
import { ResponseTextReplacer } from "../../src/core/response-text-replacer.ts";
import type { Stage } from "../../src/core/stage.ts";
import { Frame } from "../../src/wire/frame.ts";
import { dice } from "../support/dice.ts";
import { SPEAKS_TEXT, type TinyText } from "../support/speaks-text.ts";

const END = new Frame("end", Buffer.alloc(0));
const PING = new Frame("event", Buffer.from(": ping\n\n"));
const event = (...texts: TinyText[]): Frame =>
  new Frame("event", Buffer.from(`data: ${JSON.stringify({ t: texts })}\n\n`));
const piece = (d: string, p = "0", more: Partial<TinyText> = {}): TinyText => ({ k: "assistant", d, p, ...more });
const other = event();

const MASK = { pattern: /<address-\d+>/, maxLength: 20 };
const restored = (mask: string): string => `"${mask.slice(9, -1)}"@home`;
const restoring = (): Stage => new ResponseTextReplacer(SPEAKS_TEXT.texts, MASK, restored).stage;

/** What comes out behind each frame that goes in. */
function steps(stage: Stage, frames: readonly Frame[]): (readonly Frame[])[] {
  return frames.map((frame) => {
    const made = stage(frame);
    return made === undefined ? [frame] : made instanceof Frame ? [made] : made;
  });
}
const told = (frames: readonly Frame[]): string[] =>
  frames.map((frame) => (frame.json() as { t: TinyText[] })?.t?.map(({ d }) => d).join("|") ?? frame.kind);

t.test("frames that contain nothing to replace pass unchanged, at once", async (t) => {
  const frames = [event(piece("Hello ")), PING, other, event(piece("a < b, ")), event(piece("<adder>")), END];
  t.same(
    steps(restoring(), frames),
    frames.map((frame) => [frame]),
  );
});

t.test("a match within a frame is replaced, and all other bytes are kept", async (t) => {
  const frame = new Frame(
    "event",
    Buffer.from('event: x\ndata: {"n":1.0, "t":[{"k":"user","p":"0","d":"to <address-1>."}]}\n\n'),
  );
  const [[made] = []] = steps(restoring(), [frame]);
  t.equal(made?.bytes.toString(), frame.bytes.toString().replace("<address-1>", '\\"1\\"@home'));
});

t.test("a frame that ends in a possible match waits; the replacement is in the match's last frame", async (t) => {
  const frames = ["to <addr", "ess-1", "2> now"].map((text) => event(piece(text)));
  t.same(steps(restoring(), [...frames, END]).map(told), [[], ["to "], ["", '"12"@home now'], ["end"]]);
});

t.test("text that waited and is no match stays in its frame: both frames pass unchanged", async (t) => {
  const none = ["to <addr", "er> <", " "].map((text) => event(piece(text)));
  t.same(steps(restoring(), none), [[], [none[0]], none.slice(1)]);
  const json = ['{"to":"<add', "\\u0078", '","cc":"<', '"}'].map((text) =>
    event(piece(text, "0", { k: "tool_call", j: true })),
  );
  t.same(steps(restoring(), [...json, END]).flat(), [...json, END]);
  const both = ["<addr <addr", "ess-1>"].map((text) => event(piece(text)));
  t.same(told(steps(restoring(), both).flat()), ["<addr ", '"1"@home']);
});

t.test("a possible match that does not continue is released by the next frame, at its own place", async (t) => {
  const open = event(piece("a <addr"));
  for (const last of [
    other,
    END,
    event({ k: "assistant", d: "a <addr" }),
    event(piece("{", "1", { k: "tool_call", j: true })),
  ])
    t.same(steps(restoring(), [open, last]), [[], [open, last]]);
  t.same(steps(restoring(), [open, PING, END]), [[], [PING], [open, END]], "a comment is passed on at once");
});

t.test("texts of several kinds may interleave", async (t) => {
  const frames = [
    event(piece("<addr", "0")),
    event(piece("<add", "1")),
    other,
    event(piece("ess-1>", "0")),
    event(piece("ress-2>", "1")),
    END,
  ];
  const out = steps(restoring(), frames.toSpliced(2, 1)).flat();
  t.same(told(out), ["", "", '"1"@home', '"2"@home', "end"]);
  const begun = [event(piece("a", "0")), event(piece("b", "1")), event(piece("c", "0"))];
  t.same(told(steps(restoring(), [...begun, ...frames]).flat()), [
    "a",
    "b",
    "c",
    "",
    "",
    "",
    '"1"@home',
    '"2"@home',
    "end",
  ]);
});

t.test("no frame waits for more than 64 others", async (t) => {
  const stage = restoring();
  const others = Array.from({ length: 70 }, (_, i) => event(piece("x", String(i + 1))));
  const out = steps(stage, [event(piece("<addr", "0")), ...others]);
  t.same(out.slice(0, 64).flat(), []);
  t.equal(told(out.flat())[0], "<addr");
  t.equal(out.flat().length, 71);
});

t.test("many texts of one frame that are all held back lose nothing", async (t) => {
  const frame = event(...Array.from({ length: 100 }, (_, p) => piece("<", String(p))));
  t.same(steps(restoring(), [frame, END]), [[], [frame, END]]);
});

t.test("a text that a frame repeats in full is replaced in full", async (t) => {
  const frames = [event(piece("<addr")), event(piece("ess-1>")), event({ k: "assistant", d: "<address-1>" }), END];
  t.same(told(steps(restoring(), frames).flat()), ["", '"1"@home', '"1"@home', "end"]);
});

t.test("only texts of the requested kinds are replaced", async (t) => {
  const stage = new ResponseTextReplacer(SPEAKS_TEXT.texts, { ...MASK, kinds: ["assistant"] }, restored).stage;
  t.same(told(steps(stage, [event(piece("<address-1>"), piece("<address-2>", "1", { k: "reasoning" }))]).flat()), [
    '"1"@home|<address-2>',
  ]);
});

t.test("the elements of an array keep their order to its end", async (t) => {
  const element = (text: string): Frame => new Frame("element", Buffer.from(text));
  const frames = [element('[{"t":[{"k":"user","p":"0","d":"a <addr"}]}'), element("]"), END];
  const out = steps(restoring(), frames).flat();
  t.same(out, frames);
});

t.test(
  "a complete response is replaced in full, however it is split; without a match it passes unchanged",
  async (t) => {
    const answers = new ResponseTextReplacer(SPEAKS_TEXT.texts, MASK, restored);
    const whole = (text: string, step: number): readonly Frame[] => {
      const bytes = Buffer.from(text);
      const pieces: Frame[] = [];
      for (let at = 0; at < bytes.length; at += step) pieces.push(new Frame("piece", bytes.subarray(at, at + step)));
      return steps(answers.wholeStage(), [...pieces, END]).flat();
    };
    const text = '{ "t":[{"k":"assistant","d":"é <address-1>"}] }';
    for (const step of [1, 7, 100]) {
      const out = whole(text, step);
      t.equal(Buffer.concat(out.map(({ bytes }) => bytes)).toString(), text.replace("<address-1>", '\\"1\\"@home'));
      t.equal(out.at(-1), END);
    }
    t.equal(whole('{"t":[]}', 3).length, 4);
    t.equal(whole("no JSON", 3).length, 4);
  },
);

t.test("a complete response has a size limit", async (t) => {
  const stage = new ResponseTextReplacer(SPEAKS_TEXT.texts, MASK, restored).wholeStage();
  const large = new Frame("piece", Buffer.alloc(33 * 1024 * 1024));
  stage(large);
  t.throws(() => stage(large), { code: "upstream_invalid" });
});

t.test("texts split into any frames become what they become in one piece", async (t) => {
  const random = dice(11);
  const parts = ["<address-1>", "<addr", "ess-7>", "<", ">", "é ", '"', "\\", "😀", "<address-12"];
  const wrong: string[] = [];
  for (let round = 0; round < 1500; round++) {
    const names = ["0", "1", "2"].slice(0, 1 + random(3));
    const kinds = { "0": "assistant", "1": "assistant", "2": "tool_call" } as const;
    const texts = new Map(
      names.map((name) => [name, Array.from({ length: random(7) }, () => parts[random(parts.length)]).join("")]),
    );
    const json = (name: string): Partial<TinyText> => (name === "2" ? { k: "tool_call", j: true } : { k: kinds["0"] });
    const rest = new Map([...texts].map(([name, text]) => [name, name === "2" ? JSON.stringify({ a: text }) : text]));
    const frames: Frame[] = [];
    // Texts of different kinds come one after the other, those of one kind side by side.
    for (const group of [["0", "1"], ["2"]])
      for (;;) {
        const left = group.filter((name) => rest.get(name));
        if (left.length === 0) break;
        const name = left[random(left.length)] as string;
        const text = rest.get(name) as string;
        const to = 1 + random(6);
        rest.set(name, text.slice(to));
        frames.push(event(piece(text.slice(0, to), name, json(name))));
        if (random(5) === 0) frames.push(PING);
      }
    const out = steps(restoring(), [...frames, END]).flat();
    if (out.length !== frames.length + 1) wrong.push(`${frames.length} frames became ${out.length - 1}`);
    for (const [name, text] of texts) {
      const all = out.flatMap((frame) => (frame.json() as { t: TinyText[] } | undefined)?.t ?? []);
      const got = all
        .filter(({ p }) => p === name)
        .map(({ d }) => d)
        .join("");
      const expected = text.replaceAll(/<address-\d+>/g, restored);
      const found = name === "2" && got !== "" ? (JSON.parse(got) as { a: string }).a : got;
      if (found !== expected)
        wrong.push(
          `${name}: ${JSON.stringify(text)} became ${JSON.stringify(found)} in ${frames.map(({ text }) => text).join(" ")}`,
        );
    }
  }
  t.same(wrong.slice(0, 5), []);
});
