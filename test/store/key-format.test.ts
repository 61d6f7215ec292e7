import t from "tap";
import { generateKey, isValidKey, looksLikeKey } from "../../src/store/key-format.ts";

t.test("a new key has its form, is valid, and is another each time", async (t) => {
  const { key, id } = generateKey();
  t.match(
    key,
    /^gw_[0-9a-z]{10}_[0-9A-Za-z]{43}_[0-9A-Za-z]{6}$/,
    "has four parts, and a double click selects all of it",
  );
  t.equal(key.split("_")[1], id, "carries its public id");
  t.ok(looksLikeKey(key), "looks like a key");
  t.ok(isValidKey(key), "is valid");
  const many = Array.from({ length: 2_000 }, () => generateKey());
  t.equal(new Set(many.map(({ id }) => id)).size, 2_000, "is another each time");
  t.ok(
    many.every(({ key }) => isValidKey(key)),
    "is valid each time",
  );
  const secrets = many.map(({ key }) => key.split("_")[2]).join("");
  const counts = new Map<string, number>();
  for (const character of secrets) counts.set(character, (counts.get(character) ?? 0) + 1);
  t.equal(counts.size, 62, "uses every letter and digit");
  const expected = secrets.length / 62;
  const farthest = Math.max(...[...counts.values()].map((count) => Math.abs(count - expected) / Math.sqrt(expected)));
  t.ok(farthest < 7, "none more often than chance has it", { farthest });
});

t.test("the checksum of a known key", async (t) => {
  const body = `gw_0123456789_${"A".repeat(43)}_`;
  // CRC-32 of the body is 0xb2dae967 by Python's zlib, here in base 62.
  t.ok(isValidKey(`${body}3h4AOH`), "is the CRC-32 of everything before it");
  t.notOk(isValidKey(`${body}3h4AOa`));
});

t.test("every single wrong character is detected", async (t) => {
  const { key } = generateKey();
  const alphabet = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_-.= \u00e9";
  const missed: string[] = [];
  for (let at = 0; at < key.length; at++) {
    for (const character of alphabet) {
      const wrong = key.slice(0, at) + character + key.slice(at + 1);
      if (wrong !== key && isValidKey(wrong)) missed.push(wrong);
    }
  }
  t.same(missed, []);
});

t.test("every swap of neighbours, lost or doubled character is detected", async (t) => {
  const missed: string[] = [];
  for (let round = 0; round < 50; round++) {
    const { key } = generateKey();
    for (let at = 0; at < key.length; at++) {
      const [before, one, two, after] = [key.slice(0, at), key.charAt(at), key.charAt(at + 1), key.slice(at + 2)];
      for (const wrong of [before + two + one + after, before + two + after, before + one + one + two + after]) {
        if (wrong !== key && isValidKey(wrong)) missed.push(wrong);
      }
    }
  }
  t.same(missed, []);
});

t.test("a text of any other form is no key", async (t) => {
  const { key } = generateKey();
  for (const text of [
    "",
    "gw_",
    "sk-abc",
    ` ${key}`,
    `${key} `,
    `${key}\n`,
    key.toUpperCase(),
    key.replace("gw_", "gx_"),
  ]) {
    t.notOk(looksLikeKey(text), JSON.stringify(text));
    t.notOk(isValidKey(text), JSON.stringify(text));
  }
  t.ok(looksLikeKey(`${key.slice(0, -6)}000000`), "a wrong checksum does not make a secret harmless");
});
