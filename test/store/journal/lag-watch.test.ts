import t from "tap";
import { LagWatch } from "../../../src/store/journal/lag-watch.ts";

t.test("a ledger that falls behind is reported, again when it stays so, and when it has caught up", async (t) => {
  const said: string[] = [];
  let now = 0;
  const watch = new LagWatch(
    (text, _fields, over = false) => said.push(over ? `over: ${text}` : text),
    () => now,
  );
  const look = (at: number, since: number | undefined) => {
    now = at;
    watch.check(since);
    return said.splice(0);
  };
  t.same(look(1, undefined), []);
  t.same(look(59_000, 0), []);
  t.match(look(60_000, 0), [/^The ledger is 60 s behind/]);
  t.same(look(61_000, 0), []);
  t.match(look(660_000, 0), [/^The ledger is 660 s behind/]);
  t.same(look(661_000, 660_500), ["over: The ledger has caught up with the journal."]);
  t.same(look(662_000, undefined), []);
});
