import t from "tap";
import { argumentsObject, isEmptyArguments } from "../../src/translation/arguments.ts";
import { type EncodeContext } from "../../src/translation/codec.ts";
import { type ToolCall } from "../../src/translation/conversation.ts";
import { ToolNames } from "../../src/translation/names.ts";
import { writeJson } from "../../src/wire/exact.ts";
import { NestedJson } from "../../src/wire/nested.ts";

t.test("none, null and an empty list are no arguments; everything else is", async (t) => {
  for (const text of ["", " \n", "null", " null ", "[]", "[ \n]", "\t[]\t"])
    t.ok(isEmptyArguments(text), JSON.stringify(text));
  for (const text of ["{}", "[1]", "[", "[]]", "nul", "0", '""', "{", "[{}]"]) t.notOk(isEmptyArguments(text), text);
});

t.test(
  "arguments become an object with their own text; free text is its member, anything else is refused",
  async (t) => {
    const refuse = (path: string, why: string): never => {
      throw new Error(`${path}: ${why}`);
    };
    const context = { nested: new NestedJson(), refuse } as unknown as EncodeContext;
    const write = (text: string, custom?: true) => {
      const call = { kind: "tool_call", id: "c", name: "f", arguments: text, at: "calls.0", ...(custom && { custom }) };
      return writeJson(argumentsObject(call as ToolCall, context));
    };
    t.same(
      ["", "null", "{}", '{"n": 1.0}'].map((text) => write(text)),
      ["{}", "{}", "{}", '{"n": 1.0}'],
    );
    t.equal(write('a "text"', true), '{"input":"a \\"text\\""}');
    for (const text of ["[1]", "1", "{"]) t.throws(() => write(text), /^calls\.0: .* not a JSON object$/, text);
    t.throws(() => write(`{"a":${"[".repeat(1000)}${"]".repeat(1000)}}`), /nested too deep/);
  },
);

t.test("arguments of a tool whose arguments have other names at the target get those", async (t) => {
  const names = new ToolNames();
  names.fitMembers("f", ["$top"], "a-z_", 64);
  const context = { nested: new NestedJson(), names } as unknown as EncodeContext;
  const call: ToolCall = { kind: "tool_call", id: "c", name: "f", arguments: '{"$top": 1.0}', at: "calls.0" };
  t.equal(writeJson(argumentsObject(call, context, "f")), '{"_top": 1.0}');
  t.equal(writeJson(argumentsObject(call, context, "g")), call.arguments);
  t.equal(writeJson(argumentsObject(call, context)), call.arguments);
});
