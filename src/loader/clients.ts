import { join } from "node:path";
import { z } from "zod";
import { BUILT_IN } from "./discover.ts";
import { readFolder } from "./yaml-folder.ts";

const nonEmpty = z.string().min(1);

/** What a file of `plugins/clients/` may hold; its README tells what each member is for. */
const ClientFile = z.strictObject({
  name: nonEmpty,
  kind: z.enum(["agent", "app", "sdk", "command"]),
  protocol: nonEmpty,
  order: z.number().default(100),
  command: nonEmpty.optional(),
  arguments: z.array(z.string()).default([]),
  env: z.record(z.string(), z.string()).default({}),
  unset: z.array(nonEmpty).default([]),
  temporary: z.record(z.string(), z.string()).default({}),
  home: nonEmpty.optional(),
  files: z.array(z.strictObject({ path: nonEmpty, language: nonEmpty, text: nonEmpty })).default([]),
  snippets: z.array(z.strictObject({ language: nonEmpty, install: nonEmpty.optional(), text: nonEmpty })).default([]),
  notes: z.array(nonEmpty).default([]),
});

/** What a client must be told to speak with a gateway; in its texts `filled` puts address, key and model. */
export type Client = z.output<typeof ClientFile> & {
  /** Its file's name without the ending: what `connect` is given. */
  readonly id: string;
};

/** What stands in a client's texts. */
export interface ClientValues {
  /** The gateway's, without a slash at its end. */
  readonly address: string;
  readonly key: string;
  /** The id of a model. */
  readonly model: string;
}

/**
 * The clients that the gateway knows, by their order and name.
 * @throws PluginError with file and reason.
 */
export const loadClients = (folder = join(BUILT_IN, "clients")): Client[] => readFolder(folder, ClientFile);

let builtIn: readonly Client[] | undefined;

/** Those that come with the gateway, read once: a reload does not read them again. @throws PluginError with file and reason */
export const knownClients = (): readonly Client[] => (builtIn ??= loadClients());

/** A text of a client with these values in their places. */
export const filled = (text: string, values: ClientValues): string =>
  text.replaceAll(/\{\{(address|key|model)\}\}/g, (_, name: keyof ClientValues) => values[name]);
