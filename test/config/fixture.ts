import { mkdirSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { z } from "zod";
import { loadConfig } from "../../src/config/load.ts";
import type { Extensions, KnownPlugin } from "../../src/config/plugins.ts";
import { ConfigError } from "../../src/config/problems.ts";
import type { Config } from "../../src/config/types.ts";

type Place = { testdir(): string };

const PLUGINS: Record<string, Partial<KnownPlugin>> = {
  sse: {
    builtIn: true,
    phases: ["response", "done"],
    options: z.strictObject({ ping: z.number().int().min(1).default(15) }),
  },
  auth: { builtIn: true, phases: ["access"], options: z.strictObject({ anonymous: z.boolean().default(false) }) },
  scrub: {
    builtIn: true,
    phases: ["access", "request", "response"],
    options: z.strictObject({ mode: z.enum(["strip", "reject", "report"]).default("strip") }),
  },
  models: { builtIn: true, phases: ["route", "response"], after: ["auth"], before: ["rewrite"] },
  limits: { builtIn: true, phases: ["route", "send", "done"], after: ["models"], before: ["rewrite", "usage"] },
  rewrite: { builtIn: true, phases: ["route", "send", "response"] },
  usage: { builtIn: true, phases: ["response", "done"], after: ["models"] },
  doubtful: {
    after: ["models", "modles"],
    before: ["rewrit", "rewrite"],
    warnings: ["respone is no phase, did you mean response?"],
  },
  ends: { phases: ["request", "response"], twice: true },
  gate: { phases: ["access", "route"] },
  region: { options: z.strictObject({ region: z.string() }) },
};

/** Protocols and plugins as a gateway has them; `region` is also a file of that name, `broken` cannot be loaded. */
export const extensions: Extensions = {
  protocols: new Map([
    ["openai-chat", { paths: ["/v1/chat/completions"] }],
    ["openai-responses", { paths: ["/v1/responses"] }],
    ["anthropic-messages", { paths: ["/v1/messages", "/v1/messages/count_tokens"] }],
    ["gemini", { paths: ["/v1beta/models/*"] }],
  ]),
  plugins: Object.keys(PLUGINS),
  async plugin(name, from) {
    if (name === "broken") throw new Error("line 3: unexpected token");
    if (from === "./gone.ts") throw new Error("there is no file /x/gone.ts");
    const found = from === undefined ? PLUGINS[name] : from === "./plugins/region.ts" ? PLUGINS["region"] : undefined;
    return found && { ...found, options: found.options };
  },
};

/** Writes a gateway.yaml, with other files beside it, into the test's own folder. */
export function write(t: Place, yaml: string, files: Record<string, string> = {}): string {
  const folder = t.testdir();
  for (const [name, text] of Object.entries({ "gateway.yaml": yaml, ...files })) {
    mkdirSync(dirname(join(folder, name)), { recursive: true });
    writeFileSync(join(folder, name), text);
  }
  return join(folder, "gateway.yaml");
}

/** Loads a gateway.yaml of that text. */
export function load(
  t: Place,
  yaml: string,
  env: NodeJS.ProcessEnv = {},
  files: Record<string, string> = {},
): Promise<Config> {
  return loadConfig(write(t, yaml, files), extensions, env);
}

/** Everything that is said against a gateway.yaml of that text, under the name gateway.yaml. */
export async function complaint(
  t: Place,
  yaml: string,
  env: NodeJS.ProcessEnv = {},
  files: Record<string, string> = {},
): Promise<string> {
  try {
    await load(t, yaml, env, files);
    return "";
  } catch (thrown) {
    if (!(thrown instanceof ConfigError)) throw thrown;
    return thrown.message.replaceAll(/^\S*gateway\.yaml:/gm, "gateway.yaml:");
  }
}

/** The same without the frames: `line:column message` each. */
export async function complaints(
  t: Place,
  yaml: string,
  env: NodeJS.ProcessEnv = {},
  files: Record<string, string> = {},
): Promise<string[]> {
  const text = await complaint(t, yaml, env, files);
  return [...text.matchAll(/^gateway\.yaml:(\d+:\d+) error: (.*)$/gm)].map(
    ([, place, message]) => `${place} ${message}`,
  );
}

/** The sections without which there is no gateway. */
export const MINIMAL_CONFIG = 'providers: { demo: { url: "demo:" } }\nmodels: { echo: { targets: [demo:echo] } }\n';
