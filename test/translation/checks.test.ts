import t from "tap";
import { checkHasTurns, checkToolNames, checkToolPairs } from "../../src/translation/checks.ts";
import type { Part, Turn } from "../../src/translation/conversation.ts";
import { MAX_NAME } from "../../src/wire/window.ts";

const call = (id: string, at = `call ${id}`): Part => ({ kind: "tool_call", id, name: "f", arguments: "{}", at });
const result = (callId: string, at = `result ${callId}`): Part => ({ kind: "tool_result", callId, parts: [], at });
const turns = (...lists: Part[][]): Turn[] =>
  lists.map((parts) => ({ role: parts[0]?.kind === "tool_call" ? "assistant" : "user", parts, at: "" }));
const check = (...lists: Part[][]) =>
  checkToolPairs({ protocol: "p", task: "generate", stream: false, turns: turns(...lists), tools: [], uses: [] });

t.test("calls with their results pass, in any order, late, and with a reused id", async (t) => {
  for (const lists of [
    [],
    [
      [call("a"), call("b")],
      [result("b"), result("a")],
    ],
    [[call("a")], [{ kind: "text", text: "wait", at: "" }], [result("a")]],
    [[call("a")], [result("a")], [call("a")], [result("a")]],
  ] as Part[][][])
    t.doesNotThrow(() => check(...lists));
});

for (const [what, lists, param] of [
  ["a result without a call", [[result("a")]], "result a"],
  ["a result before its call", [[result("a")], [call("a")]], "result a"],
  ["a second result", [[call("a")], [result("a"), result("a", "again")]], "again"],
  ["a call without a result", [[call("a"), call("b")], [result("a")]], "call b"],
  ["an open call at the very end", [[call("a")], [result("a")], [call("b")]], "call b"],
  ["an id of two open calls", [[call("a"), call("a", "second")], [result("a")]], "second"],
] as const)
  t.test(`${what} is a 400 that names its place`, async (t) => {
    t.throws(() => check(...(lists as unknown as Part[][])), {
      code: "invalid_field",
      status: 400,
      param,
      message: new RegExp(`^${param}: `),
    });
  });

t.test("a conversation without a turn is refused at the client's own field, where that is known", async (t) => {
  const empty = { protocol: "p", task: "generate", stream: false, turns: [], tools: [], uses: [] } as const;
  const asked = (more: object) => () => checkHasTurns({ ...empty, ...more } as never);
  t.throws(asked({ turnsAt: "input" }), {
    code: "invalid_field",
    status: 400,
    param: "input",
    message: /^input is empty/,
  });
  t.doesNotThrow(asked({}));
  t.doesNotThrow(asked({ turnsAt: "input", turns: [{ role: "user", parts: [], at: "input.0" }] }));
});

t.test("a tool's name that no vendor accepts for its length is refused at its place, wherever it stands", async (t) => {
  const long = "n".repeat(1025);
  const plain = { protocol: "p", task: "generate", stream: false, turns: [], tools: [], uses: [] } as const;
  const uses = [
    { feature: "tool_choice", path: "choice" },
    { feature: "tool_choice_allowed", path: "choices" },
  ] as const;
  const cases: [string, object][] = [
    ["tools.0", { tools: [{ kind: "function", name: long, at: "tools.0" }] }],
    ["tools.0", { tools: [{ kind: "custom", name: "f", namespace: long, at: "tools.0" }] }],
    ["tools.0", { tools: [{ kind: "server", protocol: "p", name: long, json: {}, at: "tools.0" }] }],
    ["call a", { turns: turns([{ ...call("a"), name: long } as Part]) }],
    ["call a", { turns: turns([{ ...call("a"), namespace: long } as Part]) }],
    ["result a", { turns: turns([{ ...result("a"), name: long } as Part]) }],
    ["choice", { toolChoice: { mode: "named", name: long }, uses }],
    ["choices", { toolChoice: { mode: "allowed", required: false, names: ["f", long] }, uses }],
  ];
  for (const [param, more] of cases)
    t.throws(() => checkToolNames({ ...plain, ...more } as never), {
      code: "invalid_field",
      param,
      message: `${param} has a name of more than 1024 characters.`,
    });
  const names = Array.from({ length: 1025 }, () => "f");
  t.throws(() => checkToolNames({ ...plain, toolChoice: { mode: "allowed", required: true, names }, uses } as never), {
    code: "invalid_field",
    message: "choices names more than 1024 tools.",
  });
  t.doesNotThrow(() =>
    checkToolNames({
      ...plain,
      tools: [
        { kind: "web_search", at: "tools.0" },
        { kind: "function", name: "n".repeat(1024), at: "tools.1" },
      ],
      turns: turns([call("a")], [result("a")]),
      toolChoice: { mode: "auto" },
    } as never),
  );
});

t.test("the id of a call may be as long as a member's name, and a longer one names its place", async (t) => {
  const check = (part: Part) => () =>
    checkToolNames({ protocol: "p", task: "generate", stream: false, turns: turns([part]), tools: [], uses: [] });
  for (const part of [call, result]) {
    t.doesNotThrow(check(part("i".repeat(MAX_NAME), "at")));
    t.throws(check(part("i".repeat(MAX_NAME + 1), "at")), {
      code: "invalid_field",
      param: "at",
      message: "at has a call's id of more than 16383 characters.",
    });
  }
});
