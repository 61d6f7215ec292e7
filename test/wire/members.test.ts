import t from "tap";
import { MemberList, ScanResult } from "../../src/wire/members.ts";
import { MAX_NAME } from "../../src/wire/window.ts";
import { gathered } from "../support/gathered.ts";
import { runLinear } from "../support/linear-work.ts";

const member = (name: string, start: number) => ({
  name,
  keyStart: 0,
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
  const found = new ScanResult("object", list, 1, 2, 0);
  t.equal(found.members.length, 61);
  t.equal(found.find("n59")?.start, 59);
});

gathered(t, "finds names that are too long for a map, and adds very many of them in linear time", async (t) => {
  const list = new MemberList();
  const long = (i: number) => `${"n".repeat(MAX_NAME)}${i}`;
  for (let i = 0; i < 40; i++) list.add(member(long(i), i));
  list.add(member(long(1), 100));
  t.equal(list.find(long(1))?.start, 100);
  t.equal(list.find(long(39))?.start, 39);
  t.equal(list.find(long(40)), undefined);
  const name = (i: number) => `${"n".repeat(MAX_NAME)}${String(i).padStart(6, "0")}`;
  runLinear(() => {
    const many = new MemberList();
    for (let i = 0; i < 8000; i++) many.add(member(name(i), i));
  });
});
