import t from "tap";
import { texts } from "../../../../plugins/protocols/openai-completions/texts.ts";
import { eventsIn, recorded } from "../../../support/recorded.ts";

t.test("a prompt is the user's, one or several", async (t) => {
  t.same(
    [...texts.request({ prompt: "P", suffix: "S" })],
    [
      { path: ["prompt"], kind: "user" },
      { path: ["suffix"], kind: "user" },
    ],
  );
  t.same(
    [...texts.request({ prompt: ["a", 1, [2], "b"] })].map(({ path }) => path),
    [
      ["prompt", 0],
      ["prompt", 3],
    ],
  );
});

t.test("each choice has one text, streamed in pieces of one name", async (t) => {
  const chunk = (index: unknown) => [...texts.response({ choices: [{ index, text: "a" }] })];
  t.same(chunk(1), [{ path: ["choices", 0, "text"], kind: "assistant", piece: "1 text" }]);
  t.same(chunk(1), chunk(1));
  t.same(chunk(undefined)[0]?.piece, "0 text");
  for (const odd of [null, 1, {}, { choices: 1 }, { choices: [null, { text: 1 }] }])
    t.same([...texts.response(odd)], []);
});

t.test("every recorded stream contains nothing else", async (t) => {
  for (const { id, kinds, status, body } of recorded("openai-completions")) {
    if (status >= 300 || !kinds.includes("stream")) continue;
    const frames = eventsIn(body).flatMap((frame) => (frame.json() === undefined ? [] : [frame.json()]));
    const places = frames.flatMap((json) => [...texts.response(json)]);
    t.ok(places.length > 0, id);
    t.same([...new Set(places.map(({ piece }) => piece))], ["0 text"], id);
  }
});
