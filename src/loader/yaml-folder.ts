import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { parse } from "yaml";
import { z } from "zod";
import { thrownMessage } from "../core/errors.ts";
import { pluginError } from "./problems.ts";

/**
 * Reads the YAML files of a folder, sorted by `order` and id; `id` is a file's name without the extension.
 * @throws PluginError with file and reason.
 */
export function readYamlFolder<Form extends z.ZodType<{ order: number }>>(folder: string, form: Form) {
  const names = readdirSync(folder).flatMap((file) => /^(.+)\.yaml$/.exec(file)?.[1] ?? []);
  const all = names.map((id): z.output<Form> & { readonly id: string } => {
    const file = join(folder, `${id}.yaml`);
    try {
      return { id, ...form.parse(parse(readFileSync(file, "utf8"))) };
    } catch (thrown) {
      const reason = thrown instanceof z.ZodError ? z.prettifyError(thrown) : thrownMessage(thrown);
      throw pluginError(file, reason, thrown);
    }
  });
  return all.sort((a, b) => a.order - b.order || (a.id < b.id ? -1 : 1));
}
