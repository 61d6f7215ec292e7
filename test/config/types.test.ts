import { dirname } from "node:path";
import t from "tap";
import { loadConfig } from "../../src/config/load.ts";
import { LEAST, vocabulary, write } from "./fixture.ts";

t.test("a file with only providers and models becomes a whole configuration", async (t) => {
  const file = write(t, LEAST);
  const { providers, models, plugins, paths, ...rest } = await loadConfig(file, vocabulary, {});
  t.equal(providers.length, 1);
  t.equal(models.length, 1);
  t.equal(plugins.size, 6);
  t.equal(paths.length, 7);
  t.same(rest, {
    file,
    folder: dirname(file),
    listen: { host: "127.0.0.1", port: 8080 },
    admin: { host: "127.0.0.1", port: 9090 },
    chains: new Map([
      ["llm", ["sse", "auth", "scrub", "models", "rewrite", "usage"]],
      ["read", ["auth"]],
      ["pass", ["auth", "scrub", "usage"]],
    ]),
    pathsOff: [],
    limits: {},
    keys: [],
    store: { ledger: `${dirname(file)}/data/gateway.db`, limits: "memory" },
    body: { limit: 33_554_432, idle: 30_000 },
    sockets: { idle: 600_000, message: 16_777_216 },
    drain: 600_000,
    envelopes: {},
    log: { level: "info" },
    notices: [],
    warnings: [],
  });
});
