import type { Test } from "tap";
import type { Owners } from "../../src/store/owners.ts";
import { until } from "./until.ts";

const file = { id: "file-1", provider: "up", key: "one" };

/** Tests for owners in any store. @param open an empty store, as two processes see it */
export function ownersContract(t: Test, open: (t: Test) => Promise<{ owners: Owners; other: Owners }>): void {
  t.test("what was added is found at once, and soon by others", async (t) => {
    const { owners, other } = await open(t);
    const answer = { ...file, id: "resp_1", group: "acme", model: "m", credential: "SECOND_KEY" };
    owners.add([file, answer]);
    t.same(await owners.find("file-1"), [file]);
    await until(async () => (await other.find("resp_1")).length > 0, "the other's view");
    t.same(await other.find("file-1"), [file]);
    t.same(await other.find("resp_1"), [answer]);
  });

  t.test("an id has the owner it was first told to, at each provider its own", async (t) => {
    const { owners, other } = await open(t);
    owners.add([file]);
    owners.add([{ ...file, key: "two" }]);
    t.same(await owners.find("file-1"), [file], "before it is written");
    await until(async () => (await other.find("file-1")).length > 0, "the other's view");
    other.add([{ ...file, key: "two" }]);
    other.add([{ ...file, provider: "other", key: "two" }]);
    t.same(await other.find("file-1"), [file, { ...file, provider: "other", key: "two" }], "and in the store");
    await until(async () => (await owners.find("file-1")).length === 2, "both");
  });

  t.test("ids of vendors and clients are only texts", async (t) => {
    const { owners, other } = await open(t);
    const odd = ["'; drop table object; --", "ü\ud800", "$1", "?", "x".repeat(1000)];
    owners.add(odd.map((id) => ({ ...file, id })));
    await until(async () => (await other.find("?")).length > 0, "the other's view");
    for (const id of odd) t.equal((await other.find(id)).length, 1, id.slice(0, 20));
    t.same(await other.find("nobody's\0"), []);
  });
}
