import t from "tap";
import type { Event } from "../../src/translation/events.ts";
import { ToolNames } from "../../src/translation/names.ts";
import { NameRestorer } from "../../src/translation/restore-names.ts";

function told(names: ToolNames, ...events: Event[]): Event[] {
  const retelling = new NameRestorer(
    names,
    "p",
    { account: "one", model: "m" },
    "seed",
    new Set(["call_0", "functions.f:0"]),
  );
  const out: Event[] = [];
  for (const event of events) retelling.restore(event, out);
  return out;
}
const open = (name: string, more: object = {}): Event => ({
  type: "open",
  block: 0,
  choice: 0,
  kind: "tool_call",
  name,
  ...more,
});
const args = (text: string): Event => ({ type: "arguments", block: 0, text });
const close: Event = { type: "close", block: 0 };

t.test("events without names pass unchanged", async (t) => {
  const events: Event[] = [
    { type: "start", id: "x", model: "m" },
    { type: "open", block: 0, choice: 0, kind: "text" },
    { type: "text", block: 0, text: "a" },
    close,
    { type: "end" },
  ];
  const out = told(new ToolNames(), ...events);
  t.equal(out.length, events.length);
  for (const [i, event] of out.entries()) t.equal(event, events[i]);
});

t.test("a fitted name is replaced by the client's own", async (t) => {
  const names = new ToolNames();
  const fit = names.fitTool({ name: "a.b" }, "a-z_", 64);
  t.same(told(names, open(fit, { id: "call_1" })), [open("a.b", { id: "call_1" })]);
});

t.test("calls without an id get one, different ones, the same for the same answer", async (t) => {
  const events = [
    { type: "start", id: "answer-1", model: "m" } as Event,
    open("f"),
    open("f", { id: "" }),
    open("f", { id: "own" }),
  ];
  const ids = (list: Event[]) => list.flatMap((event) => ("id" in event && event.type === "open" ? [event.id] : []));
  const out = ids(told(new ToolNames(), ...events));
  t.match(out[0], /^call_[\w-]+_0$/);
  t.match(out[1], /^call_[\w-]+_1$/);
  t.equal(out[2], "own");
  t.same(ids(told(new ToolNames(), ...events)), out);
  t.notSame(ids(told(new ToolNames(), { type: "start", id: "answer-2", model: "m" }, ...events.slice(1))), out);
  t.match(
    ids(told(new ToolNames(), open("f")))[0],
    /^call_seed_0$/,
    "derived from the exchange where the answer has no id",
  );
});

t.test("arguments get the client's own names again, in calls of their tool only", async (t) => {
  const names = new ToolNames();
  names.fitMembers("f", ["$top"], "a-z_", 64);
  const pieces = [args('{"_t'), args('op":1'), args("}")];
  t.same(told(names, open("f", { id: "1" }), ...pieces, close), [
    open("f", { id: "1" }),
    args("{"),
    args('"$top":1'),
    args("}"),
    close,
  ]);
  t.same(told(names, open("f", { id: "1" }), args('{"_to'), close).slice(1), [args("{"), args('"_to'), close], "cut");
  t.same(told(names, open("g", { id: "2" }), ...pieces, close).slice(1), [...pieces, close]);
});

t.test("the arguments of a custom tool that was offered as a function become free text", async (t) => {
  const names = new ToolNames();
  const fit = names.fitTool({ name: "exec", namespace: "functions", custom: true }, "a-z_", 64);
  t.same(told(names, open(fit, { id: "1" }), args('{"inp'), args('ut":"ls'), args(" -l"), args('"}'), close), [
    open("exec", { id: "1", namespace: "functions", custom: true }),
    args("ls"),
    args(" -l"),
    close,
  ]);
  t.same(told(names, open(fit, { id: "1" }), args("[1"), args("]"), close), [
    open("exec", { id: "1", namespace: "functions", custom: true }),
    args("[1]"),
    close,
  ]);
});

t.test("a call that is custom already, and a plain one beside it, pass unchanged", async (t) => {
  const names = new ToolNames();
  names.fitTool({ name: "exec", custom: true }, "a-z_", 64);
  const custom = [open("exec", { id: "1", custom: true }), args('{"input":"x"}'), close];
  t.same(told(names, ...custom), custom);
  const plain = [open("f", { id: "1" }), args('{"input":"x"}'), close];
  t.same(told(names, ...plain), plain);
});

t.test("reasoning without opaque state is marked with its origin, other reasoning is not", async (t) => {
  const open: Event = { type: "open", block: 0, choice: 0, kind: "reasoning" };
  const mark = { protocol: "p", account: "one", model: "m", kind: "unsigned", data: "" };
  t.same(told(new ToolNames(), open, close), [open, { type: "opaque", block: 0, opaque: mark }, close]);
  const signed: Event = { type: "opaque", block: 0, opaque: { protocol: "p", kind: "sig", data: "x" } };
  t.same(told(new ToolNames(), open, signed, close), [open, signed, close]);
});

t.test("a call has no id that an earlier one of the conversation or the answer has", async (t) => {
  const ids = ["call_0", "call_1", "call_1", "functions.f:0"];
  const restored = told(new ToolNames(), ...ids.map((id) => open("f", { id })));
  t.same(
    restored.map((event) => (event as { id?: string }).id),
    ["call_0_2", "call_1", "call_1_4", "functions.f:5"],
  );
});

t.test("an id of a response that is too long to be repeated in each frame is replaced by a short one", async (t) => {
  const [start] = told(new ToolNames(), { type: "start", id: "i".repeat(1025), model: "m".repeat(2000), created: 1 });
  t.match(start, { type: "start", id: /^i{51}_[0-9a-f]{12}$/, model: /^m{1024}$/, created: 1 });
});
