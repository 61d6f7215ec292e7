import t from "tap";
import { MemberList, ScanResult } from "../../src/wire/members.ts";
import { gathered } from "../support/gathered.ts";

const member = (name: string, start: number) => ({
  name,
  keyStart: 0,
  keyEnd: 0,
  start,
  end: start,
  kind: "null" as const,
});

gathered(t, "finds members by name, few or many; the last one of a name", async (t) => {
  const list = new MemberList();
  for (let i = 0; i < 60; i++) {
    list.add(member(`n${i}`, i));
    t.equal(list.find(`n${i}`)?.start, i);
    t.equal(list.find("n0")?.start, i < 30 ? 0 : 100);
    t.equal(list.find("toString"), undefined);
    if (i === 29) list.add(member("n0", 100));
  }
  const found = new ScanResult("object", list, 1, 2, 3, 0);
  t.equal(found.members.length, 61);
  t.equal(found.find("n59")?.start, 59);
});
