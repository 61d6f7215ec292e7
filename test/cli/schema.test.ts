import { readFileSync } from "node:fs";
import { join } from "node:path";
import t from "tap";
import { z } from "zod";
import { runSchema } from "../../src/cli/schema.ts";
import type { Extensions } from "../../src/config/plugins.ts";
import { UsageError } from "../../src/text/format-error.ts";
import { extensions } from "../config/fixture.ts";
import { captured } from "../support/terminal.ts";

const schema = (folder: string, args: string[] = [], words: Extensions = extensions) =>
  captured((io) => runSchema(args, io, words), { folder });

type Json = { [name: string]: Json } & { enum?: string[] };

t.test("the schema is JSON Schema 2020-12, strict but for x- sections", async (t) => {
  const { code, out } = await schema(t.testdir());
  t.equal((await schema(t.testdir(), ["--json"])).out, out, "it is JSON in any case");
  const json = JSON.parse(out);
  t.equal(code, 0);
  t.equal(json.$schema, "https://json-schema.org/draft/2020-12/schema");
  t.equal(json.additionalProperties, false);
  t.same(json.patternProperties, { "^x-": {} });
  t.notMatch(out, '"extensions"');
});

t.test("fields that name a protocol list the existing ones", async (t) => {
  const json: Json = JSON.parse((await schema(t.testdir())).out);
  const names = ["openai-chat", "openai-responses", "anthropic-messages", "gemini"];
  const provider = json["properties"]?.["providers"]?.["additionalProperties"]?.["properties"];
  t.same(provider?.["protocol"]?.enum, names);
  t.same(provider?.["speaks"]?.["items"]?.enum, names);
  t.same(
    json["properties"]?.["paths"]?.["additionalProperties"]?.["anyOf"]?.[0]?.["properties"]?.["protocol"]?.enum,
    names,
  );
});

t.test("options of the available plugins are included", async (t) => {
  const plugins = JSON.parse((await schema(t.testdir())).out).properties.plugins.properties;
  t.same(Object.keys(plugins), [
    "auth",
    "doubtful",
    "ends",
    "gate",
    "limits",
    "models",
    "region",
    "rewrite",
    "scrub",
    "sse",
    "usage",
  ]);
  t.same(plugins.scrub.properties.mode.enum, ["strip", "reject", "report"]);
  t.equal(plugins.scrub.additionalProperties, false);
  t.ok(plugins.scrub.properties.from);
  t.same(plugins.region.required, ["region"]);
  t.same(Object.keys(plugins.usage.properties), ["from", "deadline"]);
});

t.test("a named file gets the schema, without what npm prints before it", async (t) => {
  const folder = t.testdir();
  const { code, out } = await schema(folder, ["gateway.schema.json"]);
  t.equal(code, 0);
  t.equal(out, "");
  const printed = (await schema(folder)).out;
  t.equal(readFileSync(join(folder, "gateway.schema.json"), "utf8"), `${printed.replace(/^ +/gm, "")}\n`);
});

t.test("a plugin that cannot be loaded, or described, does not prevent the rest from being written", async (t) => {
  const words: Extensions = {
    ...extensions,
    plugins: ["broken", "odd", "sse"],
    plugin: async (name, from, folder) =>
      name === "odd" ? { options: z.strictObject({ when: z.date() }) } : extensions.plugin(name, from, folder),
  };
  const { code, out, err } = await schema(t.testdir(), [], words);
  t.equal(code, 0);
  t.equal(err, 'left out plugin "broken": line 3: unexpected token');
  t.same(Object.keys(JSON.parse(out).properties.plugins.properties), ["odd", "sse"]);
});

t.test("a wrong command line is a usage error", async (t) => {
  await t.rejects(schema(t.testdir(), ["--x"]), { constructor: UsageError, message: /--x/ });
  await t.rejects(schema(t.testdir(), ["a", "b"]), { constructor: UsageError, message: /"b" is one word too many/ });
});

t.test("a file that cannot be written is reported in a sentence", async (t) => {
  const folder = t.testdir({ file: "" });
  t.hasStrict(await schema(folder, ["gone/x.json"]), {
    code: 1,
    out: "",
    err: `cannot write ${join(folder, "gone/x.json")}: there is no such folder`,
  });
  t.match(await schema(folder, ["file/x.json"]), {
    code: 1,
    err: /^cannot write .*: a part of its path is no folder$/,
  });
});
