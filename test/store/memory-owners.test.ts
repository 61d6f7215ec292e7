import t from "tap";
import { MemoryOwners } from "../../src/store/memory-owners.ts";
import { ownersContract } from "../support/owners-contract.ts";

const file = { id: "file-1", provider: "up", key: "one" };

ownersContract(t, async () => {
  const owners = new MemoryOwners();
  return { owners, other: owners };
});

t.test("what is forgotten is forgotten at that provider only", async (t) => {
  const owners = new MemoryOwners();
  const other = { ...file, provider: "other" };
  owners.add([file, other]);
  owners.forget(file);
  t.same([owners.find("file-1"), owners.size, owners.all()], [[other], 1, [other]]);
  owners.forget(other);
  t.same([owners.find("file-1"), owners.size], [[], 0]);
});

t.test("the number of remembered objects is limited, and the newest stay", async (t) => {
  const owners = new MemoryOwners();
  for (let i = 0; i <= 100_000; i++) owners.add([{ ...file, id: `file-${i}` }]);
  t.equal(owners.size, 99_001);
  t.same([owners.find("file-0").length, owners.find("file-100000").length], [0, 1]);
});
