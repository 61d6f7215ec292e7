import t from "tap";
import type { Conversation, Part, Reasoning, Tool, Turn } from "../../src/translation/conversation.ts";
import type { Opaque } from "../../src/translation/events.ts";
import { TextKey } from "../../src/translation/ids.ts";
import { keepReadable, placeState } from "../../src/translation/opaque-state.ts";
import { runLinear } from "../support/linear-work.ts";

const assistant = (...parts: Part[]): Turn => ({ role: "assistant", parts, at: "a" });
const user = (...parts: Part[]): Turn => ({ role: "user", parts, at: "u" });
const text = (text: string): Part => ({ kind: "text", text, at: "t" });
const call = (id: string): Part => ({ kind: "tool_call", id, name: "f", arguments: "", at: "c" });
const opaque = (data: string, more: Partial<Opaque> = {}): Opaque => ({
  protocol: "p",
  account: "one",
  kind: "sig",
  data,
  ...more,
});
const carrying = (data: string, on?: Opaque["on"]): Reasoning => ({
  kind: "reasoning",
  redacted: true,
  at: "r",
  opaque: opaque(data, on === undefined ? {} : { on }),
});
const talk = (turns: Turn[], tools: Tool[] = []): Conversation => ({
  protocol: "c",
  task: "generate",
  stream: false,
  turns,
  tools,
  uses: [],
});

function placed(...turns: Turn[]): Part[][] {
  const conversation = talk(turns);
  placeState(conversation);
  return conversation.turns.map(({ parts }) => parts);
}

t.test("state of a call is returned on it, in whatever turn it comes", async (t) => {
  const expected = { ...call("b"), opaque: opaque("x") };
  t.same(placed(assistant(carrying("x", { call: "b" }), call("a"), call("b"))), [[call("a"), expected]]);
  t.same(placed(assistant(carrying("x", { call: "b" })), assistant(call("b"))), [[expected]]);
});

t.test("the first state for a call counts, and state for a missing call is removed", async (t) => {
  t.same(placed(assistant(carrying("x", { call: "b" }), carrying("y", { call: "b" }), call("b"))), [
    [{ ...call("b"), opaque: opaque("x") }],
  ]);
  t.same(placed(assistant(carrying("x", { call: "gone" }), text("hi"))), [[text("hi")]]);
});

t.test("thoughts that hold a call's state stay in place, with their origin as theirs", async (t) => {
  const thoughts: Reasoning = { kind: "reasoning", summary: ["Hm."], at: "r" };
  const unsigned: Opaque = { protocol: "p", account: "one", kind: "unsigned", data: "" };
  t.same(placed(assistant({ ...thoughts, opaque: opaque("x", { on: { call: "b" } }) }, call("b"))), [
    [
      { ...thoughts, opaque: unsigned },
      { ...call("b"), opaque: opaque("x") },
    ],
  ]);
});

t.test("state of media is returned on it by its bytes, wherever the client put it", async (t) => {
  const media = (base64: string, more: object = {}): Part => ({
    kind: "media",
    media: "image",
    source: { base64 },
    at: "m",
    ...more,
  });
  const key = TextKey.ofMedia("aGk=");
  const expected = media("aGk=", { opaque: opaque("x") });
  t.same(placed(assistant(carrying("x", { media: key }), media("AAAA"), media("aGk="))), [[media("AAAA"), expected]]);
  t.same(placed(assistant(media("aGk=")), assistant(carrying("x", { media: key }))), [[expected]]);
  t.same(placed(assistant(carrying("x", { media: key })), user(media("aGk="))), [[media("aGk=")]]);
});

t.test("state of a text is returned on the text that follows it", async (t) => {
  t.same(placed(assistant(text("one"), carrying("x", "text"), text("two"))), [
    [text("one"), { ...text("two"), opaque: opaque("x") }],
  ]);
  t.same(placed(assistant(carrying("x", "text")), assistant(text("hi"))), [[{ ...text("hi"), opaque: opaque("x") }]]);
});

