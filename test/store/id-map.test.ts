import t from "tap";
import { newId } from "../../src/core/id.ts";
import { IdMap } from "../../src/store/id-map.ts";
import { dice } from "../support/dice.ts";

t.test("it has the same entries as a Map, whatever is set and deleted, also with ids that end alike", (t) => {
  const next = dice(7);
  const ids = [
    ...Array.from({ length: 20_000 }, () => newId(1.8e12)),
    ...["", "a", "ab"],
    ...Array.from({ length: 50 }, (_, i) => `${i}-same-end`),
  ];
  const map = new Map<string, number>();
  const idMap = new IdMap<number>();
  for (let step = 0; step < 100_000; step++) {
    // Some of them again and again.
    const id = ids[next(3) === 0 ? ids.length - 1 - next(53) : next(ids.length)] as string;
    if (next(2) === 0) {
      map.set(id, step);
      idMap.set(id, step);
    } else {
      map.delete(id);
      idMap.delete(id);
    }
  }
  t.equal(idMap.size, map.size);
  t.ok(map.size > 1000);
  t.same(new Map(idMap.entries()), map);
  t.ok(ids.every((id) => idMap.get(id) === map.get(id)));
  t.end();
});

t.test("an id is found in a text that was put together anew", (t) => {
  const map = new IdMap<string>();
  const id = newId(1.8e12);
  map.set(id, "a");
  const same = [id.slice(0, 20), id.slice(20)].join("");
  t.equal(map.get(same), "a");
  map.delete(same);
  t.equal(map.get(id), undefined);
  t.equal(map.size, 0);
  t.end();
});
