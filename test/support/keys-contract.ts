import { hash } from "node:crypto";
import type { Test } from "tap";
import type { CachedKeys } from "../../src/store/cached-keys.ts";
import { generateKey, isValidKey } from "../../src/store/key-format.ts";
import { type FileKey, keyVersion } from "../../src/store/key-rows.ts";
import type { IssuedKey, KeyChange, KeyRecord } from "../../src/store/keys.ts";
import { until } from "./until.ts";

const CI = "a-key-of-the-operators-own-choice";

/** An empty store of keys, and views of it like those of several processes. */
export interface KeyStore {
  view(fileKeys?: readonly FileKey[]): CachedKeys;
}

/** Tests for keys in any store. */
export function keysContract(t: Test, open: (t: Test) => KeyStore | Promise<KeyStore>): void {
  t.test("a key of gateway.yaml", async (t) => {
    const hashed = "another-key-that-only-its-owner-knows";
    const upper = hash("sha256", hashed).toUpperCase();
    const keys = (await open(t)).view([
      { name: "ci", key: CI, models: ["fast"], expires: 5 },
      { name: "by-hash", hash: upper },
      { name: "variable-not-set" },
      { name: "empty", key: "" },
    ]);
    const created = { source: "file", created: 0 } as const;
    t.same(await keys.find(CI), {
      id: "ci",
      name: "ci",
      models: ["fast"],
      expires: 5,
      hash: hash("sha256", CI),
      ...created,
    });
    t.equal((await keys.list()).length, 2, "one without a value gives no access");
    t.equal(await keys.find(""), undefined);
    t.match(await keys.find(hashed), { id: "by-hash", hash: upper.toLowerCase() }, "may be configured by its hash");
    t.equal(await keys.revoke("ci"), false, "is not revoked here");
    t.ok(await keys.find(CI));
    keys.replaceFileKeys([]);
    t.equal(await keys.find(CI), undefined, "is gone when a new gateway.yaml no longer lists it");
  });

  t.test("a revoked key is found as revoked", async (t) => {
    const keys = (await open(t)).view();
    const before = Date.now();
    const one = await keys.create({ name: "one" });
    const two = await keys.create({ name: "two" });
    t.equal((await keys.find(one.key))?.revoked, undefined);
    t.equal(await keys.revoke("one"), true, "by name");
    const revoked = (await keys.find(one.key))?.revoked ?? 0;
    t.ok(revoked >= before, "at once, in the same process");
    t.equal(await keys.revoke(one.record.id), true, "by id, again");
    t.equal((await keys.find(one.key))?.revoked, revoked, "which does not change when it happened");
    t.equal(await keys.revoke("one"), false, "its name is free now");
    t.equal(await keys.revoke("nobody"), false);
    t.equal((await keys.find(two.key))?.revoked, undefined, "others stay");
    const again = await keys.create({ name: "one" });
    t.not(again.record.id, one.record.id, "and its name may be used again");
  });

  t.test("a name that cannot be used", async (t) => {
    const keys = (await open(t)).view([{ name: "ci", key: CI }]);
    const taken = await keys.create({ name: "taken" });
    await t.rejects(
      keys.create({ name: taken.record.id }),
      { code: "invalid_field", status: 409 },
      "`revoke` would take it for another",
    );
    const other = await keys.create({ name: "other" });
    await t.rejects(keys.edit(other.record.id, { name: taken.record.id }), { code: "invalid_field", status: 409 });
    await t.rejects(keys.create({ name: "taken" }), {
      code: "invalid_field",
      status: 409,
      message: /named taken already.*revoke/,
    });
    await t.rejects(keys.create({ name: "ci" }), { code: "invalid_field", status: 409 }, "gateway.yaml has it");
    for (const name of ["", " ", " x", "x ", "a\nb", "a\u001b[2Jb", "x".repeat(101), generateKey().key]) {
      await t.rejects(
        keys.create({ name }),
        { code: "invalid_field", status: 400, param: "name" },
        JSON.stringify(name),
      );
    }
    for (const name of ["x", "Ünï cødé 🗝", "'; drop table key; --", "x".repeat(100)]) {
      t.equal((await keys.create({ name })).record.name, name);
    }
  });

  t.test("the first key is made once, and only where there is none", async (t) => {
    const store = await open(t);
    const keys = store.view();
    const [one, two] = await Promise.all([keys.ensureFirstKey(), store.view().ensureFirstKey()]);
    const key = one ?? two ?? "";
    t.equal([one, two].filter((made) => made !== undefined).length, 1);
    t.match(await keys.find(key), { name: "first" });
    await keys.revoke("first");
    t.equal(await keys.ensureFirstKey(), undefined, "an operator who revoked it gets no other");
    const other = await open(t);
    t.equal(await other.view([{ name: "ci", key: CI }]).ensureFirstKey(), undefined, "gateway.yaml has one");
    t.ok(await other.view([{ name: "variable-not-set" }]).ensureFirstKey(), "gateway.yaml has none that works");
  });

  t.test("keys are listed in the order they were made, also those of one millisecond", async (t) => {
    const keys = (await open(t)).view();
    const names = Array.from({ length: 20 }, (_, i) => `key-${i}`);
    for (const name of names) await keys.create({ name });
    t.same(
      (await keys.list()).map(({ name }) => name),
      names,
    );
  });

  t.test("all that an operator says of a key is kept, and can be changed and taken away", async (t) => {
    const keys = (await open(t)).view();
    const scope = {
      models: ["gpt-*"],
      paths: ["/v1/*"],
      addresses: ["10.0.0.0/8"],
      group: "acme/research",
      owner: "Ada",
      tags: { team: "search" },
      expires: 4_000_000_000_000,
    };
    const { key, record } = await keys.create({ name: "one", ...scope });
    t.match(await keys.find(key), scope);
    t.same(await keys.show("one"), record);
    const { models: _, ...left } = scope;
    const edited = await keys.edit(record.id, { name: "two", models: null, tags: { team: "ads", env: "test" } });
    t.match(edited, { ...left, id: record.id, name: "two", tags: { team: "ads", env: "test" } });
    t.equal(edited?.models, undefined);
    t.same(await keys.find(key), edited, "at once");
    t.equal(await keys.show("one"), undefined);
    t.equal(await keys.edit("nobody", { owner: "x" }), undefined);
    await keys.create({ name: "three" });
    await t.rejects(keys.edit("two", { name: "three" }), { code: "invalid_field", status: 409 });
    await t.rejects(keys.edit("two", { name: "\n" }), { code: "invalid_field", param: "name", status: 400 });
    t.match(await keys.edit("two", { name: "two" }), { name: "two" }, "its own name is not a conflict");
    const read = keyVersion((await keys.show("two")) as KeyRecord);
    await keys.disable("two");
    await keys.enable("two");
    t.match(await keys.edit("two", { owner: "me" }, read), { owner: "me" }, "based on the fields as they are");
    await t.rejects(keys.edit("two", { owner: "you" }, read), { status: 409, message: /changed by somebody else/ });
    t.match(await keys.show("two"), { owner: "me" });
    await keys.edit("two", { owner: null });
    await keys.revoke("two");
    t.equal(
      await keys.edit(record.id, { owner: "x", models: ["x"] }),
      undefined,
      "what a revoked one may stays as it was",
    );
    t.match(
      await keys.edit(record.id, { name: "left", owner: null, group: null, tags: null }),
      { name: "left", owner: undefined, group: undefined, tags: undefined, paths: scope.paths },
      "but the names of people can be removed from it",
    );
    t.type((await keys.find(key))?.revoked, "number", "it stays revoked");
  });

  t.test("a key that is rotated keeps id, name and scope, and the old one works for a while", async (t) => {
    const keys = (await open(t)).view();
    const first = await keys.create({ name: "one", models: ["fast"] });
    const before = Date.now();
    const second = await keys.rotate("one", 60_000);
    t.match(second?.record, { id: first.record.id, name: "one", models: ["fast"] });
    t.ok(isValidKey(second?.key ?? ""));
    t.not(second?.key, first.key);
    t.equal((await keys.find(second?.key ?? ""))?.expires, undefined);
    const old = await keys.find(first.key);
    t.equal(old?.id, first.record.id);
    t.ok((old?.expires ?? 0) >= before + 60_000 && (old?.expires ?? 0) <= Date.now() + 60_000, "and then expires");
    t.equal((await keys.show("one"))?.rotating, old?.expires);
    const third = await keys.rotate("one", 0);
    t.ok(await keys.find(third?.key ?? ""));
    t.equal(await keys.find(second?.key ?? ""), undefined, "without an overlap it is unknown at once");
    t.equal(await keys.find(first.key), undefined);
    t.equal(await keys.rotate("nobody", 0), undefined);
    await keys.edit("one", { expires: before + 1000 });
    await keys.rotate("one", 60_000);
    t.equal((await keys.find(third?.key ?? ""))?.expires, before + 1000, "no old key outlives the key");
  });

  t.test("a key whose new secret cannot be delivered is not rotated", async (t) => {
    const keys = (await open(t)).view();
    const first = await keys.create({ name: "one" });
    let second = "";
    const deliver = (issued: IssuedKey) => {
      second = issued.key;
      throw new Error("nobody reads it");
    };
    await t.rejects(keys.rotate("one", 60_000, deliver), { message: "nobody reads it" });
    t.ok(isValidKey(second));
    t.equal(await keys.find(second), undefined);
    t.match(await keys.find(first.key), { id: first.record.id, expires: undefined });
    t.equal((await keys.show("one"))?.rotating, undefined);
  });

  t.test("a key that is disabled is found as that, until it is enabled", async (t) => {
    const keys = (await open(t)).view();
    const { key, record } = await keys.create({ name: "one" });
    t.equal((await keys.find(key))?.disabled, undefined);
    const { disabled } = (await keys.disable("one")) ?? {};
    t.ok(disabled);
    t.equal((await keys.find(key))?.disabled, disabled);
    t.equal((await keys.disable(record.id))?.disabled, disabled, "since when it was first");
    t.equal((await keys.enable("one"))?.disabled, undefined);
    t.equal((await keys.find(key))?.disabled, undefined);
    await keys.revoke("one");
    t.equal(await keys.enable(record.id), undefined, "a revoked one is not restored");
    t.equal(await keys.disable("nobody"), undefined);
  });

  t.test("a group is disabled with those below it, in every view, until it is enabled", async (t) => {
    const store = await open(t);
    const [keys, other] = [store.view(), store.view([{ name: "ci", key: CI, group: "acme/ci" }])];
    const told: KeyChange[] = [];
    other.watch((change) => told.push(change));
    t.equal(await other.disabledGroup("acme/research"), undefined);
    const before = Date.now();
    await keys.disableGroup("acme");
    t.equal(await keys.disabledGroup("acme/research"), "acme", "at once where it was disabled");
    await until(async () => (await other.disabledGroup("acme/research")) === "acme", "the other view");
    for (const [group, by] of [
      ["acme", "acme"],
      ["acme-2", undefined],
      ["other/acme", undefined],
    ] as const)
      t.equal(await other.disabledGroup(group), by, group);
    await until(() => told.length > 0, "the news");
    t.same(told, [{ group: "acme" }]);
    const [since] = (await keys.listDisabledGroups()).values();
    t.ok(since !== undefined && since >= before && since <= Date.now());
    await keys.disableGroup("acme");
    await keys.disableGroup("acme/research");
    t.same([...(await other.listDisabledGroups())][0], ["acme", since], "since when it was first");
    await keys.enableGroup("acme");
    await keys.enableGroup("nobody");
    t.equal(await keys.disabledGroup("acme/research"), "acme/research", "stays disabled by itself");
    t.equal(await keys.disabledGroup("acme"), undefined);
    await until(async () => (await other.disabledGroup("acme")) === undefined, "the other view");
  });
}
