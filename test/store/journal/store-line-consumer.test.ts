import t from "tap";
import { StoreLineConsumer } from "../../../src/store/journal/store-line-consumer.ts";
import type { LedgerStore } from "../../../src/store/ledger-store.ts";
import type { CreatedObject } from "../../../src/store/object-rows.ts";

const object = (id: string): CreatedObject => ({ id, provider: "up", key: "k", time: 1 });

t.test("objects that could not be written are written with the next ones, each once", async (t) => {
  const written: string[][] = [];
  let down = true;
  const objects = {
    find: () => [],
    insert: async (made: readonly CreatedObject[]) => {
      if (down) throw new Error("it is away");
      written.push(made.map(({ id }) => id));
    },
  };
  const ledger = { appendRow: () => {}, flush: async () => {} } as unknown as LedgerStore["ledger"];
  const taker = new StoreLineConsumer({ ledger, objects });
  await taker.flush();
  taker.appendObject(object("1"));
  await t.rejects(taker.flush(), { message: "it is away" });
  down = false;
  taker.appendObject(object("2"));
  await taker.flush();
  await taker.flush();
  t.same(written, [["1", "2"]]);
});