t.test("state of reasoning is returned to it, before the texts that precede the state", async (t) => {
  const state = carrying("x", "reasoning");
  const thought: Reasoning = { kind: "reasoning", text: "Hm.", at: "r" };
  t.same(placed(assistant(text("a"), text("b"), state, call("c"))), [[carrying("x"), text("a"), text("b"), call("c")]]);
  t.same(placed(assistant(thought, text("a"), state, call("c"))), [
    [{ ...thought, opaque: opaque("x") }, text("a"), call("c")],
  ]);
  t.same(
    placed(assistant(call("c"), text("a"), state)),
    [[call("c"), carrying("x"), text("a")]],
    "not before the call of an earlier step",
  );
  t.same(placed(assistant(text("a"), state, carrying("y"), call("c"))), [
    [carrying("x"), text("a"), carrying("y"), call("c")],
  ]);
});

t.test("where no text follows it was on an empty one", async (t) => {
  const empty = (data: string) => ({ kind: "text", text: "", opaque: opaque(data), at: "r" });
  t.same(placed(assistant(text("one"), carrying("x", "text"))), [[text("one"), empty("x")]]);
  t.same(placed(assistant(carrying("x", "text"), call("a"), text("b"))), [[empty("x"), call("a"), text("b")]]);
  t.same(placed(assistant(carrying("x", "text")), user(text("u"))), [[empty("x")], [text("u")]]);
  t.same(placed(assistant(carrying("x", "text"), carrying("y", "text"), text("b"))), [
    [empty("x"), { ...text("b"), opaque: opaque("y") }],
  ]);
});

t.test("a client may repeat state any number of times: placing it takes linear time", async (t) => {
  const many = (make: () => Part): Part[] => Array.from({ length: 200_000 }, make);
  const onText = opaque("x");
  runLinear(() => {
    const [parts] = placed({ ...assistant(), parts: [...many(() => carrying("x", "text")), text("hi")] });
    t.equal(parts?.length, 200_000);
    t.match(parts?.slice(-2), [
      { text: "", opaque: onText },
      { text: "hi", opaque: onText },
    ]);
  });
  runLinear(() => {
    const states = many(() => carrying("x", "reasoning"));
    const [parts] = placed({ ...assistant(), parts: [...many(() => text("hi")), ...states] });
    t.equal(parts?.length, 400_000);
    t.same(parts?.slice(199_999, 200_001), [carrying("x"), text("hi")]);
  });
});

t.test("reasoning with its own state stays in place", async (t) => {
  const parts = [carrying("x"), text("a")];
  t.same(placed(assistant(...parts)), [parts]);
});

function read(turns: Turn[], tools: Tool[] = []) {
  const notes: string[] = [];
  const { turns: left, tools: kept } = keepReadable(
    talk(turns, tools),
    { protocol: "p", account: "one" },
    ({ data }, path) => notes.push(`${data} at ${path}`),
  );
  return { parts: left.map(({ parts }) => parts), tools: kept, notes };
}

t.test("state of the same account stays, and so does what the vendor made without the gateway", async (t) => {
  const parts = [
    carrying("x"),
    { ...call("a"), opaque: opaque("y") } as Part,
    { ...text(""), opaque: { protocol: "p", kind: "sig", data: "z" } } as Part,
  ];
  t.same(read([assistant(...parts)]), { parts: [parts], tools: [], notes: [] });
});

t.test(
  "state of another account or protocol is removed: reasoning completely, from a call and a text alone",
  async (t) => {
    for (const foreign of [{ account: "two" }, { protocol: "q" }]) {
      const state = opaque("x", foreign);
      const { parts, notes } = read([
        user(text("u")),
        assistant(
          { kind: "reasoning", text: "thoughts", opaque: state, at: "r" },
          { ...call("a"), opaque: state } as Part,
          { ...text(""), opaque: state } as Part,
          { ...text("b"), opaque: state } as Part,
        ),
      ]);
      t.same(parts, [[text("u")], [call("a"), text("b")]]);
      t.equal(notes.length, 4, "each is reported");
      t.equal(notes[0], "x at r");
    }
  },
);

t.test("a turn with only foreign reasoning is removed", async (t) => {
  t.same(read([user(text("u")), assistant({ ...carrying("x"), opaque: opaque("x", { account: "two" }) })]).parts, [
    [text("u")],
  ]);
});

