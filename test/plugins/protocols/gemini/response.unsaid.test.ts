import t from "tap";
import { TOLD, TOLD_OF_PART, Unsaid } from "../../../../plugins/protocols/gemini/response.unsaid.ts";
import type { Event } from "../../../../src/translation/events.ts";

t.test("each thing is said to be lost once, by its whole path", async (t) => {
  const out: Event[] = [];
  const unsaid = new Unsaid("candidates.1.");
  unsaid.say("x", out);
  unsaid.others({ index: 1, x: 1, y: null, z: 0, constructor: 1 }, TOLD.candidate, "", out);
  unsaid.others({ text: "t", thoughtSignature: "s", z: 0 }, TOLD_OF_PART.text, "content.parts.", out);
  unsaid.others({ z: 1 }, TOLD_OF_PART.call, "content.parts.", out);
  t.strictSame(
    out,
    ["x", "z", "constructor", "content.parts.z"].map((path) => ({ type: "unsaid", path: `candidates.1.${path}` })),
  );
});
