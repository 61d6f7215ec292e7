import t from "tap";
import type { OwnedObject } from "../../src/store/owners.ts";
import { objectOf, QueuedOwners } from "../../src/store/queued-owners.ts";
import { eventually } from "../support/process.ts";

const object = (id: string): OwnedObject => ({ id, provider: "up", key: "k" });

/** A store that may be down, and is slow. */
class SlowOwners extends QueuedOwners {
  down = false;
  readonly saved: string[][] = [];
  readonly warnings: string[];

  constructor(warnings: string[]) {
    super((text) => warnings.push(text));
    this.warnings = warnings;
  }

  override find(id: string): OwnedObject[] {
    return this.together(id, []);
  }

  protected override async save(objects: readonly OwnedObject[]): Promise<void> {
    await new Promise((later) => setTimeout(later, 5));
    if (this.down) throw new Error("it is away");
    this.saved.push(objects.map(({ id }) => id));
  }
}

t.test("what comes while others are being written is written next, each once", async (t) => {
  const owners = new SlowOwners([]);
  owners.add([object("1"), object("2")]);
  await new Promise(setImmediate);
  await new Promise(setImmediate);
  owners.add([object("2"), object("3")]);
  t.equal(owners.find("1").length, 1);
  await eventually(() => owners.saved.length === 2, "both");
  t.same(owners.saved, [["1", "2"], ["3"]]);
  await eventually(() => owners.find("3").length === 0, "the queue to be empty");
  await owners.close();
  t.equal(owners.saved.length, 2);
});

t.test("a store that is down is tried again, and told of once", async (t) => {
  const owners = new SlowOwners([]);
  owners.down = true;
  owners.add([object("1")]);
  // Its own timer keeps no process alive.
  await eventually(() => owners.warnings.length === 1, "the warning");
  t.match(owners.warnings, [/cannot be written: it is away/]);
  owners.down = false;
  await eventually(() => owners.saved.length === 1, "the next try");
  await owners.close();
  t.match(owners.warnings, [/cannot/, /being written again/]);
});

t.test("closing tries for a while, and says what is lost", async (t) => {
  const owners = new SlowOwners([]);
  owners.add([object("1")]);
  owners.down = true;
  setTimeout(() => (owners.down = false), 200);
  await owners.close();
  t.same(owners.saved, [["1"]]);
  const lost = new SlowOwners([]);
  lost.down = true;
  lost.add([object("1")]);
  await lost.close();
  t.match(lost.warnings.at(-1), "Who made 1 objects is lost: it is away.");
});

t.test("a row without group and model is an object without", async (t) => {
  t.same(objectOf({ id: "1", provider: "up", key: "k", group: null, model: null }), object("1"));
});
