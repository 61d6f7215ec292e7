import { writeFileSync } from "node:fs";
import { resolve } from "node:path";
import { z } from "zod";
import type { Extensions } from "../config/plugins.ts";
import { FileSchema } from "../config/schema.ts";
import { thrownMessage } from "../core/errors.ts";
import { fileProblem } from "../core/file-problem.ts";
import { parseVerbArguments, type Terminal } from "./verb.ts";

type Json = z.core.JSONSchema.BaseSchema;

/** Prints the JSON Schema of gateway.yaml with the options of existing plugins. Exit codes: 0, 1 cannot be written. */
export async function runSchema(args: readonly string[], io: Terminal, extensions: Extensions): Promise<number> {
  const [file] = parseVerbArguments(args, { json: { type: "boolean" } }, 1).positionals;
  const text = JSON.stringify(await editorSchema(extensions, io), null, 1);
  // npm prints its own lines before ours; a file given as argument contains none of them. It is for editors: not indented.
  if (file === undefined) io.out(text);
  else return writeSchema(resolve(io.folder, file), `${text.replace(/^ +/gm, "")}\n`, io);
  return 0;
}

function writeSchema(file: string, text: string, io: Terminal): number {
  try {
    writeFileSync(file, text);
    return 0;
  } catch (thrown) {
    io.err(`cannot write ${file}: ${fileProblem(thrown, "folder")}`);
    return 1;
  }
}

async function editorSchema(extensions: Extensions, io: Terminal): Promise<Json> {
  const protocols = [...extensions.protocols.keys()];
  const schema: Json = z.toJSONSchema(FileSchema, {
    io: "input",
    override: ({ jsonSchema }) => {
      if (jsonSchema["extensions"] === "protocols") jsonSchema.enum = protocols;
      delete jsonSchema["extensions"];
    },
  });
  schema.title = "gateway.yaml";
  schema.patternProperties = { "^x-": {} };
  const plugins = schema.properties?.["plugins"];
  if (typeof plugins === "object") plugins.properties = await pluginOptions(extensions, io);
  return schema;
}

async function pluginOptions(extensions: Extensions, io: Terminal): Promise<Record<string, Json>> {
  const each: Record<string, Json> = {};
  for (const name of extensions.plugins.toSorted()) {
    try {
      const plugin = await extensions.plugin(name, undefined, io.folder);
      if (plugin) each[name] = pluginSchema(plugin.options);
    } catch (thrown) {
      io.err(`left out plugin "${name}": ${thrownMessage(thrown)}`);
    }
  }
  return each;
}

/** Returns a plugin's own schema plus the options of every plugin; null is allowed too. */
function pluginSchema(own: z.ZodType | undefined): Json {
  const { $schema: _, ...schema }: Json = z.toJSONSchema(own ?? z.strictObject({}), {
    io: "input",
    unrepresentable: "any",
  });
  const from: Json = {
    type: "string",
    description: "Another file than the one of this name in a plugins folder, or an npm package.",
  };
  const deadline: Json = {
    type: ["string", "number"] as unknown as "string",
    description: "How long one of its phases may take before the request ends with plugin_timeout; 10s when absent.",
  };
  const properties = { from, deadline, ...schema.properties };
  return { ...schema, type: ["object", "null"] as unknown as "object", properties };
}
