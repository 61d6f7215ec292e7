import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import t, { type Test } from "tap";
import type { Limits } from "../../src/core/limit-kinds.ts";
import { dryStartPlugins } from "../../src/dry-start.ts";
import { loadWithExtensions } from "../../src/loaded-config.ts";
import { PluginError } from "../../src/loader/problems.ts";
import { limitsProblem } from "../../src/marketplace/budgets.ts";
import { startGateway } from "../support/gateway.ts";

/** What a check says of a file. */
async function problems(t: Test, yaml: string, env: Record<string, string> = {}): Promise<string[]> {
  const folder = mkdtempSync(join(tmpdir(), "gateway-budgets-"));
  t.teardown(() => rmSync(folder, { recursive: true, force: true }));
  const file = join(folder, "gateway.yaml");
  writeFileSync(file, yaml);
  const { config, extensions } = await loadWithExtensions({ file, env });
  return (await dryStartPlugins(config, extensions)).map(({ line, message }) => `${line} ${message}`);
}

const PARTS = `providers:
  demo: { url: "demo:" }
  p: { url: "http://127.0.0.1:9/v1", speaks: [openai-chat] }
models:
  echo: { targets: [demo:echo] }
  priced: { targets: [p:x], price: { input: 1, output: 2 }, output: 1k }
  endless: { targets: [p:y], price: { input: 1, output: 2 } }
  vectors: { targets: [p:v], price: { input: 1 }, can: [embeddings] }
  free: { targets: [p:f], price: { input: 0, output: 0 } }
  secret: { targets: [p:zzz-nobody-knows] }
`;

t.test(
  "a model without a price, or without a maximum output, is an error at its place where a budget reaches it",
  async (t) => {
    const key = (models: string) =>
      `keys: { ci: { key: 0123456789-0123456789, budget: $1/day, models: [${models}] } }\n`;
    t.match(await problems(t, PARTS + key("priced, secret")), [
      /^10 a budget needs prices, and the price of p:zzz-nobody-knows of the model "secret" is unknown; give .* price: .*output: 64k/,
    ]);
    t.notMatch(
      await problems(t, PARTS.replace("nobody-knows]", "$&, output: 1k") + key("secret")),
      [/output: 64k/],
      "a length that is known is not asked for",
    );
    t.match(await problems(t, PARTS + key("endless")), [
      /^7 a budget needs to know how long answers are .*output: 64k/,
    ]);
    const everywhere = "limits: { default: { budget: $1/day }, all: { budget: $9 }, groups: { a: { budget: $5 } } }\n";
    t.match(
      (await problems(t, PARTS + everywhere)).map((each) => each.split(" ")[0]),
      ["7", "10"],
      "each model once, however many budgets there are",
    );
    t.same(await problems(t, PARTS + key("echo, priced, vectors, free")), [], "models with a price, and free ones");
    t.same(await problems(t, PARTS), [], "without limits, no price is required");
  },
);

t.test(
  "a price without output is an error where a budget reaches its model, which would answer for free",
  async (t) => {
    const limits = "limits: { models: { vectors: { budget: { amount: $1, soft: true } } } }\n";
    t.match(await problems(t, PARTS.replace(", can: [embeddings]", "") + limits), [
      /^8 a budget needs prices, and the price of the model "vectors" at p:v has no output; add output to the price, or 0 .* can: \[embeddings\] to the model/,
    ]);
    t.same(await problems(t, PARTS.replace("[embeddings]", "[embeddings, vision, audio]") + limits), [], "from media");
    t.match(
      await problems(t, PARTS.replace("[embeddings]", "[images, tools]") + limits),
      [/has no output/],
      "and text",
    );
    t.match(await problems(t, PARTS.replace("{ input: 1 }, can: [embeddings]", "{ output: 1 }") + limits), [
      /has no input/,
    ]);
    t.same(await problems(t, PARTS.replace("{ input: 1 }, can: [embeddings]", "{ request: 1 }") + limits), []);
  },
);

t.test("the place of such a model is shown", async (t) => {
  const file = join(t.testdir({ "gateway.yaml": `limits: { all: { budget: $1/day } }\n${PARTS}` }), "gateway.yaml");
  const { config, extensions } = await loadWithExtensions({ file, env: {} });
  const [, found] = await dryStartPlugins(config, extensions);
  const line = "> 11 |   secret: { targets: [p:zzz-nobody-knows] }";
  t.match(found, { line: 11, column: 3 });
  t.ok(found?.frame?.includes(line));
  t.match(new PluginError(found ? [found] : []).message, /:11:3 error: a budget needs [^\n]+\n.*\n> 11 \| {3}secret: /);
});

t.test("only what a limit can reach needs a price, and a soft budget needs no maximum output", async (t) => {
  const limits = (text: string) => `limits: { ${text} }\n`;
  t.equal((await problems(t, PARTS + limits("default: { budget: $1 }"))).length, 2);
  t.equal((await problems(t, PARTS + limits("groups: { acme: { budget: $1 } }"))).length, 2);
  t.equal((await problems(t, PARTS + limits("providers: { p: { budget: $1 } }"))).length, 2);
  t.same(await problems(t, PARTS + limits("providers: { demo: { budget: $1 } }")), []);
  t.same(await problems(t, PARTS + limits("models: { priced: { budget: $1 } }")), []);
  t.same(await problems(t, PARTS + limits("models: { endless: { budget: { amount: $1, soft: true } } }")), []);
  t.same(await problems(t, PARTS + limits("all: { rpm: 5, tpm: 100, concurrency: 2 }")), [], "rates need no price");
});

t.test("the bundled gateway.yaml accepts a budget, with all its providers", async (t) => {
  const yaml = readFileSync(new URL("../../gateway.yaml", import.meta.url), "utf8");
  const names = ["OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY"];
  const env = Object.fromEntries(names.map((name) => [name, `made-up-${name.toLowerCase()}-0123456789`]));
  t.same(await problems(t, `${yaml}\nlimits: { default: { budget: $50/month } }\n`, env), []);
});

t.test("a gateway does not start with a budget that it could not enforce", async (t) => {
  const yaml = `${PARTS}limits: { all: { budget: $1 } }\n`;
  await t.rejects(startGateway(t, yaml), { message: /a budget needs/ });
});

t.test("limits of a key that is created at run time are enforced, or the reason why not is reported", async (t) => {
  const folder = mkdtempSync(join(tmpdir(), "gateway-budgets-"));
  t.teardown(() => rmSync(folder, { recursive: true, force: true }));
  const unkept = async (yaml: string, limits: Limits, models?: readonly string[]) => {
    const file = join(folder, "gateway.yaml");
    writeFileSync(file, PARTS + yaml);
    return limitsProblem((await loadWithExtensions({ file, env: {} })).config, limits, models);
  };
  const budget = { budgets: [{ nano: 1e9, per: "day", soft: false }] } as const;
  t.match(await unkept("", budget, ["secret"]), /the price of p:zzz-nobody-knows of the model "secret" is unknown/);
  t.match(await unkept("", budget, ["endless"]), /how long answers are at most/);
  t.equal(await unkept("", budget, ["priced", "echo"]), undefined);
  t.equal(await unkept("", { rpm: 5 }), undefined);
  t.match(await unkept("instances: 2\n", { rpm: 5 }), /each counts limits in its own memory/);
  t.match(
    await unkept("chains: { llm: [auth, models, usage] }\n", { rpm: 5 }),
    /^nothing enforces them on .*: add "limits" to/,
  );
});
