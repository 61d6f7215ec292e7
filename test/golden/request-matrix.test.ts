import t from "tap";
import { EVERY_CASE } from "../support/sample.ts";
import { page, requestTables } from "./fidelity-page.ts";
import { entryOf, REFUSALS } from "./refused-requests.ts";
import { requests, sendAll, tally } from "./request-matrix.ts";

const recorded = requests();
const skip = !recorded && "recordings are absent";
const verdicts = sendAll(recorded ?? []);

t.test(
  "every recorded request is translated for the other vendors, and nothing is lost silently",
  { skip },
  async (t) => {
    t.ok(verdicts.length > 0);
    t.same(
      verdicts.filter(({ faults }) => faults.length > 0),
      [],
    );
    if (!EVERY_CASE) return;
    const { is, should } = page(requestTables(tally(verdicts)));
    t.equal(is, should, "docs/fidelity.md contains these numbers");
  },
);

t.test(
  "what an unknown model is refused is refused the newest, too, unless they take no such setting",
  { skip },
  async (t) => {
    const key = ({ recording, target }: (typeof verdicts)[number]) => `${recording} → ${target}`;
    const refused = (newest: boolean) => verdicts.filter((each) => each.newest === newest && each.refused);
    const newest = new Set(refused(true).map(key));
    t.same(
      refused(false)
        .filter((each) => !newest.has(key(each)) && !entryOf(each)?.settable)
        .map(key),
      [],
    );
  },
);

t.test("every entry of the list of refused requests occurs", { skip: skip || !EVERY_CASE }, async (t) => {
  const used = new Set(verdicts.map(entryOf));
  t.same(
    REFUSALS.filter((entry) => !used.has(entry)),
    [],
  );
});
