import t from "tap";
import { type BodyInspection, InspectedBody } from "../../src/upstream/inspected-body.ts";

/** Returns a body whose pieces wait until they are accepted, and what has come out of it. */
function waitingBody() {
  const waiting: { what: string; accept: () => void }[] = [];
  const inspection: BodyInspection = {
    onPiece: (bytes, accept) => void waiting.push({ what: bytes.toString(), accept }),
    onEnd: (accept) => void waiting.push({ what: "end", accept }),
  };
  const body = new InspectedBody(inspection);
  const passed: string[] = [];
  body.on("data", (bytes: Buffer) => passed.push(bytes.toString()));
  return { body, waiting, passed };
}

const turn = () => new Promise((resolve) => setImmediate(resolve));

t.test("nothing passes before it has been accepted, the end neither", async (t) => {
  const { body, waiting, passed } = waitingBody();
  const ended = new Promise((resolve) => body.once("end", resolve));
  body.write("one");
  body.end("two");
  await turn();
  t.same(
    waiting.map(({ what }) => what),
    ["one"],
    "the second piece waits for the first",
  );
  t.same(passed, []);
  waiting[0]?.accept();
  await turn();
  t.same(passed, ["one"]);
  waiting[1]?.accept();
  await turn();
  t.same(passed, ["one", "two"]);
  t.equal(waiting[2]?.what, "end");
  t.notOk(body.readableEnded);
  waiting[2]?.accept();
  await ended;
});

t.test("a body that was destroyed passes nothing more, even if it is accepted late", async (t) => {
  const { body, waiting, passed } = waitingBody();
  body.write("one");
  await turn();
  body.destroy();
  waiting[0]?.accept();
  await turn();
  t.same(passed, []);
});
