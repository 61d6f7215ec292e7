import t from "tap";
import { runStages, type Stage } from "../../src/core/stage.ts";
import { Frame } from "../../src/wire/frame.ts";

const event = (text: string): Frame => new Frame("event", Buffer.from(text));
const shout: Stage = (frame) => event(frame.bytes.toString().toUpperCase());
const twice: Stage = (frame) => [frame, frame];
const none: Stage = () => [];
const look: Stage = () => {};

t.test("a frame passes the stages in order; several frames replace it, none drops it", async (t) => {
  const behind = (stages: Stage[], from = 0): string[] => {
    const out: Frame[] = [];
    runStages(stages, event("a"), out, from);
    return out.map(({ bytes }) => bytes.toString());
  };
  t.same(behind([]), ["a"]);
  t.same(behind([look, shout]), ["A"]);
  t.same(behind([twice, shout, twice]), ["A", "A", "A", "A"]);
  t.same(behind([twice, none, shout]), []);
  t.same(behind([none, shout], 1), ["A"]);
});

t.test("an untouched frame is the same object", async (t) => {
  const out: Frame[] = [];
  const frame = event("a");
  runStages([look, (each) => each], frame, out);
  t.equal(out[0], frame);
});
