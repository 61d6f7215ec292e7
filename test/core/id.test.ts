import t from "tap";
import { newId } from "../../src/core/id.ts";
import { gathered } from "../support/gathered.ts";

gathered(t, "ids are UUIDs of version 7 that carry their time and never repeat", async (t) => {
  const time = 1_790_000_000_123;
  const ids = Array.from({ length: 5000 }, () => newId(time));
  for (const id of ids.slice(0, 200))
    t.match(id, /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
  t.equal(new Set(ids).size, ids.length);
  t.equal(Number.parseInt((ids[0] as string).replaceAll("-", "").slice(0, 12), 16), time);
  t.ok(newId(time) < newId(time + 1));
});
