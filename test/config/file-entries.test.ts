import t from "tap";
import { fileEntries } from "../../src/config/file-entries.ts";

t.test("suggested lines use the file's own entries, and contain no secret", async (t) => {
  const written = fileEntries({
    keys: {
      ci: { key: "secret-of-ci-0123456789", models: ["fast-*"], tpm: "1M", budget: "$5/day" },
      bare: { hash: "0" },
    },
    limits: { groups: { "acme/research": { rpm: "off" } }, all: { rpm: 5 } },
    providers: { up: { url: "http://u", credential: "secret", health: { open: "1m" }, concurrency: 3 } },
    models: { fast: { targets: ["up:m", { to: "up:n", price: { input: 1 } }], price: { input: 2 } } },
  });
  t.same(Object.fromEntries(written.keys), { ci: { models: ["fast-*"], tpm: "1M", budget: "$5/day" }, bare: {} });
  t.same(Object.fromEntries(written.groups), { "acme/research": { rpm: "off" } });
  t.same(Object.fromEntries(written.providers), { up: { health: { open: "1m" }, concurrency: 3 } });
  t.same(Object.fromEntries(written.models), { fast: { targets: ["up:m", { to: "up:n", price: { input: 1 } }] } });
});

t.test("a file without such entries has none", async (t) => {
  const { keys, groups } = fileEntries({ providers: null });
  t.same([keys.size, groups.size], [0, 0]);
});
