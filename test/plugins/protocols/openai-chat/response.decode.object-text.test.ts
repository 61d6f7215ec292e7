import t from "tap";
import { ObjectText } from "../../../../plugins/protocols/openai-chat/response.decode.object-text.ts";
import { createDecoder, decodeResponse } from "../../../../plugins/protocols/openai-chat/response.decode.ts";
import type { Event } from "../../../../src/translation/events.ts";
import { runAtOnce } from "../../../../src/translation/steps.ts";
import { asEvent } from "../../../support/recorded.ts";

/** Returns the calls of a stream with one piece of a call in each chunk, all at one index and without ids. */
function calls(pieces: readonly (readonly [name: string, text: string])[]): [string, string][] {
  const out: Event[] = [];
  const decoder = createDecoder({ account: "them", model: "theirs" });
  for (const [name, text] of pieces) {
    const call = { index: 0, type: "function", function: { ...(name && { name }), arguments: text } };
    decoder.frame(asEvent({ choices: [{ index: 0, delta: { tool_calls: [call] } }] }), out);
  }
  const found: [string, string][] = [];
  for (const event of out)
    if (event.type === "open" && event.kind === "tool_call") found[event.block] = [event.name, ""];
    else if (event.type === "arguments") (found[event.block] as [string, string])[1] += event.text;
  return found;
}

t.test("calls at one index without ids are told apart by their names, and by the end of their arguments", async (t) => {
  const paris = '{"city":"Paris"}';
  const rome = '{"city":"{Rome\\"}","days":[1]}';
  const pieces: [string, string][] = [
    ["weather", paris],
    ["weather", rome],
    ["time", "{}"],
  ];
  t.same(calls(pieces), pieces);
  t.same(
    calls([
      ["weather", rome.slice(0, 16)],
      ["", rome.slice(16)],
      ["weather", ""],
      ["", paris],
    ]),
    [
      ["weather", rome],
      ["weather", paris],
    ],
  );
});

t.test("a server may repeat a call's name with each piece of its arguments", async (t) => {
  const pieces = ["", '{"a":"}', '{","b":', '{"c":1}', "}"].map((text): [string, string] => ["one", text]);
  const one = ["one", '{"a":"}{","b":{"c":1}}'];
  t.same(calls(pieces), [one]);
  t.same(calls([...pieces, ["one", ""], ["one", ""]]), [one], "the last of them may be empty");
});

t.test("in a whole answer each entry is a call, also without arguments", async (t) => {
  const tool_calls = ["{}", ""].map((text) => ({
    index: 0,
    type: "function",
    function: { name: "one", arguments: text },
  }));
  const text = JSON.stringify({ choices: [{ index: 0, message: { role: "assistant", tool_calls } }] });
  const events = runAtOnce(decodeResponse(Buffer.from(text), { account: "them", model: "theirs" }));
  t.equal(events.filter((event) => event.type === "open" && event.kind === "tool_call").length, 2);
});

t.test("an object ends where its last brace is, however it is cut", async (t) => {
  for (const text of ["{}", '{"a":{"b":[{}]}}', '{"}":"\\"}","\\\\":"\\\\"}', ' {"a": "😀"} '])
    for (let cut = 0; cut <= text.length; cut++) {
      const object = new ObjectText();
      object.add(text.slice(0, cut));
      t.equal(object.complete, cut >= text.trimEnd().length, `${text} ${cut}`);
      object.add(text.slice(cut));
      t.equal(object.complete, true, text);
    }
});
