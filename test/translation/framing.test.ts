import t from "tap";
import { Framing } from "../../src/translation/framing.ts";
import { SAY, SAY_ARRAY } from "../support/tiny.ts";

const text = (frames: readonly { bytes: Buffer }[]): string => frames.map(({ bytes }) => bytes.toString()).join("");

t.test("server-sent events have their name where they have one", async (t) => {
  const framing = new Framing(SAY);
  t.equal(text(framing.frames([{ name: "a", data: "1" }, { data: "2" }])), "event: a\ndata: 1\n\ndata: 2\n\n");
  t.equal(text(framing.close()), "");
  t.match(framing.type, /^text\/event-stream/);
});

t.test("an array is valid JSON once it is closed, also an empty one", async (t) => {
  t.equal(text(new Framing(SAY_ARRAY).close()), "[]");
  const framing = new Framing(SAY_ARRAY);
  const all =
    text(framing.frames([{ data: "1" }])) +
    text(framing.frames([{ data: "2" }, { data: "3" }])) +
    text([...framing.frames([{ data: "4" }]), ...framing.close()]);
  t.equal(all, "[1,\r\n2,\r\n3,\r\n4]");
  t.match(framing.type, /^application\/json/);
});

t.test("the state contains what has been framed, with data that can be read", async (t) => {
  for (const operation of [SAY, SAY_ARRAY]) {
    const framing = new Framing(operation);
    const [first, last] = framing.frames([{ data: '{"n":1}' }, { data: '{"n":2}' }]);
    const { state } = framing;
    t.same(state.first, first?.bytes);
    t.equal(state.first?.buffer.byteLength, first?.bytes.length, "it keeps no other memory alive");
    t.equal(state.last, last);
    t.same(state.last?.json(), { n: 2 });
    t.same([state.frames, state.operation], [2, operation]);
  }
});