t.test("state of reasoning that was between texts is returned between them", async (t) => {
  const behind = (textBehind: number, data = "x"): Reasoning => ({
    ...carrying(data),
    opaque: opaque(data, { on: "reasoning", textBehind }),
  });
  const back = (...parts: Part[]) => placed(assistant(...parts, call("b")))[0]?.slice(0, -1);
  const x = carrying("x");
  t.same(back(text("ab"), text("cd"), behind(2)), [text("ab"), x, text("cd")]);
  t.same(back(text("abcd"), behind(1)), [text("abc"), x, text("d")]);
  t.same(back(text("abcd"), behind(4)), [x, text("abcd")]);
  t.same(back(text("abcd"), behind(9)), [x, text("abcd")], "the client has shortened the text");
  t.same(back(text("abcd"), behind(0)), [text("abcd"), x]);
  t.same(back(text("ab"), behind(2), text("cd"), behind(2, "y")), [x, text("ab"), carrying("y"), text("cd")]);
  t.same(back(text("a😀"), behind(1)), [text("a😀"), x, text("")], "never within a character");
  const thought: Reasoning = { kind: "reasoning", text: "Hm.", at: "r" };
  t.same(back(text("ab"), thought, text("cd"), behind(2)), [
    text("ab"),
    { ...thought, opaque: opaque("x") },
    text("cd"),
  ]);
  t.same(back(behind(2), text("abcd")), [text("ab"), x, text("cd")], "the client has joined texts");
  t.same(back(text("a"), behind(2), text("bcd"), text("e")), [text("a"), text("b"), x, text("cd"), text("e")]);
  t.same(back(behind(4), text("abcd")), [x, text("abcd")]);
  t.same(back(thought, behind(2), text("cd")), [{ ...thought, opaque: opaque("x") }, text("cd")]);
  t.same(back(behind(9), behind(2, "y"), text("abcd")), [x, text("ab"), carrying("y"), text("cd")]);
  t.same(placed(assistant(behind(2))), [[x]]);
});

t.test(
  "blocks and tools that only another protocol understands are removed without a notice: they were checked before",
  async (t) => {
    const foreign = (protocol: string): Part => ({ kind: "foreign", protocol, name: "x", json: {}, at: "f" });
    const server = (protocol: string): Tool => ({ kind: "server", protocol, name: "s", json: {}, at: "t" });
    const { parts, tools, notes } = read(
      [assistant(foreign("p"), foreign("q"), text("a"))],
      [server("q"), server("p")],
    );
    t.same(parts, [[foreign("p"), text("a")]]);
    t.same(tools, [server("p")]);
    t.same(notes, []);
  },
);

t.test("the conversation itself stays unchanged, for the next target", async (t) => {
  const turn = assistant(carrying("x"), text("a"));
  const conversation = talk([turn]);
  keepReadable(conversation, { protocol: "q", account: "two" }, () => {});
  t.same(conversation.turns, [assistant(carrying("x"), text("a"))]);
});

t.test("reasoning that never had a state stays with the account that made it, and is sent elsewhere", async (t) => {
  const thought: Part = { kind: "reasoning", text: "thoughts", at: "r" };
  const marked = (account: string): Part => ({ ...thought, opaque: opaque("", { kind: "unsigned", account }) });
  t.same(read([assistant(marked("one"))]), { parts: [[thought]], tools: [], notes: [] });
  t.match(read([assistant(marked("two"), text("a"))]), { parts: [[text("a")]], notes: [/ at r$/] });
});

t.test("the time for many pieces of state grows no faster than their number", async (t) => {
  const many = (make: () => Part): Part[] => Array.from({ length: 100_000 }, make);
  const states = (on: Opaque["on"]) => many(() => carrying("x", on));
  const within = opaque("x", { on: "reasoning", textBehind: 100_001 });
  const texts = many(() => text("Hm"));
  for (const parts of [
    [...texts, ...states("reasoning")],
    [...texts, ...many(() => ({ ...carrying("x"), opaque: within }))],
    states("text"),
  ])
    t.doesNotThrow(() => runLinear(() => placed({ ...assistant(), parts })));
});
