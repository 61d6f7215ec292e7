import t from "tap";
import { EVERY_CASE, tried } from "../support/sample.ts";
import { idle, matrixTable, page, refusedList, sound, unexplained } from "./fidelity-page.ts";
import { matrix, origins } from "./matrix.ts";

/** Milliseconds for ten thousand answers on a busy machine. */
const LIMIT = 300_000;
t.setTimeout(LIMIT);
const found = await origins();

t.test(
  "every recorded answer has the same content for clients of the other protocols, or is listed with the reason",
  { skip: !found && "recordings are absent", timeout: LIMIT },
  async (t) => {
    const origins = found ?? [];
    t.ok(origins.length > tried(1700), `${origins.length} answers`);
    const verdicts = sound(await matrix(t, origins), origins);
    t.same(unexplained(verdicts).slice(0, 10), []);
    if (!EVERY_CASE) return;
    t.same(idle(verdicts), [], "each listed reason explains something");
    const { is, should } = page({ answers: matrixTable(verdicts), refused: refusedList(verdicts, origins) });
    t.equal(is, should, "docs/fidelity.md contains these numbers");
  },
);
